"""``manage.py create_key TENANT``: a key of /v1; its token is printed once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q

from berth.tenants.models import Tenant
from berth.tenants.services import create_key


class Command(BaseCommand):
    help = "Create a key for a tenant (its slug or id) and print the token"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant")
        parser.add_argument("--name", default="manage.py")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = Tenant.objects.filter(Q(slug=options["tenant"]) | Q(id=options["tenant"])).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']}")
        self.stdout.write(create_key(tenant=tenant, name=options["name"], actor="manage.py")[1])
