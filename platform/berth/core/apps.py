from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "berth.core"
    label = "core"
