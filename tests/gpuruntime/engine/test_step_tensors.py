"""A step's batch on its way to the device, against one token after the other; needs no kernel and no GPU."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.engine.executor import Draws, StepBatch
from gpuruntime.engine.step_tensors import Layout, Sizes, arrange, pad, to_device

CPU = torch.device("cpu")


@st.composite
def batches(draw: st.DrawFn, *, most: int = 6, longest: int = 40) -> StepBatch:
    counts = draw(st.lists(st.integers(1, longest), min_size=1, max_size=most))
    positions = [draw(st.integers(0, 60)) for _ in counts]
    total = sum(counts)
    width = max(-(-(first + count) // 16) for first, count in zip(positions, counts, strict=True))
    wanted = sorted(draw(st.sets(st.integers(0, total - 1))))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    return StepBatch(
        token_ids=random.integers(-3, 200, total, dtype=np.int32),
        begins=np.cumsum([0, *counts], dtype=np.int32),
        positions=np.array(positions, dtype=np.int32),
        tables=random.integers(0, 1000, (len(counts), width), dtype=np.int32),
        logits_rows=np.array(wanted, dtype=np.int32),
    )


def draws_of(count: int) -> Draws:
    """Each field of row ``r`` tells ``r``, and no field is what a padded row has."""
    rows = np.arange(count)
    return Draws(
        temperatures=(rows + 1.5).astype(np.float32),
        top_ks=(rows + 7).astype(np.int32),
        top_ps=(1 / (rows + 2)).astype(np.float32),
        min_ps=(0.5 / (rows + 2)).astype(np.float32),
        seeds=-(rows.astype(np.int64) << 40) - 3,
        steps=(rows + 900).astype(np.int32),
    )


@given(batches())
def test_every_token_keeps_its_request_its_place_and_its_block(batch: StepBatch) -> None:
    step = to_device(arrange(batch, draws_of(len(batch.logits_rows))), CPU)
    counts = np.diff(batch.begins).tolist()
    order = [row for row, count in enumerate(counts) if count == 1]
    assert step.decodes == len(order)
    order += [row for row, count in enumerate(counts) if count > 1]

    places: dict[int, int] = {}
    seen: dict[str, list[Any]] = {"ids": [], "positions": [], "slots": [], "begins": [0]}
    for row in order:
        for offset in range(counts[row]):
            token, position = int(batch.begins[row]) + offset, int(batch.positions[row]) + offset
            places[token] = len(places)
            seen["ids"].append(int(batch.token_ids[token]))
            seen["positions"].append(position)
            seen["slots"].append(int(batch.tables[row, position // 16]) * 16 + position % 16)
        seen["begins"].append(len(places))
    assert step.token_ids.tolist() == seen["ids"]
    assert step.positions.tolist() == seen["positions"]
    assert step.slots.tolist() == seen["slots"]
    assert step.requests.begins.tolist() == seen["begins"]
    assert step.requests.lengths.tolist() == [int(batch.positions[row]) + counts[row] for row in order]
    assert step.requests.tables.tolist() == batch.tables[order].tolist()
    assert step.sample_rows.tolist() == [places[token] for token in batch.logits_rows.tolist()]
    expected = draws_of(len(batch.logits_rows))
    for name in Draws.__slots__:
        assert getattr(step.parameters, name).tolist() == getattr(expected, name).tolist()


@given(batches())
def test_without_draws_each_row_takes_its_largest_logit(batch: StepBatch) -> None:
    parameters = to_device(arrange(batch, None), CPU).parameters
    count = len(batch.logits_rows)
    assert parameters.temperatures.tolist() == [0.0] * count
    assert parameters.top_ps.tolist() == [1.0] * count
    assert parameters.seeds.dtype == torch.int64


@given(st.integers(0, 40), st.integers(0, 9), st.integers(0, 9), st.integers(1, 5))
def test_pointers_are_multiples_of_16_and_arrays_do_not_overlap(
    tokens: int, requests: int, sampled: int, width: int
) -> None:
    layout = Layout(Sizes(tokens, requests, sampled, width))
    step = layout.tensors(torch.zeros(layout.nbytes, dtype=torch.uint8), 0)
    arrays = [step.token_ids, step.positions, step.slots, step.sample_rows]
    arrays += [step.requests.begins, step.requests.lengths, step.requests.tables]
    arrays += [getattr(step.parameters, name) for name in Draws.__slots__]
    places = sorted((tensor.storage_offset() * tensor.element_size(), tensor.nbytes) for tensor in arrays)
    assert all(begin % 16 == 0 for begin, _ in places)
    assert all(begin + size <= after for (begin, size), (after, _) in itertools.pairwise(places))


@given(batches(longest=1), st.integers(0, 5), st.integers(0, 3))
def test_padding_keeps_the_rows_and_adds_some_that_touch_nothing(batch: StepBatch, rows: int, columns: int) -> None:
    count, width = batch.tables.shape
    draws = draws_of(len(batch.logits_rows))
    step = to_device(pad(arrange(batch, draws), count + rows, width + columns), CPU)
    assert step.decodes == count + rows
    assert step.token_ids.tolist() == batch.token_ids.tolist() + [0] * rows
    assert step.requests.lengths.tolist() == (batch.positions + 1).tolist() + [0] * rows
    assert step.slots[count:].tolist() == [-1] * rows
    assert step.requests.begins.tolist() == list(range(count + rows + 1))
    assert step.sample_rows.tolist() == list(range(count + rows))
    assert step.requests.tables[:count, :width].tolist() == batch.tables.tolist()
    assert step.requests.tables.sum() == batch.tables.sum()
    for index, row in enumerate(batch.logits_rows.tolist()):
        assert step.parameters.seeds[row] == draws.seeds[index]
        assert step.parameters.top_ps[row] == draws.top_ps[index]
    unsampled = sorted(set(range(count + rows)) - set(batch.logits_rows.tolist()))
    assert step.parameters.temperatures[unsampled].tolist() == [0.0] * len(unsampled)
    assert step.parameters.top_ps[unsampled].tolist() == [1.0] * len(unsampled)
