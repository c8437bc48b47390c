"""Which replica gets a request: bounded-load consistent hashing. Pure.

Rendezvous hashing orders the replicas for a conversation's key, so that a turn finds the prefix its last turn left,
and a replica that comes or goes moves only its own share. A replica above ``BOUND`` times the mean load is passed over
(Mirrokni, Thorup, Zadimoghaddam: Consistent Hashing with Bounded Loads, 2016).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

BOUND = 1.25


@dataclass(frozen=True, slots=True)
class Candidate:
    """``load``: requests it has now, as far as known; ``capacity``: how many it runs at once."""

    id: str
    load: int
    capacity: int
    kv_free: float = 1.0
    predicted_ttft_ms: float = 0.0


def affinity_key(tenant_id: str, affinity: bytes) -> bytes:
    return tenant_id.encode() + b"\0" + affinity


def order(key: bytes, candidates: Sequence[Candidate], ttft_ms: float | None = None) -> list[str]:
    """All candidates' ids, best first: by the hash, those with room (and in time) before those without."""
    if not candidates:
        return []
    ranked = sorted(candidates, key=lambda c: (_weight(key, c.id), c.id), reverse=True)
    total = sum(c.load for c in ranked) + 1
    places = sum(max(1, c.capacity) for c in ranked)

    def bound(c: Candidate) -> int:
        return math.ceil(BOUND * total * max(1, c.capacity) / places)

    def misfit(c: Candidate) -> tuple[bool, bool, bool]:
        full = c.load >= c.capacity or c.kv_free <= 0.02
        late = ttft_ms is not None and c.predicted_ttft_ms > ttft_ms
        return full, late, c.load >= bound(c)

    return [c.id for c in sorted(ranked, key=misfit)]


def _weight(key: bytes, candidate: str) -> bytes:
    return hashlib.blake2b(
        candidate.encode(), key=hashlib.blake2b(key, digest_size=32).digest(), digest_size=8
    ).digest()
