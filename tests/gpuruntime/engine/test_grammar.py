"""A random model says what its grammar allows and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.backend import SamplingParams
from gpuruntime.door.structure import asked_grammar
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.grammar import Grammars
from gpuruntime.llm import LLM
from gpuruntime.models.config import load_model_config
from gpuruntime.openai_checks import decode_completion
from gpuruntime.sampling.row import SampleRow
from gpuruntime.sampling.sampler import sample
from helpers.engine import save_byte_model

ROOM = 1500


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_byte_model(tmp_path_factory.mktemp("bytes"), context=2048)


@pytest.fixture(scope="module")
def llm(model: Path) -> Iterator[LLM]:
    with LLM(model, dtype="fp32", kv_bytes=16 << 20) as made:
        yield made


def grammar(kind: str, value: Any) -> str:
    body = {"model": "m", "prompt": "x", "structured_outputs": {kind: value}}
    found = asked_grammar(decode_completion(json.dumps(body).encode()))
    assert found is not None
    found.check()
    return found.text


def params(kind: str, value: Any, **more: Any) -> SamplingParams:
    return SamplingParams(**{"max_tokens": ROOM, "temperature": 1.0, "grammar": grammar(kind, value), **more})


leaves = st.sampled_from(
    [
        {"type": "integer", "minimum": -5, "maximum": 500},
        {"type": "boolean"},
        {"type": "null"},
        {"enum": ["red", "green", 3, None]},
        {"type": "string", "maxLength": 6},
        {"type": "string", "pattern": "^[a-c]{2,4}$"},
        {"const": {"a": [1, "x"]}},
    ]
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.lists(st.sampled_from(["a", "b", "c d", "\u00e9", '"']), min_size=1, max_size=3, unique=True)
    return names.flatmap(
        lambda keys: st.tuples(*(inner for _ in keys)).map(
            lambda values: {
                "type": "object",
                "properties": dict(zip(keys, values, strict=True)),
                "required": keys,
                "additionalProperties": False,
            }
        )
    )


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner.map(lambda items: {"type": "array", "items": items, "minItems": 1, "maxItems": 3})


schemas = st.recursive(leaves, lambda inner: objects(inner) | arrays(inner), max_leaves=3)


@given(schema=schemas, seed=st.integers(0, 1 << 32))
@settings(max_examples=25, deadline=None)
def test_an_answer_validates_against_its_schema(llm: LLM, schema: dict[str, Any], seed: int) -> None:
    spaces = [llm._tokenizer.tokenizer.encode(space).ids[0] for space in " \n\t"]
    seldom = tuple((token, -4.0) for token in spaces)  # a random model would fill the room with them
    output = llm.generate("say", params("json", schema, seed=seed, logit_bias=seldom))[0]
    assert output.finish_reason == "stop"
    jsonschema.validate(json.loads(output.text), schema)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_other_kinds(llm: LLM, temperature: float) -> None:
    pattern = r"[a-f]{3}-[0-9]{2,4}"
    lark = 'start: item ("," item){0,3}\nitem: "ab" | /[0-9]/'
    asked = [
        params("regex", pattern, temperature=temperature),
        params("choice", ["yes", 'n"o/', "per haps"], temperature=temperature),
        params("grammar", lark, temperature=temperature),
        params("json_object", True, temperature=temperature),
    ]
    by_pattern, by_choice, by_lark, by_object = llm.generate(["x"] * 4, asked)
    assert re.fullmatch(pattern, by_pattern.text)
    assert by_choice.text in ("yes", 'n"o/', "per haps")
    assert re.fullmatch(r"(ab|[0-9])(,(ab|[0-9])){0,3}", by_lark.text)
    if by_object.finish_reason == "stop":  # a random model may open strings and objects until there is no room left
        assert isinstance(json.loads(by_object.text), dict)


def test_an_answer_without_room_is_a_beginning(llm: LLM) -> None:
    output = llm.generate("x", params("regex", "[a-z]{40}", max_tokens=7))[0]
    assert (output.finish_reason, bool(re.fullmatch("[a-z]{7}", output.text))) == ("length", True)


@pytest.mark.parametrize("more", [{"min_tokens": 9}, {"ignore_eos": True}, {"logit_bias": ((257, -100.0),)}])
def test_a_finished_grammar_ends_the_text_whatever_else_is_asked(llm: LLM, more: dict[str, Any]) -> None:
    outputs = llm.generate(["x"] * 2, [params("regex", "[ab]{4}", **more), params("regex", "(ab)?", **more)])
    assert [output.finish_reason for output in outputs] == ["stop", "stop"]
    assert re.fullmatch("[ab]{4}", outputs[0].text)
    assert outputs[1].text in ("", "ab")


def test_log_probabilities_are_the_models_own(llm: LLM) -> None:
    free = llm.generate("x", SamplingParams(max_tokens=1, temperature=0, logprobs=20))[0].logprobs[0]
    held = llm.generate("x", params("regex", "q+", max_tokens=1, logprobs=20))[0].logprobs[0]
    assert held.top == free.top
    assert held.logprob <= free.logprob


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_guesses_change_nothing(model: Path, llm: LLM, temperature: float) -> None:
    """Of texts that repeat themselves, whose guesses are right, and of those where most are not."""
    kinds = [("regex", "(abc){30}"), ("regex", "([ab]{2}|cab){40}"), ("choice", ["abcabcabcabd", "abcabcabcabc"])]
    asked = [params(*kind, temperature=temperature, seed=seed) for kind in kinds for seed in range(3)]
    asked += [params("json", {"type": "array", "items": {"enum": [1, 2]}, "minItems": 9, "maxItems": 9}, seed=4)]
    asked += [params("regex", "[ab]{30}", temperature=temperature, seed=5, logprobs=2, presence_penalty=0.4)]
    asked.append(SamplingParams(max_tokens=40, temperature=temperature, seed=3))
    prompts = ["abcabcabc"] * len(asked)
    with LLM(model, dtype="fp32", kv_bytes=16 << 20, speculation="ngram") as guessing:
        found = guessing.generate(prompts, asked)
        assert guessing._engine is not None
        counts = guessing._engine.core.stats().extra
    plain = llm.generate(prompts, asked)
    assert [(one.text, one.finish_reason) for one in found] == [(one.text, one.finish_reason) for one in plain]
    assert found[0].text == "abc" * 30
    assert counts["draft_tokens_total"] >= counts["accepted_draft_tokens_total"] > 30


@given(seed=st.integers(0, 1 << 32), pattern=st.sampled_from(["(ab|cd)+x", "[a-c]{2,5}(xy)?", "(ab){3}"]))
@settings(max_examples=40, deadline=None)
def test_looking_ahead_is_going_there_and_stays(model: Path, seed: int, pattern: str) -> None:
    """What is allowed behind drafts is what a matcher says that went there, and the one that looked has not moved."""
    random = np.random.default_rng(seed)
    compiled = Grammars(model, 258)
    text = grammar("regex", pattern)
    looking, going = (compiled.compile(text).result(60) for _ in range(2))
    drafts = [int(token) for token in random.choice(list(b"abcdxy"), size=random.integers(0, 7))]
    drafts = drafts[: looking.follows(drafts)]
    before = looking.allowed()[0]
    for ahead, draft in zip(looking.allowed(drafts), [*drafts, None], strict=True):
        assert (ahead == going.allowed()[0]).all()
        assert draft is None or ahead[draft]
        if draft is not None:
            going.accept(draft)
    assert (looking.allowed()[0] == before).all()
    assert not looking.failed
    assert not looking.complete


def test_preempted_answers_go_on_where_they_were(model: Path, llm: LLM) -> None:
    asked = [params("regex", "[a-z]{60}", seed=seed, max_tokens=100) for seed in range(6)]
    block = BLOCK_TOKENS * load_model_config(model).kv_bytes_per_token(4)
    with LLM(model, dtype="fp32", kv_bytes=12 * block, max_model_len=128) as small:
        found = small.generate(["x"] * 6, asked)
        preempted = small._engine.core.scheduler.preemptions if small._engine else 0
    assert [output.text for output in found] == [output.text for output in llm.generate(["x"] * 6, asked)]
    assert preempted > 0


def test_a_grammar_that_does_not_compile_fails_its_request_alone(llm: LLM) -> None:
    broken = SamplingParams(max_tokens=5, grammar="start: (")
    failed, fine = llm.generate(["x"] * 2, [broken, params("regex", "[ab]{3}")])
    assert (failed.finish_reason, failed.text) == ("error", "")
    assert (fine.finish_reason, len(fine.text)) == ("stop", 3)


def test_an_abort_while_the_grammar_compiles_leaves_nothing(llm: LLM) -> None:
    assert llm._engine is not None
    core = llm._engine.core
    request = llm._intake.request([1, 2, 3], params("regex", "[ab]{3}"), b"")
    core.add(request)
    ended = core.abort(request.key)
    assert ended is not None
    assert ended.finish_reason == "abort"
    assert not core.busy
    core.audit()


@given(st.integers(0, 1 << 32), st.sampled_from([0.0, 0.7, 1.0]), st.sampled_from([0, 3]), st.sampled_from([1.0, 0.5]))
@settings(max_examples=60, deadline=None)
def test_only_what_is_allowed_is_picked(seed: int, temperature: float, top_k: int, top_p: float) -> None:
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.normal(size=(1, 50)).astype(np.float32))
    allowed = random.random(50) < random.random()
    allowed[random.integers(50)] = True
    banned = tuple(np.flatnonzero(random.random(50) < 0.3).tolist())
    asked = SamplingParams(max_tokens=1, temperature=temperature, top_k=top_k, top_p=top_p)
    row = SampleRow(asked, float(random.random()), banned=banned, allowed=allowed)
    left = [token for token in np.flatnonzero(allowed).tolist() if token not in banned]
    possible = left or np.flatnonzero(allowed).tolist()
    token = sample(logits, [row])[0].token
    assert token in possible
    if temperature == 0:
        assert token == max(possible, key=lambda one: float(logits[0, one]))
