"""``manage.py up``: everything on this machine, in this terminal, until Ctrl-C."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from berth.config import CONFIG
from berth.embedded.house import House
from berth.embedded.lock import AlreadyRunning
from berth.embedded.nodes import BadFleet
from berth.embedded.preflight import CannotStart
from berth.embedded.startup import Up


class Command(BaseCommand):
    help = "Runs everything on this machine: the embedded services, web, scheduler, beat and agent. State: BERTH_HOME."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=CONFIG.port, help="where web listens (BERTH_PORT)")
        parser.add_argument("--host", default=CONFIG.host, help="the address web binds (BERTH_HOST)")

    def handle(self, *args: Any, **options: Any) -> None:
        house = House(CONFIG, host=options["host"], port=options["port"])
        try:
            status = Up(house).run()
        except (CannotStart, AlreadyRunning, BadFleet) as error:
            self.stderr.write(f"berth: {error}")
            status = 2
        sys.exit(status)
