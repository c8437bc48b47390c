"""The sampler as a whole: rows do not see each other, seeds repeat, greedy is the largest."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from gpuruntime.backend import SamplingParams
from gpuruntime.sampling.row import Picking, SampleRow, picking
from gpuruntime.sampling.sampler import sample, uniform


def tokens(logits: torch.Tensor, rows: list[SampleRow]) -> list[int]:
    return [picked.token for picked in sample(logits, rows)]


def mixed_rows(count: int, vocab: int) -> list[SampleRow]:
    """Every kind of row, in every combination that the generator comes to."""
    choose = random.Random(4)
    return [
        SampleRow(
            SamplingParams(
                1,
                temperature=choose.choice([0.0, 0.3, 1.0, 1.0, 2.5]),
                top_p=choose.choice([1.0, 1.0, 0.4, 0.9, 0.99]),
                top_k=choose.choice([0, 0, 1, 40, 100, 10**6]),
                min_p=choose.choice([0.0, 0.0, 0.05]),
                presence_penalty=choose.choice([0.0, 0.0, 1.0]),
                frequency_penalty=choose.choice([0.0, 0.0, 0.5]),
                repetition_penalty=choose.choice([1.0, 1.0, 1.2]),
                logit_bias=choose.choice([(), ((3, 5.0), (8, -100.0))]),
                logprobs=choose.choice([None, None, 0, 5, 20]),
            ),
            uniform(9, index),
            tuple(choose.choices(range(vocab), k=50)),
            tuple(choose.choices(range(vocab), k=index)),
            choose.choice([(), (0, 5)]),
        )
        for index in range(count)
    ]


@pytest.mark.parametrize("vocab", [9, 64, 1000, 5003])
def test_a_row_does_not_depend_on_its_neighbours_in_any_bit(vocab: int) -> None:
    torch.manual_seed(5)
    logits = torch.randn(64, vocab) * 2
    rows = mixed_rows(64, vocab)
    alone = [sample(logits[index : index + 1], [rows[index]])[0] for index in range(64)]

    choose = random.Random(6)
    for size in range(1, 65):
        members = choose.sample(range(64), size)
        assert sample(logits[members], [rows[index] for index in members]) == [alone[index] for index in members]


def test_threads_change_no_bit() -> None:
    torch.manual_seed(8)
    logits = torch.randn(32, 30_001) * 2
    rows = mixed_rows(32, 30_001)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(sample(logits, rows))
            results.append([sample(logits[index : index + 1], [rows[index]])[0] for index in range(32)])
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1] == results[2] == results[3]


def test_a_seed_gives_the_same_text_beside_any_other_requests() -> None:
    torch.manual_seed(7)
    params = SamplingParams(1, temperature=1.2, top_p=0.95, frequency_penalty=0.4)
    table = torch.randn(300, 300) * 3

    def text(seed: int, neighbours: int) -> list[int]:
        output: list[int] = []
        for index in range(30):
            logits = torch.cat([table[output[-1:] or [0]], torch.randn(neighbours, 300)])
            others = mixed_rows(neighbours, 300)
            output += tokens(logits, [SampleRow(params, uniform(seed, index), (0,), output.copy()), *others])[:1]
        return output

    assert text(1, 0) == text(1, 5) == text(1, 31)
    assert text(1, 0) != text(2, 0)


def test_temperature_zero_is_the_largest_logit_and_tiny_temperatures_come_to_it() -> None:
    logits = torch.tensor([[0.0, 3.0, 2.9, 3.0]])
    assert tokens(logits, [SampleRow(SamplingParams(1, temperature=0.0), 0.999)]) == [1]
    logits = torch.tensor([[0.0, 3.0, 2.9, -1.0]])
    assert tokens(logits, [SampleRow(SamplingParams(1, temperature=1e-9), 0.999)]) == [1]
    assert tokens(logits * 1e4, [SampleRow(SamplingParams(1, temperature=1e-9, top_p=0.5), 0.5)]) == [1]


def test_who_can_pick() -> None:
    assert picking(SamplingParams(1, temperature=0.0, top_p=0.5, top_k=3, min_p=0.1)) is Picking.LARGEST
    assert picking(SamplingParams(1, temperature=0.7, top_p=0.5, top_k=3, min_p=0.1)) is Picking.DRAW
    for field, value in (
        ("logprobs", 0),
        ("logit_bias", ((1, 1.0),)),
        ("presence_penalty", 0.1),
        ("frequency_penalty", 0.1),
        ("repetition_penalty", 1.1),
    ):
        for temperature in (0.0, 0.7):
            params = SamplingParams(1, temperature=temperature, **{field: value})  # type: ignore[arg-type]
            assert picking(params) is Picking.READ


def test_logits_of_inference_mode_are_taken_and_left_as_they_are() -> None:
    with torch.inference_mode():
        logits = torch.randn(4, 600)
    before = logits.clone()
    rows = mixed_rows(4, 600)
    assert sample(logits, rows) == sample(before, rows)
    assert torch.equal(logits, before)
    assert sample(logits[:0], []) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_an_error(bad: float, temperature: float) -> None:
    logits = torch.zeros(2, 600)
    logits[1, 300] = bad
    rows = [SampleRow(SamplingParams(1, temperature), 0.5)] * 2
    assert len(sample(logits[:1], rows[:1])) == 1
    with pytest.raises(FloatingPointError):
        sample(logits, rows)


def test_uniform_numbers_are_spread_evenly_and_repeat() -> None:
    numbers = np.array([uniform(2**64 - 1, i) for i in range(10_000)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert ((counts - 500) ** 2 / 500).sum() < 60
    assert uniform(1, 2) == uniform(1, 2) != uniform(2, 1)
