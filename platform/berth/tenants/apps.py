from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "berth.tenants"
    label = "tenants"
