"""Which prompt blocks this replica has seen: what a tenant's TTFT limit counts as new (docs/goodput.md).

Only hashes are kept, so the memory outlives the eviction of the blocks themselves: a tenant is not charged for our
eviction. Each hash covers everything before it and the tenant's salt, so equal text of two tenants never matches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from gpuruntime.goodput import BLOCK_TOKENS

CAPACITY = 1 << 20


class SeenBlocks:
    """A bounded LRU of chained block hashes."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._hashes: OrderedDict[bytes, None] = OrderedDict()

    def new_tokens(self, hashes: Sequence[bytes], prompt_tokens: int) -> int:
        """Prompt tokens minus the leading full blocks seen before."""
        leading = 0
        for block in hashes:
            if block not in self._hashes:
                break
            leading += 1
        return prompt_tokens - leading * BLOCK_TOKENS

    def remember(self, hashes: Sequence[bytes]) -> None:
        """The engine has computed these blocks (the request got its first token)."""
        for block in hashes:
            self._hashes[block] = None
            self._hashes.move_to_end(block)
        while len(self._hashes) > self._capacity:
            self._hashes.popitem(last=False)


def block_hashes(token_ids: Sequence[int], salt: bytes) -> list[bytes]:
    """One chained 16-byte hash for each full block of the prompt."""
    data = np.asarray(token_ids, dtype="<i4").tobytes()
    width = BLOCK_TOKENS * 4
    parent = blake2b(salt, digest_size=16).digest()
    hashes = []
    for start in range(0, len(data) - width + 1, width):
        parent = blake2b(parent + data[start : start + width], digest_size=16).digest()
        hashes.append(parent)
    return hashes
