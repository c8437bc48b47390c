"""``manage.py create_node NAME``: a node that may join; its token is printed once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from berth.core.errors import BerthError
from berth.fleet.services import create_node


class Command(BaseCommand):
    help = "Create a node and print the token its agent joins with"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(create_node(name=options["name"], actor="manage.py")[1])
        except BerthError as error:
            raise CommandError(error.message) from error
