"""``manage.py backup FILE``: the whole house in one file, while it runs or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from berth.embedded.lock import AlreadyRunning
from berth.management.archive import BadArchive
from berth.management.backup import Refused, write_backup
from berth.management.services_away import in_words


class Command(BaseCommand):
    help = "Writes the database, a list of the models and, if asked, their files and the secrets into one file"
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--secrets", action="store_true", help="also BERTH_HOME/secrets: who has the file has all")
        parser.add_argument("--models", action="store_true", help="also the models' files, not only their list")
        parser.add_argument("--force", action="store_true", help="replace a file that exists")

    def handle(self, *args: Any, **options: Any) -> None:
        target: Path = options["file"].resolve()
        if target.exists() and not options["force"]:
            raise CommandError(f"{target} exists; --force replaces it")
        try:
            manifest = write_backup(
                target, with_secrets=options["secrets"], with_models=options["models"], say=self.stdout.write
            )
        except (psycopg.Error, DatabaseError, AlreadyRunning, Refused, BadArchive, OSError) as error:
            raise CommandError(f"Nothing was written: {in_words(error)}") from error
        self.stdout.write(f"{target}: {target.stat().st_size} bytes, {len(manifest.models)} models listed")
        if options["secrets"]:
            self.stderr.write(
                "It holds this house's secrets: whoever reads it can sign as the house, read second factors and join "
                "nodes. Keep it as you would keep those."
            )
        else:
            self.stderr.write(
                "It holds no secrets. Without BERTH_HOME/secrets a restored house knows no API key, no second factor "
                "and no node: keep a copy of that folder elsewhere, or back up with --secrets."
            )
