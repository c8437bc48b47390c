"""``manage.py bootstrap``: the first operator, tenant, key, node, model and deployment. Idempotent; prints JSON."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand

from berth.management.onboarding import bootstrap


class Command(BaseCommand):
    help = "Make what a first start needs; secrets are in the output only of the run that made them"

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(json.dumps(bootstrap()))
