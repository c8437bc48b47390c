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


def test_guesses_change_nothing(model: Path, llm: LLM) -> None:
    asked = [params("regex", "(abc){30}", temperature=0), SamplingParams(max_tokens=40, temperature=0)]
    with LLM(model, dtype="fp32", kv_bytes=16 << 20, speculation="ngram") as guessing:
        found = guessing.generate(["abcabcabc"] * 2, asked)
    assert [output.text for output in found] == [output.text for output in llm.generate(["abcabcabc"] * 2, asked)]
    assert found[0].text == "abc" * 30


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
