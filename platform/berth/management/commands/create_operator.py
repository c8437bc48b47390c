"""``manage.py create_operator EMAIL``: a person who runs the platform."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from berth.core.errors import BerthError
from berth.management.onboarding import new_password
from berth.tenants.services import create_user


class Command(BaseCommand):
    help = "Create an operator; the generated password is printed once"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--name", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        password = new_password()
        try:
            user = create_user(
                email=options["email"], password=password, name=options["name"], is_operator=True, actor="manage.py"
            )
        except BerthError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{user.email}  password {password}")
