"""Row leases: of all processes that try, one holds a name until it lets go or its time runs out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from berth.core.models import Lease


def take(name: str, holder: str, seconds: float) -> bool:
    """True when ``holder`` has the lease for ``seconds`` from now; renews its own. Judged by the database's clock."""
    Lease.objects.get_or_create(name=name)
    free = Q(expires_at=None) | Q(expires_at__lt=Now()) | Q(holder=holder)
    until = Now() + timedelta(seconds=seconds)
    return Lease.objects.filter(free, name=name).update(holder=holder, expires_at=until) == 1


def give_back(name: str, holder: str) -> None:
    Lease.objects.filter(name=name, holder=holder).update(holder="", expires_at=None)


@contextmanager
def hold(name: str, seconds: float) -> Iterator[bool]:
    """Yields whether the lease was free; gives it back at the end."""
    holder = secrets.token_hex(8)
    taken = take(name, holder, seconds)
    try:
        yield taken
    finally:
        if taken:
            give_back(name, holder)
