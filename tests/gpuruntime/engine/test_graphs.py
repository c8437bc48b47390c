"""The arena of the captured decode steps, with a capture that stands for CUDA's: it may only read what lies still."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gpuruntime.engine.executor import StepBatch
from gpuruntime.engine.graphs import DecodeGraphs, Replay, captured_sizes, eagerly
from gpuruntime.engine.step_tensors import StepTensors, arrange

CPU = torch.device("cpu")


def told(step: StepTensors) -> Tensor:
    """What each row reads: its token, its context's length and the block of its last token."""
    last = (step.requests.lengths - 1).clamp_min(0).long() // 16
    blocks = step.requests.tables.gather(1, last.unsqueeze(1)).squeeze(1)
    return step.token_ids.long() * 10**9 + step.requests.lengths.long() * 10**6 + blocks.long()


def decodes(tokens: list[int], positions: list[int], wanted: list[int]) -> StepBatch:
    width = max(position // 16 + 1 for position in positions)
    count = len(tokens)
    return StepBatch(
        token_ids=np.array(tokens, dtype=np.int32),
        begins=np.arange(count + 1, dtype=np.int32),
        positions=np.array(positions, dtype=np.int32),
        tables=np.arange(count * width, dtype=np.int32).reshape(count, width),
        logits_rows=np.array(wanted, dtype=np.int32),
    )


class Recording:
    """A capture that keeps the sizes and, as a graph would, the one tensor that every replay writes."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.replayed: list[int] = []

    def __call__(self, function: Replay) -> Replay:
        found = function()
        size = len(found)
        self.sizes.append(size)

        def replay() -> Tensor:
            self.replayed.append(size)
            return found.copy_(function())

        return replay


@pytest.mark.parametrize(
    ("largest", "sizes"),
    [
        (1, [1]),
        (3, [1, 2, 3]),
        (8, [1, 2, 4, 8]),
        (9, [1, 2, 4, 8, 9]),
        (64, [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]),
    ],
)
def test_the_sizes_leave_few_rows_to_padding(largest: int, sizes: list[int]) -> None:
    assert captured_sizes(largest) == sizes


@given(st.data())
def test_each_row_gets_what_it_gets_alone_from_the_next_captured_size(data: st.DataObject) -> None:
    capture = Recording()
    graphs = DecodeGraphs(told, capture, largest=20, width=8, device=CPU)
    assert capture.sizes == [20, 16, 8, 4, 2, 1]
    for _ in range(3):
        count = data.draw(st.integers(1, 20))
        tokens = data.draw(st.lists(st.integers(-4, 300), min_size=count, max_size=count))
        positions = data.draw(st.lists(st.integers(0, 127), min_size=count, max_size=count))
        wanted = sorted(data.draw(st.sets(st.integers(0, count - 1))))
        batch = decodes(tokens, positions, wanted)
        step = arrange(batch, None)
        assert graphs.covers(step)
        found = graphs.run(step).tolist()
        width = batch.tables.shape[1]
        assert found == [
            tokens[row] * 10**9 + (positions[row] + 1) * 10**6 + row * width + positions[row] // 16 for row in wanted
        ]
        assert capture.replayed[-1] == min(size for size in capture.sizes if size >= count)


def test_what_was_not_captured_is_not_covered() -> None:
    graphs = DecodeGraphs(told, eagerly, largest=2, width=2, device=CPU)
    chunk = StepBatch(
        token_ids=np.zeros(3, dtype=np.int32),
        begins=np.array([0, 1, 3], dtype=np.int32),
        positions=np.zeros(2, dtype=np.int32),
        tables=np.zeros((2, 1), dtype=np.int32),
        logits_rows=np.array([0], dtype=np.int32),
    )
    assert not graphs.covers(arrange(chunk, None))
    assert not graphs.covers(arrange(decodes([1] * 3, [0] * 3, [0]), None))
    assert not graphs.covers(arrange(decodes([1], [32], [0]), None))
    assert graphs.covers(arrange(decodes([1, 1], [31, 0], [0]), None))
