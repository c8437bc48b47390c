"""``/v1/completions`` with the official client and against OpenAI's own schema; ``/tokenize`` and ``/detokenize``."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from helpers.door import AUTH, TOKEN, OpenDoor, ScriptedBackend, open_door, sse
from helpers.openai_answers import check_answer

OURS = frozenset({"berth", "max_model_len"})


def client(door: OpenDoor) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=TOKEN, max_retries=0)


async def post(door: OpenDoor, path: str = "/v1/completions", **body: Any) -> tuple[int, Any]:
    async with door.http.post(door.url + path, json=body, headers=AUTH) as response:
        raw = await response.read()
        return response.status, sse(raw) if body.get("stream") and response.status == 200 else json.loads(raw)


@pytest.mark.parametrize("prompt", ["hello", list(b"hello"), ["hello"], [list(b"hello")]])
async def test_a_prompt_may_be_text_or_ids(prompt: Any) -> None:
    async with open_door(ScriptedBackend()) as door:
        answer = await client(door).completions.create(model="m", prompt=prompt, max_tokens=3)
        (ended,) = door.ended()
    assert [(c.index, c.text, c.finish_reason, c.logprobs) for c in answer.choices] == [
        (0, "w0 w1 w2 ", "length", None)
    ]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 3)
    assert (ended.outcome, ended.prompt_tokens, ended.completion_tokens) == ("completed", 5, 3)


async def test_without_max_tokens_there_are_sixteen() -> None:
    async with open_door(ScriptedBackend()) as door:
        answer = await client(door).completions.create(model="m", prompt="x")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


@pytest.mark.parametrize("stream", [True, False])
async def test_several_prompts_of_several_choices_are_numbered_in_order(stream: bool) -> None:
    backend = ScriptedBackend(step_s=0.001)
    async with open_door(backend) as door:
        prompts, texts = ["a", "bb", "ccc"], dict.fromkeys(range(6), "")
        answer: Any = await client(door).completions.create(
            model="m", prompt=prompts, n=2, max_tokens=2, echo=True, seed=5, stream=stream,
            stream_options={"include_usage": True} if stream else openai.omit,
        )  # fmt: skip
        if stream:
            usage = None
            async for chunk in answer:
                usage = chunk.usage or usage
                for choice in chunk.choices:
                    texts[choice.index] += choice.text
        else:
            texts |= {choice.index: choice.text for choice in answer.choices}
            usage = answer.usage
        (ended,) = door.ended()
    assert usage is not None
    assert texts == {i: prompts[i // 2] + "w0 w1 " for i in range(6)}
    assert (usage.prompt_tokens, usage.completion_tokens) == (1 + 2 + 3, 12)
    assert (ended.prompt_tokens, ended.completion_tokens, ended.new_prompt_tokens) == (6, 12, 6)
    assert sorted(params.seed or 0 for params in backend.params) == [5, 5, 5, 6, 6, 6]


@pytest.mark.parametrize("stream", [True, False])
async def test_echo_with_logprobs_scores_the_prompt_and_says_where_each_token_is(stream: bool) -> None:
    async with open_door(ScriptedBackend()) as door:
        answer: Any = await client(door).completions.create(
            model="m", prompt="né", max_tokens=2, echo=True, logprobs=1, stream=stream
        )
        chunks = [chunk async for chunk in answer] if stream else [answer]
    choices = [chunk.choices[0] for chunk in chunks]
    text = "".join(choice.text for choice in choices)
    scores = [choice.logprobs for choice in choices if choice.logprobs is not None]
    joined = {
        name: [item for part in scores for item in getattr(part, name)]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    }
    assert text == "néw0 w1 "
    assert joined["tokens"] == ["n", "bytes:\\xc3", "bytes:\\xa9", "w0 ", "w1 "]
    assert joined["token_logprobs"] == [None, -0.25, -0.5, 0.0, -0.125]
    assert joined["text_offset"] == [0, 1, 1, 2, 5]
    assert joined["top_logprobs"][0] is None
    assert joined["top_logprobs"][3] == {"w0 ": 0.0}


async def test_no_token_at_all_scores_a_prompt() -> None:
    async with open_door(ScriptedBackend()) as door:
        status, answer = await post(door, model="m", prompt="abc", max_tokens=0, echo=True, logprobs=0)
        (ended,) = door.ended()
    assert status == 200
    choice = answer["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "length")
    assert choice["logprobs"]["token_logprobs"] == [None, -0.25, -0.5]
    assert answer["usage"]["completion_tokens"] == ended.completion_tokens == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": ["a", 1]}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": [3000]}, "prompt"),
        ({"prompt": [[5], [-1]]}, "prompt"),
        ({"prompt": ["x"] * 129}, "prompt"),
        ({"prompt": "x" * 1000}, "prompt"),
        ({"prompt": "x" * 990, "max_tokens": 11}, "max_tokens"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"min_tokens": 17}, "min_tokens"),
        ({"echo": 1}, "echo"),
    ],
)
async def test_a_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    async with open_door(ScriptedBackend()) as door:
        status, answer = await post(door, **({"model": "m", "prompt": "hi"} | fields))
        assert (status, answer["error"]["param"]) == (400, param)
        assert door.ended() == []
        with pytest.raises(openai.NotFoundError):
            await client(door).completions.create(model="other", prompt="x")


@pytest.mark.parametrize("scored", [False, True])
async def test_answers_fit_openais_schema(scored: bool) -> None:
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    asked: dict[str, Any] = {"model": "m", "max_tokens": 2, "n": 2}
    text = asked | {"prompt": "hi", "logprobs": 2 if scored else None}
    chat = asked | {"messages": [{"role": "user", "content": "hi"}], "logprobs": scored}
    async with open_door(ScriptedBackend()) as door:
        for one in [(await post(door, **text))[1], *(await post(door, **text, **usage))[1][:-1]]:
            check_answer(one, extra=OURS)
        path = "/v1/chat/completions"
        check_answer((await post(door, path, **chat))[1], extra=OURS)
        for one in (await post(door, path, **chat, **usage))[1][:-1]:
            check_answer(one, extra=OURS)
        async with door.http.get(f"{door.url}/v1/models", headers=AUTH) as response:
            check_answer(await response.json(), extra=OURS)
        assert (await client(door).models.retrieve("m")).owned_by == "berth"


async def test_tokenize_and_back() -> None:
    async with open_door(ScriptedBackend()) as door:
        status, answer = await post(door, "/tokenize", prompt="né", return_token_strs=True)
        assert status == 200
        assert answer == {"count": 3, "max_model_len": 1000, "tokens": [110, 195, 169], "token_strs": ["n", "�", "�"]}
        _, answer = await post(door, "/tokenize", model="m", messages=[{"role": "user", "content": "x" * 2000}])
        assert (answer["count"], answer["token_strs"]) == (2000, None)
        assert await post(door, "/detokenize", tokens=[110, 195, 169]) == (200, {"prompt": "né"})


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": []}, "prompt"),
        ("/tokenize", {"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ("/tokenize", {"prompt": "a", "add_generation_prompt": False}, "add_generation_prompt"),
        ("/detokenize", {"tokens": [3000]}, "tokens"),
        ("/detokenize", {"tokens": ["a"]}, "tokens[0]"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [1], "model": "other"}, "model"),
    ],
)
async def test_what_cannot_be_tokenized_is_named(path: str, body: dict[str, Any], param: str) -> None:
    async with open_door(ScriptedBackend()) as door:
        status, answer = await post(door, path, **body)
    assert (status, answer["error"]["param"]) == (404 if param == "model" else 400, param)
