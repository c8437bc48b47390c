"""``manage.py restore FILE``: a house as it was backed up, in this BERTH_HOME or database."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from berth.embedded.lock import AlreadyRunning
from berth.management.archive import Manifest
from berth.management.backup import Refused, restore
from berth.management.services_away import in_words


class Command(BaseCommand):
    help = "Checks the file, then makes this house what was backed up. The house must not run."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--force", action="store_true", help="replace what is there: it is lost")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("berth.core.notify", "berth.core.version"):  # nobody is there to be told
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            manifest = restore(options["file"].resolve(), force=options["force"], say=self.stdout.write)
        except (psycopg.Error, DatabaseError, AlreadyRunning, Refused, OSError, ValueError) as error:
            raise CommandError(f"Nothing was changed: {in_words(error)}") from error
        self.stdout.write(f"Restored as of {manifest.created_at}. Every session ended; start it with manage.py up.")
        self._warn(manifest)

    def _warn(self, manifest: Manifest) -> None:
        if not manifest.secrets:
            self.stderr.write(
                "The file held no secrets. Unless the former BERTH_HOME/secrets is put in place before the "
                "start, make new API keys, reset second factors (manage.py reset_password EMAIL --mfa) and let nodes "
                "join anew."
            )
        if manifest.models and not manifest.model_files:
            self.stderr.write("The file held no models' files: those that are not here are fetched from their sources.")
