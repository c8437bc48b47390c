from django.apps import AppConfig


class SlasConfig(AppConfig):
    name = "berth.slas"
    label = "slas"
