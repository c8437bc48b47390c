from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "berth.fleet"
    label = "fleet"
