"""Paged attention against a loop over tokens in float64, for random batches, tables and views; and int8 K and V."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.kernels.kv_memory import Int8Kv, PlainKv
from gpuruntime.kernels.paged_attention import AttentionPlan, View, paged_attention, plan_decodes, plan_prefill

BLOCK, HEADS, KV_HEADS, HEAD_DIM, BLOCKS = 16, 6, 2, 8, 64
SCALE = 0.3


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[tuple[int, int]], View]:
    """Rows of (first position, tokens), single tokens first and the longest context first, and what they see."""
    decodes = draw(st.lists(st.integers(0, 90), max_size=6))
    chunks = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(2, 40)), max_size=2))
    window = draw(st.none() | st.integers(1, 100))
    rows = [(position, 1) for position in sorted(decodes, reverse=True)] + chunks
    return rows or [(0, 1)], View(window)


@settings(max_examples=60, deadline=None)
@given(batches(), st.integers(0, 2**32 - 1))
def test_every_token_sees_what_its_view_says(drawn: tuple[list[tuple[int, int]], View], seed: int) -> None:
    rows, view = drawn
    random = np.random.default_rng(seed)
    order = random.permutation(BLOCKS)
    width = 7
    tables = order[: len(rows) * width].reshape(len(rows), width).astype(np.int32)
    kv = PlainKv(BLOCKS, BLOCK, KV_HEADS, HEAD_DIM, torch.float32)
    stored = random.standard_normal((len(rows), width * BLOCK, 2 * KV_HEADS, HEAD_DIM)).astype(np.float32)
    for table, context in zip(tables, stored, strict=True):
        slots = (table[:, None].astype(np.int64) * BLOCK + np.arange(BLOCK)).reshape(-1)
        kv.write(torch.from_numpy(slots), torch.from_numpy(context))
    total = sum(count for _, count in rows)
    q = random.standard_normal((total, HEADS, HEAD_DIM)).astype(np.float32)

    singles = sum(count == 1 for _, count in rows)
    positions = np.array([first for first, _ in rows], dtype=np.int32)
    decodes = plan_decodes(view, tables[:singles], positions[:singles], BLOCK, torch.float32)
    prefills, start = [], singles
    for (first, count), table in zip(rows[singles:], tables[singles:], strict=True):
        prefills.append(
            plan_prefill(view, start, table=table, first=first, count=count, block_size=BLOCK, dtype=torch.float32)
        )
        start += count
    found = paged_attention(torch.from_numpy(q), kv, AttentionPlan(view, decodes, tuple(prefills)), SCALE)

    expected = []
    token = 0
    for (first, count), context in zip(rows, stored.astype(np.float64), strict=True):
        for position in range(first, first + count):
            begin = 0 if view.window is None else max(0, position - view.window + 1)
            expected.append(_attend(q[token].astype(np.float64), context[begin : position + 1]))
            token += 1
    np.testing.assert_allclose(found.numpy(), np.stack(expected), rtol=0, atol=1e-5)


def _attend(q: np.ndarray, context: np.ndarray) -> np.ndarray:
    heads = []
    for head in range(HEADS):
        shared = head // (HEADS // KV_HEADS)
        scores = context[:, shared] @ q[head] * SCALE
        weights = np.exp(scores - scores.max())
        heads.append(weights / weights.sum() @ context[:, KV_HEADS + shared])
    return np.concatenate(heads)


@given(
    st.integers(0, 300),
    st.integers(1, 50),
    st.none() | st.integers(1, 120),
    st.integers(0, 40),
)
def test_a_view_names_exactly_the_blocks_it_sees(first: int, count: int, window: int | None, sinks: int) -> None:
    view = View(window, sinks)
    seen = set()
    for position in range(first, first + count):
        for key in range(position + 1):
            visible = window is None or key > position - window or key < sinks
            hidden = bool(view.hides(np.array(position), np.array(key)))
            assert hidden != visible
            if visible:
                seen.add(key // BLOCK)
    assert view.blocks(first, first + count - 1, BLOCK).tolist() == sorted(seen)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e4])
def test_int8_rounds_each_head_to_its_own_largest_value(scale: float) -> None:
    random = np.random.default_rng(5)
    kv = random.standard_normal((40, 2 * KV_HEADS, HEAD_DIM)) * random.uniform(0.1, 10, (40, 2 * KV_HEADS, 1)) * scale
    kv[3, 1] = 0
    memory = Int8Kv(8, BLOCK, KV_HEADS, HEAD_DIM, torch.float32)
    slots = torch.from_numpy(random.permutation(8 * BLOCK)[:40])
    memory.write(slots, torch.from_numpy(kv.astype(np.float32)))
    found = memory.read(torch.arange(8)).view(8 * BLOCK, 2 * KV_HEADS, HEAD_DIM)[slots].double().numpy()
    step = np.abs(kv).max(axis=-1, keepdims=True) / 127
    assert (np.abs(found - kv) <= step * 0.5001).all()
    assert (found[3, 1] == 0).all()
    largest = np.abs(kv).argmax(axis=-1)[..., None]
    np.testing.assert_allclose(np.take_along_axis(found, largest, -1), np.take_along_axis(kv, largest, -1), rtol=1e-6)


def test_int8_memory_starts_as_zeros_and_keeps_what_others_write() -> None:
    memory = Int8Kv(2, BLOCK, KV_HEADS, HEAD_DIM, torch.bfloat16)
    memory.write(torch.tensor([17]), torch.ones(1, 2 * KV_HEADS, HEAD_DIM, dtype=torch.bfloat16))
    read = memory.read(torch.tensor([1, 0]))
    assert read.dtype == torch.bfloat16
    assert read.shape == (2 * BLOCK, 2, KV_HEADS, HEAD_DIM)
    assert read[1].eq(1).all()
    assert read.float().sum() == 2 * KV_HEADS * HEAD_DIM
