"""The native engine behind its door, as a process of its own, asked by the official client."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import requests

from helpers.door import AUTH, TOKEN, RuntimeProcess
from helpers.model import smollm2_dir

__all__ = ["smollm2_dir"]
LONG = "The history of the lighthouse begins with fires that were lit on hills, long before there was any tower. "


@pytest.fixture(scope="module")
def server(smollm2_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeProcess]:
    process = RuntimeProcess(tmp_path_factory.mktemp("native"), smollm2_dir, engine={"kv_bytes": 96 << 20})
    process.wait_for("ready", "failed")
    yield process
    process.end()


@pytest.fixture
def client(server: RuntimeProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0)


def post(server: RuntimeProcess, path: str, **body: Any) -> Any:
    answer = requests.post(f"{server.url}{path}", json=body, headers=AUTH, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def metric(server: RuntimeProcess, name: str) -> float:
    text = requests.get(f"{server.url}/metrics", headers=AUTH, timeout=10).text
    return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{name}{{"))


def test_choices_are_the_single_answers_of_their_seeds_and_share_the_prompt(
    server: RuntimeProcess, client: openai.OpenAI
) -> None:
    asked: dict[str, Any] = {"model": "m", "prompt": LONG, "max_tokens": 12, "temperature": 1.0, "top_p": 0.9}
    before = {name: metric(server, name) for name in ("vllm:prefix_cache_hits_total", "vllm:generation_tokens_total")}
    together = client.completions.create(**asked, n=4, seed=100, extra_body={"ignore_eos": True})
    found = {name: metric(server, name) - value for name, value in before.items()}
    alone = [client.completions.create(**asked, seed=100 + i, extra_body={"ignore_eos": True}) for i in range(4)]
    assert [choice.text for choice in together.choices] == [one.choices[0].text for one in alone]
    assert len({choice.text for choice in together.choices}) == 4
    assert together.usage is not None
    assert alone[0].usage is not None
    assert together.usage.prompt_tokens == alone[0].usage.prompt_tokens
    assert together.usage.completion_tokens == found["vllm:generation_tokens_total"] == 48
    full_blocks = (together.usage.prompt_tokens - 1) // 16 * 16
    assert found["vllm:prefix_cache_hits_total"] == 3 * full_blocks > 0
    spooled = server.spooled()[-5]
    assert (spooled["prompt_tokens"], spooled["completion_tokens"]) == (together.usage.prompt_tokens, 48)


def test_an_echo_scores_what_was_generated_as_it_was_scored_then(client: openai.OpenAI) -> None:
    made = client.completions.create(
        model="m", prompt="Paris is the capital of", max_tokens=8, temperature=0, logprobs=3
    )
    first = made.choices[0]
    assert first.logprobs is not None
    again = client.completions.create(
        model="m", prompt="Paris is the capital of" + first.text, max_tokens=0, echo=True, logprobs=3
    )
    scores = again.choices[0].logprobs
    assert scores is not None
    tokens, offsets = scores.tokens or [], scores.text_offset or []
    count = len(first.logprobs.tokens or [])
    assert tokens[-count:] == first.logprobs.tokens
    assert (scores.token_logprobs or [])[-count:] == pytest.approx(first.logprobs.token_logprobs, abs=0.15)
    text = again.choices[0].text
    assert [text[at : at + len(token)] for token, at in zip(tokens, offsets, strict=True)] == tokens
    for token, logprob, top in zip(
        first.logprobs.tokens or [], first.logprobs.token_logprobs or [], first.logprobs.top_logprobs or [], strict=True
    ):
        assert top is not None
        assert top[token] == logprob == max(top.values()) <= 0
        assert len(top) == 3
        assert sum(math.exp(value) for value in top.values()) <= 1.001


def test_a_chats_log_probabilities_spell_its_text(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Say hello in Chinese and French, é ü 你好"}]
    stream = client.chat.completions.create(
        model="m", messages=messages, max_tokens=24, temperature=0, logprobs=True, top_logprobs=1, stream=True
    )
    text, raw = "", b""
    for chunk in stream:
        choice = chunk.choices[0]
        text += choice.delta.content or ""
        for entry in (choice.logprobs.content or []) if choice.logprobs else ():
            raw += bytes(entry.bytes or [])
            assert entry.top_logprobs[0].token == entry.token
    spelled = raw.decode("utf-8", "ignore").removesuffix("<|im_end|>")
    assert text
    assert spelled == text


def test_fields_do_what_they_say(server: RuntimeProcess, client: openai.OpenAI) -> None:
    def complete(**fields: Any) -> str:
        given = {"model": "m", "prompt": "One two three four", "max_tokens": 6, "temperature": 0} | fields
        return str(post(server, "/v1/completions", **given)["choices"][0]["text"])

    plain = complete()
    (token,) = post(server, "/tokenize", prompt=" zebra"[:3])["tokens"][:1]
    assert complete(logit_bias={str(token): 100}) == post(server, "/detokenize", tokens=[token] * 6)["prompt"]
    ids = post(server, "/tokenize", prompt=plain)["tokens"]
    stopped = post(
        server, "/v1/completions", model="m", prompt="One two three four", max_tokens=6, temperature=0,
        stop_token_ids=[ids[1]],
    )  # fmt: skip
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert stopped["usage"]["completion_tokens"] == 2
    assert complete(stop_token_ids=[ids[1]], min_tokens=6) != plain
    assert complete(stop=[plain[3:6]]) == plain[:3]
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="m", prompt=[49152], max_tokens=1)
    assert refused.value.param == "prompt"


def test_text_comes_back_from_its_tokens(server: RuntimeProcess) -> None:
    text = "Zwölf Boxkämpfer, 你好 <|im_start|>\n"
    answer = post(server, "/tokenize", prompt=text, return_token_strs=True)
    assert post(server, "/detokenize", tokens=answer["tokens"]) == {"prompt": text}
    assert "<|im_start|>" in answer["token_strs"]
    chat = post(server, "/tokenize", messages=[{"role": "user", "content": "hi"}])
    usage = post(server, "/v1/chat/completions", model="m", messages=[{"role": "user", "content": "hi"}], max_tokens=1)
    assert chat["count"] == usage["usage"]["prompt_tokens"]


def test_a_drain_lets_a_running_completion_finish(server: RuntimeProcess, client: openai.OpenAI) -> None:
    """The last test: it ends the process."""
    ended: list[Any] = []

    def run() -> None:
        asked = {"model": "m", "prompt": "Once", "max_tokens": 60, "n": 2, "extra_body": {"ignore_eos": True}}
        ended.append(client.completions.create(**asked))  # type: ignore[call-overload]

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 20
    while metric(server, "vllm:num_requests_running") < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    thread.join(60)
    assert server.process.wait(timeout=30) == 0
    (answer,) = ended
    assert [choice.finish_reason for choice in answer.choices] == ["length", "length"]
    assert answer.usage.completion_tokens == 120
    assert server.spooled()[-1]["outcome"] == "completed"
