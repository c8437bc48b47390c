"""``manage.py api_reference``: the API reference, as ``docs/api.md`` holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandParser

from berth.api.reference import render

SCHEMA = Path(__file__).parents[2] / "api" / "schema.yaml"


class Command(BaseCommand):
    help = "writes the API reference from the committed schema, to standard output or to a file"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        text = render(yaml.safe_load(SCHEMA.read_text("utf-8")))
        if options["file"] is None:
            self.stdout.write(text)
        else:
            options["file"].write_text(text, "utf-8")
