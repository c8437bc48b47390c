"""Offered and good of the minutes that a version without these columns wrote, also while this one was installed."""

from __future__ import annotations

from typing import Any

from django.db import migrations

# A minute in which nothing was offered has neither key, and stays as it is.
FILL = """
    UPDATE metering_goodputminute SET offered = coalesce(("window"->>'offered')::bigint, 0),
        good = coalesce(("window"->>'good')::bigint, 0)
    WHERE id > %(after)s AND id <= %(to)s AND offered = 0 AND good = 0 AND "window" ? 'offered'
"""
BATCH = 50_000


def fill(apps: Any, schema_editor: Any) -> None:
    """A batch a transaction: the aggregator goes on writing meanwhile."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(min(id), 0) - 1, coalesce(max(id), -1) FROM metering_goodputminute")
        after, last = cursor.fetchone()
        while after < last:
            cursor.execute(FILL, {"after": after, "to": after + BATCH})
            after += BATCH


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("metering", "0002_explained_requests_rollups")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
