"""``ETag`` and ``If-Match``: a change made on what the caller saw is refused when someone else changed it since.

A tag is a digest of the row's stored columns, without those that the system itself keeps moving. It names the version
that a person may edit, not the bytes of one answer: nothing here is meant for caches.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models

from berth.core.errors import BerthError

# Written by reports, traffic and clocks. A person's change never lies in one of these alone.
MOVING = frozenset(
    {
        "address", "agent_version", "boot_id", "connected_at", "generation", "last_login", "last_seen_at",
        "last_used_at", "memory_used_bytes", "observed_at", "observed_generation", "planned_replicas", "power_w",
        "progress", "signals", "temperature_c", "updated_at", "utilisation",
    }
)  # fmt: skip


class Stale(BerthError):
    code = "stale"
    status = 412

    def __init__(self) -> None:
        super().__init__("It was changed since you read it; read it again and look at what is new")


def tag_of(row: models.Model, *more: Any, moving: frozenset[str] = MOVING) -> str:
    """A strong entity tag. ``more``: what else belongs to the resource, as JSON can write it."""
    columns = {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if f.name not in moving}
    text = json.dumps([columns, *more], cls=DjangoJSONEncoder, sort_keys=True, default=None)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def require_match(header: str, tag: str) -> None:
    """Raises ``Stale`` unless the ``If-Match`` header names ``tag`` or ``*``.

    A weak tag counts as its strong one: proxies that compress weaken tags, and ours never name bytes.
    """
    named = {part.strip().removeprefix("W/") for part in header.split(",")}
    if not named & {tag, "*"}:
        raise Stale
