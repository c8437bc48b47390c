"""``manage.py serve``: the web or gateway process (BERTH_ROLE says which)."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from berth.config import CONFIG
from berth.server import DRAIN_S, serve


class Command(BaseCommand):
    help = "Serve the console, the management API and /v1 (BERTH_ROLE=all), or one part of it (web, gateway)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default=CONFIG.host)
        parser.add_argument("--port", type=int, default=CONFIG.port)
        parser.add_argument("--drain", type=int, default=DRAIN_S, help="seconds open streams have when it is stopped")

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(serve(options["host"], options["port"], options["drain"]))
