"""Log probabilities against double precision, and their form in JSON."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from gpuruntime.backend import SamplingParams, TokenLogprob
from gpuruntime.sampling.logprobs import LEAST, prompt_logprobs
from gpuruntime.sampling.row import SampleRow
from gpuruntime.sampling.sampler import sample


def check(found: TokenLogprob, logits: torch.Tensor, token: int, count: int) -> None:
    exact = logits.double().log_softmax(dim=-1).clamp_min(LEAST).numpy()
    order = np.argsort(-logits.numpy(), kind="stable")[:count].tolist()
    assert found.token == token
    assert found.logprob == pytest.approx(exact[token], abs=1e-4)
    assert [other for other, _ in found.top] == order
    assert [value for _, value in found.top] == pytest.approx(exact[order], abs=1e-4)


@pytest.mark.parametrize("vocab", [7, 600, 5003])
@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
def test_of_picked_tokens(vocab: int, scale: float) -> None:
    """Temperature, filters, bias and penalties change what is picked, never its log probability."""
    torch.manual_seed(2)
    logits = torch.randn(22, vocab) * scale
    rows = [
        SampleRow(
            SamplingParams(
                1,
                temperature=(0.0, 1.0, 0.5)[index % 3],
                top_k=(0, 3)[index % 2],
                presence_penalty=1.5,
                logit_bias=((1, 9.0),),
                logprobs=(index if index <= 20 else None),
            ),
            uniform=index / 22,
            output=(index % vocab,),
        )
        for index in range(22)
    ]
    for line, row, picked in zip(logits, rows, sample(logits, rows), strict=True):
        if row.params.logprobs is None:
            assert picked.logprob is None
        else:
            assert picked.logprob is not None
            check(picked.logprob, line, picked.token, row.params.logprobs)


def test_of_prompts() -> None:
    torch.manual_seed(3)
    logits = torch.randn(150, 700) * 4
    targets = torch.randint(0, 700, (150,)).tolist()
    found = prompt_logprobs(logits, targets, 4)
    for line, target, entry in zip(logits, targets, found, strict=True):
        check(entry, line, target, 4)
    assert prompt_logprobs(logits[:1], targets[:1], 0)[0].top == ()
    assert prompt_logprobs(logits[:0], [], 3) == []
    assert found[70:80] == prompt_logprobs(logits[70:80], targets[70:80], 4)


def test_equal_logits_come_in_the_order_of_their_ids() -> None:
    entry = prompt_logprobs(torch.zeros(1, 3000), [7], 20)[0]
    assert [token for token, _ in entry.top] == list(range(20))


def test_what_leaves_is_strict_json() -> None:
    logits = torch.tensor([[0.0, 3e38, -3e38, 5.0]])
    entry = prompt_logprobs(logits, [2], 4)[0]
    assert entry == TokenLogprob(2, LEAST, ((1, 0.0), (3, LEAST), (0, LEAST), (2, LEAST)))
    assert json.loads(json.dumps(dataclasses.asdict(entry), allow_nan=False))["logprob"] == LEAST
    banned = sample(logits, [SampleRow(SamplingParams(1, logprobs=4), 0.5, banned=(1, 3))])[0]
    assert banned.token == 0
    assert banned.logprob is not None
    assert banned.logprob.logprob == LEAST


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_not_finite_are_an_error(bad: float) -> None:
    with pytest.raises(FloatingPointError):
        prompt_logprobs(torch.tensor([[0.0, bad]]), [0], 1)
