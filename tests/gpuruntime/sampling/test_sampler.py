"""The sampler against brute force over the vocabulary, and its distribution by chi-square."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.backend import SamplingParams
from gpuruntime.sampling import filters
from gpuruntime.sampling.row import SampleRow
from gpuruntime.sampling.sampler import sample as sample_rows
from gpuruntime.sampling.sampler import uniform


def sample(logits: torch.Tensor, rows: list[SampleRow]) -> list[int]:
    return [picked.token for picked in sample_rows(logits, rows)]


def row(temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, u: float = 0.5) -> SampleRow:
    return SampleRow(SamplingParams(1, temperature, top_p, top_k), u)


def expected_distribution(logits: torch.Tensor, params: SampleRow) -> np.ndarray:
    """Sorts, filters and renormalizes in float64, as the definition reads."""
    scores = logits.double().numpy() / params.params.temperature
    order = np.argsort(-scores, kind="stable")
    keep = order[: params.params.top_k] if params.params.top_k else order
    weights = np.exp(scores[keep] - scores.max())
    weights /= weights.sum()
    if params.params.top_p < 1:
        count = int(np.searchsorted(np.cumsum(weights), params.params.top_p)) + 1
        keep, weights = keep[:count], weights[:count] / weights[:count].sum()
    full = np.zeros(len(scores))
    full[keep] = weights
    return full


FILTERS = [
    row(),
    row(temperature=0.3),
    row(top_k=5),
    row(top_p=0.7),
    row(temperature=1.5, top_k=20, top_p=0.9),
    row(top_k=1),
    row(temperature=3.0, top_p=0.95),
    row(temperature=3.0, top_k=400, top_p=0.99),
]


@pytest.mark.parametrize("params", FILTERS, ids=str)
def test_draws_follow_the_filtered_distribution(params: SampleRow) -> None:
    torch.manual_seed(1)
    logits = torch.randn(600) * 2
    expected = expected_distribution(logits, params)
    draws = 6_000
    counts = np.zeros(len(expected))
    for start in range(0, draws, 2000):
        rows = [SampleRow(params.params, uniform(7, i + start)) for i in range(2000)]
        np.add.at(counts, sample(logits.expand(2000, -1), rows), 1)

    assert counts[expected == 0].sum() == 0
    # Cells of fewer than 8 expected draws are pooled; a sound sampler fails this bound once in 10^6 runs.
    big = expected * draws >= 8
    cells = [*zip(counts[big], expected[big] * draws, strict=True)]
    if (~big).any() and expected[~big].sum() * draws >= 8:
        cells.append((counts[~big].sum(), expected[~big].sum() * draws))
    statistic = sum((seen - want) ** 2 / want for seen, want in cells)
    freedom = max(1, len(cells) - 1)
    assert statistic < freedom + 4.75 * math.sqrt(2 * freedom) + 16


@given(st.integers(0, 2**32), st.floats(0.1, 4.0), st.integers(0, 400), st.floats(0.01, 1.0), st.floats(0, 0.999999))
@settings(max_examples=150, deadline=None)
def test_a_pick_is_always_inside_the_filter(seed: int, temperature: float, top_k: int, top_p: float, u: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, 600, generator=generator) * 3
    params = row(temperature, top_k, top_p, u)
    token = sample(logits, [params])[0]
    # One more token than the float64 rule keeps: fp32 may land on the other side of a border.
    order = np.argsort(-logits[0].numpy(), kind="stable")
    kept = int((expected_distribution(logits[0], params) > 0).sum())
    assert token in order[: kept + 1]


def test_both_ways_to_filter_agree_on_the_kept_set(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    logits = torch.randn(1, 600) * 2

    def reachable() -> set[int]:
        return {sample(logits, [row(top_p=0.8, u=(i + 0.5) / 400)])[0] for i in range(400)}

    by_candidates = reachable()
    monkeypatch.setattr(filters, "CANDIDATES", 4)
    assert reachable() == by_candidates


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(5)
    logits = torch.randn(40, 600) * 2
    rows = [FILTERS[i % len(FILTERS)] for i in range(40)]
    rows = [
        row(r.params.temperature if i % 5 else 0.0, r.params.top_k, r.params.top_p, uniform(9, i))
        for i, r in enumerate(rows)
    ]
    together = sample(logits, rows)
    assert together == [sample(logits[i : i + 1], [rows[i]])[0] for i in range(40)]


def test_temperature_zero_is_the_largest_logit_and_tiny_temperatures_come_to_it() -> None:
    logits = torch.tensor([[0.0, 3.0, 2.9, -1.0]])
    assert sample(logits, [row(temperature=0.0, u=0.999)]) == [1]
    assert sample(logits, [row(temperature=1e-9, u=0.999)]) == [1]
    assert sample(logits * 1e4, [row(temperature=1e-9, top_p=0.5)]) == [1]


def test_logits_that_are_not_finite_are_an_error() -> None:
    with pytest.raises(FloatingPointError):
        sample(torch.tensor([[0.0, float("nan")]]), [row(temperature=0.0)])


def test_uniform_numbers_are_spread_evenly_and_repeat() -> None:
    numbers = np.array([uniform(2**64 - 1, i) for i in range(10_000)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert ((counts - 500) ** 2 / 500).sum() < 60
    assert uniform(1, 2) == uniform(1, 2) != uniform(2, 1)
