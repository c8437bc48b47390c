from django.apps import AppConfig


class PlansConfig(AppConfig):
    name = "berth.plans"
    label = "plans"
