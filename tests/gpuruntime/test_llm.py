"""The engine without a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.backend import BadPrompt, SamplingParams
from gpuruntime.engine.core import EngineCore
from gpuruntime.llm import LLM
from helpers.engine import greedy_reference, save_byte_model, save_random_llama

GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
SETTINGS: dict[str, Any] = {"dtype": "fp32", "kv_bytes": 1 << 20, "threads": 1}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_byte_model(tmp_path_factory.mktemp("bytes"))


@pytest.fixture(scope="module")
def llm(model_dir: Path) -> Iterator[LLM]:
    with LLM(model_dir, **SETTINGS) as made:
        yield made


def audited(llm: LLM) -> EngineCore:
    assert llm._engine is not None
    core = llm._engine.core
    core.audit()
    assert not core.busy
    return core


def test_tokens_are_transformers_own(tmp_path: Path) -> None:
    save_byte_model(tmp_path)
    reference = save_random_llama(
        tmp_path, vocab_size=258, max_position_embeddings=128, eos_token_id=257, pad_token_id=256
    )
    prompts = [[(17 * i + k) % 250 for i in range(9 + 10 * k)] for k in range(4)]
    with LLM(tmp_path, **SETTINGS) as llm:
        outputs = llm.generate(prompts, GREEDY)
        audited(llm)
    for prompt, output in zip(prompts, outputs, strict=True):
        assert output.token_ids == greedy_reference(reference, prompt, 12)
        assert output.prompt_token_ids == tuple(prompt)
        assert output.finish_reason == "length"
        assert output.timings is not None


def test_texts_tokens_and_chats_are_the_same_prompts(llm: LLM) -> None:
    one = llm.generate("hello", GREEDY)[0]
    ids = llm.generate([list(one.prompt_token_ids)], GREEDY)[0]
    several = llm.generate(["other", "hello"], [replace(GREEDY, max_tokens=3), GREEDY])
    chat = llm.chat([{"role": "user", "content": "hello"}], GREEDY)[0]
    chats = llm.chat([[{"role": "user", "content": "other"}], [{"role": "user", "content": "hello"}]], GREEDY)
    assert ids.text == several[1].text == chat.text == chats[1].text == one.text
    assert len(several[0].token_ids) == 3
    assert chats[0].token_ids[:3] == several[0].token_ids
    assert llm.generate([], GREEDY) == []
    audited(llm)


def test_a_stop_string_ends_the_text_and_what_follows_counts_nothing(llm: LLM) -> None:
    whole = llm.generate("some text", replace(GREEDY, max_tokens=60))[0]
    stop = whole.text[8:11]
    cut = llm.generate("some text", replace(GREEDY, max_tokens=60, stop=(stop,), logprobs=1))[0]
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish_reason == "stop"
    assert cut.token_ids == whole.token_ids[: len(cut.token_ids)]
    assert stop in bytes(cut.token_ids).decode("latin-1") or len(cut.token_ids) < 60
    assert [one.token for one in cut.logprobs] == cut.token_ids
    assert cut.timings is not None
    audited(llm)


def test_scores_come_with_the_output(llm: LLM) -> None:
    output = llm.generate("abcdef", replace(GREEDY, logprobs=2, prompt_logprobs=0))[0]
    assert len(output.logprobs) == len(output.token_ids) == 12
    assert len(output.prompt_logprobs) == 6
    assert output.prompt_logprobs[0] is None
    # Greedy: the picked token is the likeliest one.
    assert all(one.top[0] == (one.token, one.logprob) and len(one.top) == 2 for one in output.logprobs)


def test_without_parameters_the_models_own_sampling_is_used(llm: LLM) -> None:
    output = llm.generate("x" * 100)[0]
    assert output.finish_reason in ("stop", "length")
    assert len(output.token_ids) <= 28


@pytest.mark.parametrize(
    ("prompts", "params", "message"),
    [
        (["ok", "x" * 128], GREEDY, r"prompt 1: the prompt has 128 tokens; this model's context is 128"),
        (["x" * 100], replace(GREEDY, max_tokens=29), "prompt 0: .* together 129"),
        ([[1, 2, 258]], GREEDY, "258 is no token of this model, whose ids are 0 to 257"),
        ([[]], GREEDY, "the prompt has no tokens"),
        (["a", "b"], [GREEDY], "1 sampling parameters for 2 prompts"),
        (["a"], replace(GREEDY, logit_bias=((300, 1.0),)), "logit_bias: 300 is no token"),
        (["a"], replace(GREEDY, stop_token_ids=(-1,)), "stop_token_ids: -1 is no token"),
        (["a"], replace(GREEDY, max_tokens=0), "max_tokens is 0; it must be at least 1"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_runs(
    llm: LLM, prompts: Any, params: Any, message: str
) -> None:
    steps = audited(llm).stats().steps_total
    with pytest.raises(ValueError, match=message):
        llm.generate(prompts, params)
    assert audited(llm).stats().steps_total == steps


def test_an_interrupted_call_leaves_the_engine_usable(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = llm.generate("hello", GREEDY)[0].text
    core, real = audited(llm), EngineCore.step
    calls = 0

    def interrupted(self: EngineCore) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(EngineCore, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        llm.generate(["hello", "other"] * 3, GREEDY)
    assert core.scheduler.pool.available == core.scheduler.pool.total
    assert llm.generate("hello", GREEDY)[0].text == expected
    audited(llm)


def test_a_time_limit_ends_a_text_with_what_it_has(model_dir: Path) -> None:
    with LLM(model_dir, **SETTINGS, request_timeout_s=1e-9) as llm:
        output = llm.generate("hello", GREEDY)[0]
        assert (output.finish_reason, output.text, output.token_ids) == ("abort", "", [])
        longer = llm.generate("hello", replace(GREEDY, timeout_s=600.0))[0]
        assert longer.finish_reason == "length"


def test_a_closed_one_says_so(model_dir: Path) -> None:
    llm = LLM(model_dir, **SETTINGS)
    llm.close()
    llm.close()
    with pytest.raises(RuntimeError, match="closed"):
        llm.generate("hello", GREEDY)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_seqs": 3}, "unknown settings max_seqs; known: attention_sinks, "),
        ({"speculation": "medusa"}, "speculation 'medusa': must be off, ngram or draft"),
        ({"speculation": "draft"}, 'draft_model_path None: speculation "draft" needs it'),
        ({"draft_model_path": "/nowhere"}, "speculation is 'off'"),
        ({"speculation": "draft", "draft_model_path": "/nowhere"}, r"/nowhere: no config\.json there"),
        ({"max_drafts": 0}, "max_drafts 0: must be between 1 and 16"),
        ({"max_queue": -1}, "max_queue -1: must not be negative"),
        ({"request_timeout_s": 0}, "request_timeout_s 0: must be positive"),
    ],
)
def test_settings_that_cannot_be_are_named(model_dir: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LLM(model_dir, **settings)


def test_speculation_is_a_setting_and_changes_no_text(model_dir: Path, tmp_path: Path, llm: LLM) -> None:
    prompts = ["hello " * 4, "abcabcabc", "x"]
    params = [replace(GREEDY, max_tokens=50), replace(GREEDY, temperature=0.8, seed=4, max_tokens=50), GREEDY]
    expected = [output.token_ids for output in llm.generate(prompts, params)]
    for kind in ("ngram", "draft"):
        draft = model_dir if kind == "draft" else None
        with LLM(model_dir, **SETTINGS, speculation=kind, draft_model_path=draft) as guessing:
            assert [output.token_ids for output in guessing.generate(prompts, params)] == expected
            core = audited(guessing)
            # Words are found again in no random text of 50 tokens; the model itself guesses right away.
            assert (core.stats().extra["draft_tokens_total"] > 0) == (kind == "draft")
            blocks = core.scheduler.pool.total
    # A draft model of the same size takes half of the KV memory.
    assert blocks == audited(llm).scheduler.pool.total // 2

    save_random_llama(tmp_path, vocab_size=200)
    with pytest.raises(ValueError, match="its vocabulary has 200 entries and the model's 258"):
        LLM(model_dir, **SETTINGS, speculation="draft", draft_model_path=tmp_path)
    save_byte_model(tmp_path, context=64)
    with pytest.raises(ValueError, match="made for 64 tokens, fewer than the context of 128; lower max_model_len"):
        LLM(model_dir, **SETTINGS, speculation="draft", draft_model_path=tmp_path)


def test_bad_prompts_name_their_field(llm: LLM) -> None:
    with pytest.raises(BadPrompt) as caught:
        llm.generate("x" * 200, GREEDY)
    assert (caught.value.param, caught.value.code) == ("messages", "context_length_exceeded")
