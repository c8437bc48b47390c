"""Who owns the KV blocks.

A block holds K and V of 16 tokens and is always in one of three places:

    free --allocate--> held --release, not hashed--> free
                       held --release, hashed------> cached --match----> held
                                                     cached --allocate-> held   (evicted: its hash is forgotten)

``held`` blocks have a reference count of at least one; requests with the same beginning share them. ``cached`` blocks
have none but keep their content until the memory is needed, least recently used first and a chain's tail before its
head, because a head without its tail is still worth something. ``free + cached + held = total`` (``audit``).
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import NewType

BlockHash = NewType("BlockHash", bytes)


def root_hash(salt: bytes) -> BlockHash:
    """Where a tenant's chain begins: two salts never share a block."""
    return BlockHash(hashlib.sha256(b"berth.kv.1" + salt).digest())


def chain_hash(parent: BlockHash, tokens: Sequence[int]) -> BlockHash:
    """SHA-256 of everything up to and including this full block."""
    return BlockHash(hashlib.sha256(parent + array("q", tokens).tobytes()).digest())


class BlockPool:
    """Reference-counted blocks ``0 .. total - 1`` with a content-addressed cache of the released ones."""

    def __init__(self, total: int, *, keep_released: bool = True) -> None:
        self.total = total
        self._keep_released = keep_released
        self._free = list(range(total - 1, -1, -1))
        self._references = [0] * total
        self._hash_of: dict[int, BlockHash] = {}
        self._block_of: dict[BlockHash, int] = {}
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def cached(self) -> int:
        return len(self._cached)

    @property
    def available(self) -> int:
        """Blocks that ``allocate`` can give out now."""
        return len(self._free) + len(self._cached)

    @property
    def references(self) -> dict[int, int]:
        """The held blocks and how many requests hold each."""
        return {block: count for block, count in enumerate(self._references) if count > 0}

    def allocate(self, count: int) -> list[int] | None:
        """``count`` blocks with one reference each, or None (and no change) when there are not enough."""
        if count > self.available:
            return None
        blocks = [self._free.pop() if self._free else self._evict() for _ in range(count)]
        for block in blocks:
            self._references[block] = 1
        return blocks

    def match(self, hashes: Sequence[BlockHash]) -> list[int]:
        """Takes a reference on the longest known run of leading blocks and returns them."""
        blocks = []
        for digest in hashes:
            block = self._block_of.get(digest)
            if block is None:
                break
            if self._references[block] == 0:
                del self._cached[block]
            self._references[block] += 1
            blocks.append(block)
        return blocks

    def register(self, block: int, digest: BlockHash) -> None:
        """Makes a full, computed block findable. The first block with a content wins; a twin stays private."""
        if self._keep_released and digest not in self._block_of:
            self._block_of[digest] = block
            self._hash_of[block] = digest

    def release(self, blocks: Sequence[int]) -> None:
        """Gives back one reference on each block of a request, in the request's order."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block] > 0:
                continue
            if block in self._hash_of:
                self._cached[block] = None
            else:
                self._free.append(block)

    def audit(self) -> None:
        """Raises ``RuntimeError`` when a block is lost, double-owned, or the indexes disagree."""
        held = {block for block, count in enumerate(self._references) if count > 0}
        free, cached = set(self._free), set(self._cached)
        if len(free) != len(self._free) or len(free) + len(cached) + len(held) != self.total:
            raise RuntimeError(
                f"KV blocks: free {len(self._free)} + cached {len(cached)} + held {len(held)} != {self.total}"
            )
        if free & cached or free & held or cached & held or min(self._references, default=0) < 0:
            raise RuntimeError("KV blocks: one block is in two places")
        if {block: digest for digest, block in self._block_of.items()} != self._hash_of:
            raise RuntimeError("KV blocks: the hash indexes disagree")
        if free & set(self._hash_of):
            raise RuntimeError("KV blocks: a free block still has a hash")

    def _evict(self) -> int:
        block, _ = self._cached.popitem(last=False)
        del self._block_of[self._hash_of.pop(block)]
        return block


class GhostList:
    """Hashes of blocks this replica has computed, remembered after eviction, the oldest forgotten first.

    ``new_prompt_tokens`` (goodput.md) counts against it: a tenant is not charged for our eviction.
    """

    def __init__(self, capacity: int = 1 << 20) -> None:
        self._capacity = capacity
        self._seen: OrderedDict[BlockHash, None] = OrderedDict()

    def add(self, digest: BlockHash) -> None:
        self._seen[digest] = None
        self._seen.move_to_end(digest)
        if len(self._seen) > self._capacity:
            self._seen.popitem(last=False)

    def leading(self, hashes: Sequence[BlockHash]) -> int:
        """How many leading blocks were seen; those become the most recently used."""
        count = 0
        for digest in hashes:
            if digest not in self._seen:
                break
            self._seen.move_to_end(digest)
            count += 1
        return count
