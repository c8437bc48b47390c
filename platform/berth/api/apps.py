from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "berth.api"
    label = "api"
