from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "berth.audit"
    label = "audit"
