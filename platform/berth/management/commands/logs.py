"""``manage.py logs NAME``: shows and follows one log."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from berth.config import CONFIG
from berth.embedded.paths import Home
from berth.embedded.tail import UnknownLog, find_logs, follow


class Command(BaseCommand):
    help = "Follows a log: web, scheduler, beat, agent, redis, postgres, a replica's id or a deployment's name."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--lines", type=int, default=50, help="how many old lines come first")
        parser.add_argument("-f", "--follow", action="store_true", default=True, help="the default")
        parser.add_argument("--no-follow", dest="follow", action="store_false", help="stop after the old lines")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            files = find_logs(Home(CONFIG.home), options["name"])
        except UnknownLog as error:
            raise CommandError(str(error), returncode=2) from None
        with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
            for line in follow(files, max(0, options["lines"]), on=options["follow"]):
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
