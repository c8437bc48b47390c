"""Sign-in by an OpenID Connect provider (BERTH_OIDC_*). Without those settings nothing here is installed or routed.

    console --POST /oidc/start--> address of the provider, with state, nonce and PKCE kept in the session
    provider --GET /oidc/callback--> code for token, token checked, address for person, session begun
    console --POST /oidc/code--> the second factor of who has one

django-allauth carries the protocol; who a person is, and what their session may, is ours. It keeps nothing: no table
of its is made.
"""
