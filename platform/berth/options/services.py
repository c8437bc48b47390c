"""The one writer of options."""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction

from berth.audit.services import record
from berth.core.version import raise_version
from berth.options.models import OptionValue
from berth.options.registry import option
from berth.options.selectors import MEMORY


def lock_option(key: str) -> None:
    """Until the transaction ends nobody else changes it; its row need not exist."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"option:{key}"])


@transaction.atomic
def set_option(*, key: str, value: Any, actor: str) -> None:
    """None takes the default again. Raises ``Invalid`` for a value out of range."""
    known = option(key)
    lock_option(key)
    row = OptionValue.objects.filter(key=key).first()
    before = row.value if row else known.default
    after = known.default if value is None else known.checked(value)
    if value is None:
        OptionValue.objects.filter(key=key).delete()
    elif row is None or row.value != after:
        OptionValue.objects.update_or_create(key=key, defaults={"value": after, "changed_by": actor})
    if before != after:
        record(actor=actor, action="option.change", obj=OptionValue(key=key), before={key: before}, after={key: after})
        raise_version()
    MEMORY.forget()
    transaction.on_commit(MEMORY.forget)
