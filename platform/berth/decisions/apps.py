from django.apps import AppConfig


class DecisionsConfig(AppConfig):
    name = "berth.decisions"
    label = "decisions"
