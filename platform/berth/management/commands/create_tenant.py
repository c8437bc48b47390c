"""``manage.py create_tenant SLUG``: a customer, and with --member a person who administers it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from berth.core.errors import BerthError
from berth.management.onboarding import new_password
from berth.tenants.models import Role, User
from berth.tenants.services import add_member, create_tenant, create_user

ACTOR = "manage.py"


class Command(BaseCommand):
    help = "Create a tenant; a member that is new gets a generated password, printed once"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--name", help="as shown; the slug when absent")
        parser.add_argument("--member", metavar="EMAIL")
        parser.add_argument("--role", choices=Role.values, default=Role.ADMIN)

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            tenant = create_tenant(name=options["name"] or options["slug"], slug=options["slug"], actor=ACTOR)
            self.stdout.write(tenant.id)
            if options["member"]:
                self._add(tenant, options["member"], options["role"])
        except BerthError as error:
            raise CommandError(error.message) from error

    def _add(self, tenant: Any, email: str, role: str) -> None:
        user = User.objects.filter(email__iexact=email).first()
        if user is None:
            password = new_password()
            user = create_user(email=email, password=password, actor=ACTOR)
            self.stdout.write(f"{user.email}  password {password}")
        add_member(tenant=tenant, user=user, role=role, actor=ACTOR)
