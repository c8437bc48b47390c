"""Public ids: a prefix that names the kind and 26 characters that sort by time of creation (ULID's layout)."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> str:
    """``prefix`` + "_" + 48 bits of milliseconds and 80 random bits in Crockford's base 32.

    Of one process, ids of one millisecond sort by creation as well: they go on from the last by a random step.
    """
    global _last  # noqa: PLW0603
    fresh = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    with _lock:
        number = fresh if fresh > _last else _last + 1 + secrets.randbits(64)
        _last = number
    return f"{prefix}_{_written(number)}"


def earliest_id(prefix: str, at_s: float) -> str:
    """No id made at ``at_s`` (Unix time) or later sorts before it: a bound for rows that are found by id."""
    return f"{prefix}_{_written(int(at_s * 1000) << 80)}"


def _written(number: int) -> str:
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def created_s(public_id: str) -> float:
    """When ``new_id`` made it, in seconds of its maker's clock. Raises ``ValueError`` for what is no such id."""
    digits = public_id.rpartition("_")[2]
    if len(digits) != 26:
        raise ValueError(f"{public_id!r} is not an id")
    number = 0
    for digit in digits:
        number = number << 5 | _ALPHABET.index(digit)
    return (number >> 80) / 1000


class IdFactory:
    """A field's default that migrations can write down: ``IdFactory("ten")``."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __call__(self) -> str:
        return new_id(self.prefix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdFactory) and other.prefix == self.prefix

    def __hash__(self) -> int:
        return hash(self.prefix)

    def deconstruct(self) -> tuple[str, list[str], dict[str, str]]:
        return "berth.core.ids.IdFactory", [self.prefix], {}
