"""``manage.py create_user EMAIL --tenant SLUG --role ROLE``: a person who works in one tenant."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.db.models import Q

from berth.core.errors import BerthError
from berth.management.onboarding import new_password
from berth.tenants.models import Role, Tenant
from berth.tenants.services import add_member, create_user


class Command(BaseCommand):
    help = "Create a person with a role in a tenant (its slug or id); the generated password is printed once"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--name", default="")
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--role", choices=Role.values, default=Role.DEVELOPER)

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = Tenant.objects.filter(Q(slug=options["tenant"]) | Q(id=options["tenant"])).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']}")
        password = new_password()
        try:
            with transaction.atomic():
                user = create_user(email=options["email"], password=password, name=options["name"], actor="manage.py")
                add_member(tenant=tenant, user=user, role=options["role"], actor="manage.py")
        except BerthError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{user.email}  password {password}")
