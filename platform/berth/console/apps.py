from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "berth.console"
    label = "console"
