"""Ownership of KV blocks under random use, and what the hashes separate."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gpuruntime.engine.kv import BlockPool, GhostList, chain_hash, root_hash


def chain(salt: bytes, *blocks: list[int]) -> list:
    digests, parent = [], root_hash(salt)
    for block in blocks:
        parent = chain_hash(parent, block)
        digests.append(parent)
    return digests


class PoolMachine(RuleBasedStateMachine):
    """Requests take, share, fill and release blocks; a plain list of owners is the oracle."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(7)
        self.owned: list[list[int]] = []

    @rule(count=st.integers(0, 4))
    def allocate(self, count: int) -> None:
        in_use = {block for blocks in self.owned for block in blocks}
        blocks = self.pool.allocate(count)
        if count > 7 - len(in_use):
            assert blocks is None
        else:
            assert blocks is not None
            assert len(set(blocks)) == count
            assert not in_use & set(blocks)
            self.owned.append(blocks)

    @rule(data=st.data(), token=st.integers(0, 2))
    def fill(self, data: st.DataObject, token: int) -> None:
        if self.owned:
            blocks = data.draw(st.sampled_from(self.owned))
            for block, digest in zip(blocks, chain(b"", *[[token + i] for i in range(len(blocks))]), strict=True):
                if block not in self.pool._hash_of:
                    self.pool.register(block, digest)

    @rule(token=st.integers(0, 2), length=st.integers(1, 4))
    def match(self, token: int, length: int) -> None:
        blocks = self.pool.match(chain(b"", *[[token + i] for i in range(length)]))
        assert len(blocks) <= length
        if blocks:
            self.owned.append(blocks)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.owned:
            self.pool.release(self.owned.pop(data.draw(st.integers(0, len(self.owned) - 1))))

    @invariant()
    def every_block_is_in_one_place(self) -> None:
        self.pool.audit()
        assert self.pool.available == 7 - len({block for blocks in self.owned for block in blocks})


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPool = PoolMachine.TestCase


def test_the_tail_of_a_chain_is_evicted_before_its_head() -> None:
    pool = BlockPool(3)
    blocks = pool.allocate(3)
    assert blocks is not None
    digests = chain(b"", [1], [2], [3])
    for block, digest in zip(blocks, digests, strict=True):
        pool.register(block, digest)
    pool.release(blocks)
    assert (pool.free, pool.cached) == (0, 3)

    assert pool.allocate(1) == [blocks[2]]
    assert pool.match(digests) == blocks[:2]


def test_salts_never_share_and_a_block_depends_on_all_before_it() -> None:
    assert chain(b"a", [1, 2]) != chain(b"b", [1, 2])
    assert chain(b"a", [1], [9])[1] != chain(b"a", [2], [9])[1]
    assert chain(b"a", [1], [2])[0] == chain(b"a", [1], [3])[0]


def test_a_pool_that_keeps_nothing_frees_at_once() -> None:
    pool = BlockPool(2, keep_released=False)
    blocks = pool.allocate(1)
    assert blocks is not None
    pool.register(blocks[0], chain(b"", [1])[0])
    pool.release(blocks)
    assert (pool.free, pool.cached) == (2, 0)


def test_audit_finds_a_lost_block() -> None:
    pool = BlockPool(2)
    pool.allocate(1)
    pool._references = [0, 0]
    with pytest.raises(RuntimeError, match="KV blocks"):
        pool.audit()


def test_ghosts_forget_the_longest_unused() -> None:
    ghosts = GhostList(capacity=2)
    a, b, c = chain(b"", [1], [2], [3])
    ghosts.add(a)
    ghosts.add(b)
    assert ghosts.leading([a]) == 1
    ghosts.add(c)
    assert ghosts.leading([b]) == 0
    assert ghosts.leading([a, b, c]) == 1
