"""``berth``: the platform from a terminal. Talks HTTP only and imports no Django, so that it starts at once.

Its environment is BERTH_CLI_URL, BERTH_CLI_KEY (for the management API), BERTH_CLI_API_KEY (for chat) and
BERTH_CLI_TENANT.
"""
