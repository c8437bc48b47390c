"""The filters against transformers' in double precision, by the whole distribution and by chi-square."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from gpuruntime.backend import SamplingParams
from gpuruntime.sampling.filters import smallest_set
from gpuruntime.sampling.row import SampleRow
from gpuruntime.sampling.sampler import sample, uniform


def by_transformers(logits: torch.Tensor, params: SamplingParams) -> np.ndarray:
    """The distribution over ``logits [vocab]``, in the order in which transformers' generate applies its warpers."""
    none = torch.zeros(1, 0, dtype=torch.int64)
    scores = logits.double().unsqueeze(0)
    scores = TemperatureLogitsWarper(params.temperature)(none, scores)
    if params.top_k:
        scores = TopKLogitsWarper(params.top_k)(none, scores)
    if params.top_p < 1:
        scores = TopPLogitsWarper(params.top_p)(none, scores)
    if params.min_p > 0:
        scores = MinPLogitsWarper(params.min_p)(none, scores)
    return scores.softmax(dim=-1)[0].numpy()


def far_from_a_border(logits: torch.Tensor, params: SamplingParams) -> bool:
    """Whether rounding cannot move a token across a filter."""
    weights = np.sort((logits.double() / params.temperature).softmax(dim=-1).numpy())[::-1]
    weights = weights[: params.top_k or None] / weights[: params.top_k or None].sum()
    shares = weights / weights[0]
    return bool(
        np.abs(weights.cumsum() - params.top_p)[:-1].min(initial=1) > 1e-5
        and np.abs(shares - params.min_p).min() > 1e-5
    )


params_of_all_kinds = st.builds(
    SamplingParams,
    max_tokens=st.just(1),
    temperature=st.floats(0.1, 4.0),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 0.999)),
    top_k=st.one_of(st.just(0), st.integers(1, 1300)),
    min_p=st.one_of(st.just(0.0), st.floats(0.0001, 1.0)),
)


@given(st.integers(0, 2**32), st.sampled_from([5, 600, 1201]), params_of_all_kinds)
@settings(max_examples=150, deadline=None)
def test_a_number_picks_what_covers_it_in_the_distribution_of_transformers(
    seed: int, vocab: int, params: SamplingParams
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(vocab, generator=generator) * 3
    assume(far_from_a_border(logits, params))
    expected = by_transformers(logits, params)
    # Under a top_k the likeliest come first, otherwise the ids are in order.
    order = np.argsort(-logits.numpy(), kind="stable") if 0 < params.top_k < vocab else np.arange(vocab)
    ends = np.empty(vocab)
    ends[order] = expected[order].cumsum()

    uniforms = [0.0, *((index + 0.5) / 40 for index in range(40)), 1 - 2**-53]
    for u, picked in zip(
        uniforms, sample(logits.expand(42, -1), [SampleRow(params, u) for u in uniforms]), strict=True
    ):
        assert expected[picked.token] > 0
        assert ends[picked.token] - expected[picked.token] - 1e-5 <= u <= ends[picked.token] + 1e-5


SETTINGS = [
    SamplingParams(1),
    SamplingParams(1, temperature=0.3),
    SamplingParams(1, top_k=5),
    SamplingParams(1, top_p=0.7),
    SamplingParams(1, temperature=1.5, top_k=20, top_p=0.9),
    SamplingParams(1, temperature=3.0, top_p=0.95),
    SamplingParams(1, temperature=3.0, top_k=400, top_p=0.99),
    SamplingParams(1, temperature=2.0, top_p=0.9, min_p=0.02),
    SamplingParams(1, temperature=0.8, min_p=0.1),
]


@pytest.mark.parametrize("params", SETTINGS, ids=lambda p: f"t{p.temperature}-k{p.top_k}-p{p.top_p}-m{p.min_p}")
def test_draws_follow_the_distribution(params: SamplingParams) -> None:
    torch.manual_seed(1)
    logits = torch.randn(600) * 2
    expected = by_transformers(logits, params)
    draws, batch = 20_000, 1000
    counts = np.zeros(len(expected))
    for start in range(0, draws, batch):
        rows = [SampleRow(params, uniform(7, start + index)) for index in range(batch)]
        np.add.at(counts, [picked.token for picked in sample(logits.expand(batch, -1), rows)], 1)

    assert counts[expected == 0].sum() == 0
    # Cells of fewer than 8 expected draws are pooled; the bound is passed once in 10^6 seeds, and the seed is fixed.
    big = expected * draws >= 8
    cells = [*zip(counts[big], expected[big] * draws, strict=True)]
    if expected[~big].sum() * draws >= 8:
        cells.append((counts[~big].sum(), expected[~big].sum() * draws))
    statistic = sum((seen - want) ** 2 / want for seen, want in cells)
    freedom = max(1, len(cells) - 1)
    assert statistic < freedom + 4.75 * math.sqrt(2 * freedom) + 16


@given(st.integers(0, 2**32), st.integers(1, 4000), st.floats(0.0, 0.9999), st.integers(1, 5), st.floats(0, 6))
@settings(max_examples=150, deadline=None)
def test_the_smallest_set_is_that_of_a_stable_sort(
    seed: int, width: int, share: float, digits: int, scale: float
) -> None:
    """Weights of few binary digits are often equal, and their sums are exact, so that even borders have to agree."""
    generator = np.random.default_rng(seed)
    weights = np.ceil(2**digits * np.exp(scale * generator.normal(size=width) - scale * 2)).clip(0, 2**14)
    weights[generator.random(width) < 0.2] = 0
    weights[generator.integers(width)] = 1
    order = np.argsort(-weights, kind="stable")
    count = max(1, int((weights[order].cumsum() - weights[order] < share * weights.sum()).sum()))
    kept = smallest_set(weights.astype(np.float32), share)
    assert np.flatnonzero(kept).tolist() == sorted(order[:count].tolist())


def test_among_equal_logits_the_lowest_ids_are_kept() -> None:
    logits = torch.zeros(1, 2000)
    for params, limit in (
        (SamplingParams(1, top_k=1), 1),
        (SamplingParams(1, top_k=7), 7),
        (SamplingParams(1, top_k=500), 500),
        (SamplingParams(1, top_p=0.25), 500),
        (SamplingParams(1, top_k=100, top_p=0.5), 50),
    ):
        assert sample(logits, [SampleRow(params, 0.0)])[0].token == 0
        assert sample(logits, [SampleRow(params, 1 - 2**-53)])[0].token == limit - 1
