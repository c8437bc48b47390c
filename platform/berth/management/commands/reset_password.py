"""``manage.py reset_password EMAIL``: a new password for a person who lost theirs."""

from __future__ import annotations

from typing import Any

from axes.utils import reset
from django.core.management.base import BaseCommand, CommandError, CommandParser

from berth.management.onboarding import new_password
from berth.tenants.models import User
from berth.tenants.services import set_password


class Command(BaseCommand):
    help = "Set a generated password, printed once; also ends a lock-out and every session of that person"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email__iexact=options["email"]).first()
        if user is None:
            raise CommandError(f"Nobody has the address {options['email']}")
        password = new_password()
        set_password(user=user, password=password, actor="manage.py")
        reset(username=user.email)
        self.stdout.write(f"{user.email}  password {password}")
