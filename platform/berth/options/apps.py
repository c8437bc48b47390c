from django.apps import AppConfig


class OptionsConfig(AppConfig):
    name = "berth.options"
    label = "options"
