"""What may enter the engine, and as what."""

from __future__ import annotations

import math

import pytest

from gpuruntime.backend import BadPrompt, EngineFull, SamplingParams
from gpuruntime.engine.intake import Intake, Limits

PARAMS = SamplingParams(max_tokens=10)


def intake(**limits: float | None) -> Intake:
    settings = {"max_model_len": 100, "kv_capacity_tokens": 64, "vocab_size": 50, **limits}
    return Intake(Limits(**settings), (2, 3), clock=lambda: 5.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prompt", "params", "field"),
    [
        ((1,) * 64, PARAMS, "messages"),
        ((1,) * 55, PARAMS, "max_tokens"),
        ((), PARAMS, "messages"),
        ((1, 50), PARAMS, "messages"),
        ((-1, 1), PARAMS, "messages"),
        ((1,), SamplingParams(10, logit_bias=((50, 1.0),)), "logit_bias"),
        ((1,), SamplingParams(10, stop_token_ids=(99,)), "stop_token_ids"),
        ((1,), SamplingParams(0), "max_tokens"),
    ],
)
def test_a_refusal_names_its_field(prompt: tuple[int, ...], params: SamplingParams, field: str) -> None:
    with pytest.raises(BadPrompt) as caught:
        intake().check(prompt, params, 0)
    assert caught.value.param == field


def test_what_just_fits_may_enter() -> None:
    intake().check((1,) * 54, PARAMS, 1_000_000)


def test_beyond_the_limit_of_requests_it_is_full() -> None:
    bounded = intake(max_requests=3)
    bounded.check((1,), PARAMS, 2)
    with pytest.raises(EngineFull, match="3 requests are in the engine"):
        bounded.check((1,), PARAMS, 3)


def test_ends_seed_and_deadline_of_a_request() -> None:
    maker = intake(timeout_s=30.0)
    request = maker.request((1, 4), SamplingParams(10, stop_token_ids=(9,), seed=-1), b"s")
    assert (request.end_ids, request.seed, request.deadline_s) == ({2, 3, 9}, 2**64 - 1, 35.0)
    assert (request.tokens, request.prompt_len, request.salt, request.clock.entered_s) == ([1, 4], 2, b"s", 5.0)
    hasty = maker.request((1,), SamplingParams(10, ignore_eos=True, timeout_s=0.5), b"")
    assert (hasty.end_ids, hasty.deadline_s) == (frozenset(), 5.5)
    assert hasty.seed != maker.request((1,), PARAMS, b"").seed
    assert intake().request((1,), PARAMS, b"").deadline_s == math.inf
    assert len({maker.request((1,), PARAMS, b"").key for _ in range(5)}) == 5
