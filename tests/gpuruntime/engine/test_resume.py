"""An answer cut after any of its steps and gone on with by another engine is the uninterrupted one, in every field."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.backend import BadPrompt, Delta, Prompt, SamplingParams
from gpuruntime.door.structure import asked_grammar
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig
from gpuruntime.openai_checks import decode_completion
from helpers.engine import save_byte_model

LENGTH = 18
PROMPT = Prompt((), tuple(b"a prompt of more than one block of tokens"))


def params(**changes: Any) -> SamplingParams:
    return SamplingParams(**{"max_tokens": LENGTH, "temperature": 0.0, "ignore_eos": True, **changes})


def grammar(schema: dict[str, Any]) -> str:
    body = {"model": "m", "prompt": "x", "structured_outputs": {"json": schema}}
    found = asked_grammar(decode_completion(json.dumps(body).encode()))
    assert found is not None
    return found.text


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 8}, "b": {"type": "integer", "maximum": 99}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
KINDS: dict[str, SamplingParams] = {
    "greedy": params(),
    "greedy, its end forbidden at first": params(min_tokens=LENGTH - 2, ignore_eos=False),
    "seeded": params(temperature=1.0, seed=5),
    "seeded and filtered": params(temperature=0.9, top_p=0.9, top_k=40, seed=-3),
    "penalized": params(presence_penalty=0.8, frequency_penalty=0.6, repetition_penalty=1.2),
    "with log probabilities": params(logprobs=2, temperature=0.7, seed=1),
    "a schema": params(grammar=grammar(SCHEMA), temperature=1.0, seed=9, max_tokens=60, ignore_eos=False),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_byte_model(tmp_path_factory.mktemp("bytes"))


@asynccontextmanager
async def running(model: Path, **settings: Any) -> AsyncIterator[NativeBackend]:
    backend = NativeBackend(EngineConfig(model, dtype="fp32", kv_bytes=1 << 20, threads=1, **settings))
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()


async def answer(backend: NativeBackend, sampling: SamplingParams, prompt: Prompt = PROMPT) -> list[Delta]:
    return [delta async for delta in backend.generate("r", prompt, sampling)]


def shown(deltas: Sequence[Delta]) -> tuple[Any, ...]:
    """All that a client can see of them; of how they were cut into steps nothing."""
    return (
        "".join(delta.text for delta in deltas),
        [token for delta in deltas for token in delta.token_ids],
        [entry.token for delta in deltas for entry in delta.logprobs],
        [token for delta in deltas for entry in delta.logprobs for token, _ in entry.top],
        sum(delta.new_tokens for delta in deltas),
        deltas[-1].completion_tokens,
        deltas[-1].prompt_tokens,
        deltas[-1].finish_reason,
    )


def scores(deltas: Sequence[Delta]) -> list[float]:
    entries = [entry for delta in deltas for entry in delta.logprobs]
    return [value for entry in entries for value in (entry.logprob, *(logprob for _, logprob in entry.top))]


async def equals_when_cut(backend: NativeBackend, other: NativeBackend, sampling: SamplingParams) -> None:
    whole = await answer(backend, sampling)
    for cut in range(1, len(whole)):
        before, after = whole[:cut], whole[cut:]
        ids = tuple(token for delta in before for token in delta.token_ids)
        replayed, *rest = await answer(other, sampling, replace(PROMPT, answered=ids))
        assert (replayed.text, replayed.token_ids) == ("".join(delta.text for delta in before), ids)
        assert (replayed.new_tokens, replayed.completion_tokens) == (0, len(ids))
        assert shown(rest) == shown(after), f"cut after step {cut}"
        # A prefill's sums are not added in a decode's order, so a value may differ in its last bits.
        assert scores(rest) == pytest.approx(scores(after), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_goes_on_elsewhere_from_any_of_its_tokens(model: Path, kind: str) -> None:
    async with running(model) as backend, running(model, max_num_seqs=4, max_num_batched_tokens=16) as other:
        await equals_when_cut(backend, other, KINDS[kind])
        other.audit()


async def test_a_stop_string_is_found_across_the_cut(model: Path) -> None:
    """Also where the answer was cut when it was complete, and the engine had not said yet that it had ended."""
    async with running(model) as backend:
        text = await answer(backend, params(temperature=0.8, seed=2))
        said = "".join(delta.text for delta in text)
        stop = said[len(said) // 2 : len(said) // 2 + 4]
        assert len(stop) == 4
        for stops in ((stop,), (stop + "never", stop), ("never", said[-3:] + "never")):
            await equals_when_cut(backend, backend, params(temperature=0.8, seed=2, stop=stops))


async def test_drafts_go_on_behind_the_cut(model: Path) -> None:
    async with running(model) as backend, running(model, speculation="ngram") as other:
        await equals_when_cut(backend, other, params(max_tokens=40))


async def test_an_engine_in_a_process_of_its_own_goes_on_too(model: Path) -> None:
    async with running(model) as backend, running(model, engine_process=True) as other:
        whole = await answer(backend, KINDS["seeded"])
        ids = tuple(token for delta in whole[:7] for token in delta.token_ids)
        rest = await answer(other, KINDS["seeded"], replace(PROMPT, answered=ids))
        assert shown(rest[1:]) == shown(whole[7:])


async def test_what_cannot_be_gone_on_with_is_refused(model: Path) -> None:
    async with running(model) as backend:
        for answered in ((1,) * LENGTH, (1, 258), (-1,)):
            with pytest.raises(BadPrompt):
                backend.generate("r", replace(PROMPT, answered=answered), params())


async def test_a_resumed_request_is_not_paid_for_what_another_engine_computed(model: Path) -> None:
    """Its ideal work is the prompt's and its own tokens'; the replayed ones are executed, and delivered by nobody."""
    async with running(model) as backend:
        before = backend.stats()
        ids = (65,) * (LENGTH - 1)
        last = (await answer(backend, params(), replace(PROMPT, answered=ids)))[-1]
        found = backend.stats()
        assert found.completion_tokens_total - before.completion_tokens_total == 1
        assert found.prompt_tokens_total - before.prompt_tokens_total == len(PROMPT.token_ids or ())
        assert last.timings is not None
        assert last.timings.new_prompt_tokens == len(PROMPT.token_ids or ())
        if last.timings.ideal_s is not None and last.timings.executed_ideal_s is not None:
            assert 0 < last.timings.ideal_s <= last.timings.executed_ideal_s
