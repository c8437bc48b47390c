"""``manage.py reset_password EMAIL``: a new password for a person who lost theirs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from berth.management.onboarding import new_password
from berth.tenants.lockout import clear_lockout
from berth.tenants.selectors import find_user
from berth.tenants.services import disable_factor, set_password

ACTOR = "manage.py"


class Command(BaseCommand):
    help = "Set a generated password, printed once; also ends a lock-out and every session of that person"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--mfa", action="store_true", help="also switch off the second factor")

    def handle(self, *args: Any, **options: Any) -> None:
        user = find_user(options["email"])
        if user is None:
            raise CommandError(f"Nobody has the address {options['email']}")
        password = new_password()
        with transaction.atomic():
            set_password(user=user, password=password, actor=ACTOR)
            if options["mfa"] and disable_factor(user=user, actor=ACTOR):
                self.stderr.write("The second factor is off.")
            clear_lockout(user.email)
        self.stdout.write(f"{user.email}  password {password}")
