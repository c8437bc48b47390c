"""Bias, penalties and bans against transformers and against one token at a time in double precision."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import RepetitionPenaltyLogitsProcessor

from gpuruntime.backend import SamplingParams
from gpuruntime.sampling.penalties import adjust, adjusts
from gpuruntime.sampling.row import Picking, SampleRow, picking
from gpuruntime.sampling.sampler import sample

VOCAB = 60

tokens = st.lists(st.integers(0, VOCAB - 1), max_size=40).map(tuple)
rows = st.builds(
    SampleRow,
    params=st.builds(
        SamplingParams,
        max_tokens=st.just(1),
        temperature=st.just(0.0),
        repetition_penalty=st.sampled_from([1.0, 0.5, 1.1, 2.0]),
        presence_penalty=st.sampled_from([0.0, -2.0, 0.3, 2.0]),
        frequency_penalty=st.sampled_from([0.0, -2.0, 0.3, 2.0]),
        logit_bias=st.dictionaries(st.integers(0, VOCAB - 1), st.floats(-100, 100), max_size=5).map(
            lambda bias: tuple(bias.items())
        ),
    ),
    uniform=st.just(0.5),
    prompt=tokens,
    output=tokens,
    banned=st.lists(st.integers(0, VOCAB - 1), max_size=4).map(tuple),
)


def one_by_one(logits: np.ndarray, row: SampleRow) -> list[float]:
    params, counts, bias = row.params, Counter(row.output), dict(row.params.logit_bias)
    result = []
    for token, logit in enumerate(logits.tolist()):
        value = logit + bias.get(token, 0.0)
        if token in row.prompt or token in row.output:
            value = value / params.repetition_penalty if value > 0 else value * params.repetition_penalty
        if counts[token]:
            value -= params.presence_penalty + params.frequency_penalty * counts[token]
        result.append(-math.inf if token in row.banned else value)
    return result


@given(st.integers(0, 2**32), st.lists(rows, min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_each_token_is_changed_as_the_definitions_read(seed: int, batch: list[SampleRow]) -> None:
    logits = np.random.default_rng(seed).normal(scale=4, size=(len(batch), VOCAB)).astype(np.float32)
    changed = logits.copy()
    adjust(changed, batch)

    for before, after, row in zip(logits, changed, batch, strict=True):
        np.testing.assert_allclose(after, one_by_one(before, row), rtol=1e-5, atol=1e-4)
        assert adjusts(row) or (before == after).all()
    picks = sample(torch.from_numpy(logits), batch)
    assert [pick.token for pick in picks] == changed.argmax(axis=1).tolist()
    for row, pick, before in zip(batch, picks, logits, strict=True):
        if picking(row.params) is Picking.LARGEST and not row.banned:
            assert pick.token == before.argmax()


def test_repetition_is_that_of_transformers() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, VOCAB, generator=generator) * 4
    ids = torch.randint(0, VOCAB, (3, 30), generator=generator)
    expected = RepetitionPenaltyLogitsProcessor(penalty=1.3)(ids, logits.clone())
    params = SamplingParams(1, repetition_penalty=1.3)
    # A prompt may come as an array, so that it is converted once for all steps.
    batch = [SampleRow(params, 0.5, line[:20].numpy(), tuple(line[20:].tolist())) for line in ids]
    adjust(logits.numpy(), batch)
    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)


def test_the_given_logits_are_left_as_they_are() -> None:
    logits = torch.randn(2, VOCAB)
    before = logits.clone()
    params = SamplingParams(1, 0.7, 0.9, repetition_penalty=2.0, logit_bias=((3, 100.0),), min_p=0.1)
    assert [pick.token for pick in sample(logits, [SampleRow(params, 0.5, (1,), (2,))] * 2)] == [3, 3]
    assert torch.equal(logits, before)


def test_a_ban_holds_at_every_temperature_and_of_everything_it_is_none() -> None:
    logits = torch.tensor([[1.0, 5.0, 4.0, -3.0]])
    for temperature in (0.0, 1e-9, 1.0, 5.0):
        for top_k, top_p in ((0, 1.0), (3, 1.0), (0, 0.999)):
            params = SamplingParams(1, temperature, top_p, top_k)
            for u in (0.0, 0.5, 1 - 2**-53):
                assert sample(logits, [SampleRow(params, u, banned=(1, 0, 1, 3))])[0].token == 2
                free = sample(logits, [SampleRow(params, u)])
                assert sample(logits, [SampleRow(params, u, banned=(3, 2, 1, 0))]) == free


def test_penalties_beyond_fp32_make_no_nan() -> None:
    logits = torch.tensor([[3e38, -3e38, 1.0]])
    for temperature in (0.0, 1.0):
        params = SamplingParams(1, temperature, repetition_penalty=2.0, logit_bias=((0, 100.0), (1, -100.0)))
        assert sample(logits, [SampleRow(params, 0.999, (1,), (0, 2))])[0].token == 0
        params = SamplingParams(1, temperature, repetition_penalty=1e-3)
        assert sample(logits, [SampleRow(params, 0.999, (1,), (0, 2))])[0].token == 0
