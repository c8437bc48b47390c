"""``manage.py create_key TENANT``: an API key; its token is printed once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q
from django.utils import timezone

from berth.core.errors import BerthError
from berth.deployments.models import Deployment
from berth.tenants.models import KeyScope, Tenant
from berth.tenants.services import create_key


class Command(BaseCommand):
    help = "Create a key for a tenant (its slug or id) and print the token"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant")
        parser.add_argument("--name", default="manage.py")
        parser.add_argument(
            "--scope", action="append", choices=KeyScope.values, help="may be given again; inference when absent"
        )
        parser.add_argument(
            "--deployment",
            action="append",
            default=[],
            metavar="NAME_OR_ID",
            help="may be given again; all when absent",
        )
        parser.add_argument("--days", type=int, help="how long it works; for ever when absent")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = Tenant.objects.filter(Q(slug=options["tenant"]) | Q(id=options["tenant"])).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']}")
        days = options["days"]
        if days is not None and not 1 <= days <= 36500:
            raise CommandError(f"--days {days}: expected 1 to 36500")
        try:
            _, token = create_key(
                tenant=tenant,
                name=options["name"],
                actor="manage.py",
                scopes=options["scope"],
                deployments=[_id_of(tenant, name) for name in options["deployment"]],
                expires_at=timezone.now() + timedelta(days=days) if days else None,
            )
        except BerthError as error:
            raise CommandError(error.message) from error
        self.stdout.write(token)


def _id_of(tenant: Tenant, name: str) -> str:
    """The id of one of the tenant's own by its name; anything else is taken for an id."""
    found = Deployment.objects.for_tenant(tenant.id).filter(name=name).values_list("id", flat=True).first()
    return found or name
