"""What ``restore`` does to a BERTH_HOME of its own, as JSON. Run as a script by test_backup.py.

Usage: restored_house.py HOME BACKUP CUT WRONG TOKEN TABLE...: ``CUT`` ends early, ``WRONG`` says a number of rows that
it has not, so that only the load finds out.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

HOME, BACKUP, CUT, WRONG = map(Path, sys.argv[1:5])
TOKEN, TABLES = sys.argv[5], sys.argv[6:]
REPOSITORY = Path(__file__).resolve().parents[3]
os.environ["BERTH_HOME"] = str(HOME)
os.environ["DJANGO_SETTINGS_MODULE"] = "berth.settings"
sys.path[:0] = [str(REPOSITORY / "platform"), str(REPOSITORY)]

import django  # noqa: E402

django.setup()

from django.core.management import CommandError, call_command  # noqa: E402
from django.db import connection  # noqa: E402

from berth.embedded import lock  # noqa: E402
from berth.embedded.paths import Home  # noqa: E402
from berth.embedded.postgres import EmbeddedPostgres  # noqa: E402
from berth.tenants import keys  # noqa: E402
from berth.tenants.models import ApiKey  # noqa: E402
from berth.tenants.services import create_tenant  # noqa: E402


def restore(source: Path, *, force: bool = False) -> str:
    """The one error, empty when it went well."""
    try:
        with Path(os.devnull).open("w") as nowhere:
            call_command("restore", str(source), force=force, stdout=nowhere, stderr=nowhere)
    except CommandError as error:
        return str(error)
    return ""


def rows(table: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT to_jsonb(t)::text FROM {table} t")
        return sorted(row[0] for row in cursor.fetchall())


def slugs() -> list[str]:
    return [json.loads(row)["slug"] for row in rows("tenants_tenant")]


def main() -> dict[str, Any]:
    said: dict[str, Any] = {"cut": restore(CUT), "made_by_cut": Home(HOME).postgres.exists()}
    said["first"] = restore(BACKUP)
    if said["first"]:
        return said
    connection.close_pool()  # the server it knew was stopped
    server = EmbeddedPostgres(Home(HOME).postgres)
    try:
        said["rows"] = {table: rows(table) for table in TABLES}
        key = ApiKey.objects.for_platform().get(id=TOKEN.partition(".")[0])
        said["key_opens"] = keys.verify(TOKEN, key.digest, key.pepper_id)
        create_tenant(name="Later", slug="later", actor="test")
        said["in_use"] = restore(BACKUP)
        said["cut_force"] = restore(CUT, force=True)
        said["wrong_force"] = restore(WRONG, force=True)
        with lock.hold(Home(HOME).lock, HOME):
            said["running"] = restore(BACKUP, force=True)
        said["slugs_kept"] = slugs()
        said["force"] = restore(BACKUP, force=True)
        said["slugs_forced"] = slugs()
    finally:
        connection.close()
        server.stop()
    return said


if __name__ == "__main__":
    print(json.dumps(main()))
