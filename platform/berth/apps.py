from django.apps import AppConfig


class BerthConfig(AppConfig):
    """Only for the management commands."""

    name = "berth"
    label = "berth"
