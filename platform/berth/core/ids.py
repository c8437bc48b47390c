"""Public ids: a prefix that names the kind and 26 characters that sort by time of creation (ULID's layout)."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """``prefix`` + "_" + 48 bits of milliseconds and 80 random bits in Crockford's base 32."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    digits = [_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5)]
    return f"{prefix}_{''.join(digits)}"


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
