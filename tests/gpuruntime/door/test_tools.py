"""Tool calls and reasoning as OpenAI's own client reads them from a door."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from berth.gateway.collect import Collector
from berth.gateway.frames import StreamFilter
from gpuruntime.tools.formats import HERMES, MISTRAL, THINK, ToolFormat
from helpers.door import TOKEN, OpenDoor, ScriptedBackend, open_door, sse

TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
USER: Any = [{"role": "user", "content": "What is 1 + 2?"}]
TWO = (
    "Let me ",
    "see.\n<tool",
    '_call>{"name": "add", "argu',
    'ments": {"a": 1',
    ', "b": 2}}',
    "</tool_call>\n<tool_call>",
)
CALLS = (*TWO, '{"name": "add", "arguments": {}}</tool_call>')


@asynccontextmanager
async def answering(
    *says: str, form: ToolFormat | None = HERMES, thinks: bool = False, **more: Any
) -> AsyncIterator[tuple[ScriptedBackend, OpenDoor, openai.AsyncOpenAI]]:
    backend = ScriptedBackend(says=says, tool_format=form, thinks=thinks, **more)
    async with open_door(backend) as door, openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=TOKEN) as client:
        yield backend, door, client


async def whole(client: openai.AsyncOpenAI, **more: Any) -> Any:
    answer = await client.chat.completions.create(model="m", messages=USER, tools=[TOOL], **more)
    ChatCompletion.model_validate(answer.model_dump(), strict=True)
    return answer.choices[0]


async def streamed(client: openai.AsyncOpenAI, **more: Any) -> Any:
    """As the client's own helper puts the deltas together."""
    async with client.chat.completions.stream(model="m", messages=USER, tools=[TOOL], **more) as stream:
        async for event in stream:
            if event.type == "chunk":
                ChatCompletionChunk.model_validate(event.chunk.model_dump(), strict=True)
        return (await stream.get_final_completion()).choices[0]


async def test_calls_are_the_same_streamed_and_whole() -> None:
    async with answering(*CALLS) as (backend, _, client):
        for choice in (await streamed(client), await whole(client)):
            calls = choice.message.tool_calls
            assert choice.finish_reason == "tool_calls"
            assert choice.message.content == "Let me see."
            assert [call.function.name for call in calls] == ["add", "add"]
            assert [json.loads(call.function.arguments) for call in calls] == [{"a": 1, "b": 2}, {}]
            assert len({call.id for call in calls}) == 2
        assert list(backend.tools) == [TOOL]
        assert backend.params[0].special == HERMES.marks


async def test_a_calls_id_and_name_come_once_and_every_frame_has_all_keys() -> None:
    async with answering(*CALLS) as (_, door, _client), door.chat(tools=[TOOL], stream=True) as response:
        *frames, done = sse(await response.read())
    assert done == "[DONE]"
    choices = [frame["choices"][0] for frame in frames]
    assert all({"index", "delta", "logprobs", "finish_reason"} == set(choice) for choice in choices)
    calls = [choice["delta"]["tool_calls"][0] for choice in choices if "tool_calls" in choice["delta"]]
    assert [(call["index"], "id" in call, "name" in call["function"]) for call in calls if "id" in call] == [
        (0, True, True),
        (1, True, True),
    ]
    assert all(set(call) == {"index", "function"} for call in calls if "id" not in call)
    assert choices[-1] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "tool_calls"}


async def test_what_the_gateway_puts_together_is_what_the_door_answers() -> None:
    usage = {"include_usage": True, "continuous_usage_stats": True}
    async with answering(*CALLS) as (_, door, _client):
        async with door.chat(tools=[TOOL], stream=True, stream_options=usage) as response:
            raw = await response.read()
        async with door.chat(tools=[TOOL]) as response:
            expected = (await response.json())["choices"][0]
    reading, collector = StreamFilter(True, False), Collector()
    for event in reading.take(raw):
        collector.add(event)
    choice = json.loads(collector.body(None))["choices"][0]
    ids = [call.pop("id") for found in (choice, expected) for call in found["message"]["tool_calls"]]
    assert choice == expected
    assert (reading.completion_tokens, len(set(ids))) == (len(CALLS), 4)


async def test_one_call_where_only_one_may_be_made() -> None:
    async with answering(*CALLS) as (_, _door, client):
        for choice in (
            await streamed(client, parallel_tool_calls=False),
            await whole(client, parallel_tool_calls=False),
        ):
            assert [json.loads(call.function.arguments) for call in choice.message.tool_calls] == [{"a": 1, "b": 2}]


async def test_an_answer_cut_inside_a_call_says_length() -> None:
    async with answering(*CALLS) as (_, _door, client):
        choice = await whole(client, max_tokens=4)
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls[0].function.arguments == '{"a": 1'


async def test_text_without_a_call_stays_content() -> None:
    async with answering("3 < 4", " <tool_ca") as (_, _door, client):
        for choice in (await streamed(client), await whole(client)):
            assert (choice.message.content, choice.finish_reason) == ("3 < 4 <tool_ca", "stop")
            assert not choice.message.tool_calls


async def test_every_choice_is_read_by_itself() -> None:
    async with answering(*CALLS) as (_, _door, client):
        answer = await client.chat.completions.create(model="m", messages=USER, tools=[TOOL], n=2)
    assert [len(choice.message.tool_calls or ()) for choice in answer.choices] == [2, 2]
    assert len({call.id for choice in answer.choices for call in choice.message.tool_calls or ()}) == 4


async def test_every_tokens_log_probability_is_there() -> None:
    async with answering(*CALLS) as (_, door, client):
        async with door.chat(tools=[TOOL], stream=True, logprobs=True) as response:
            frames = sse(await response.read())[:-1]
        choice = await whole(client, logprobs=True)
    found = [frame["choices"][0]["logprobs"] for frame in frames]
    tokens = [one["token"] for logprobs in found if logprobs for one in logprobs["content"]]
    assert tokens == [one.token for one in choice.logprobs.content]
    assert len(tokens) == len(CALLS)


async def test_mistral_takes_ids_of_nine_characters() -> None:
    async with answering("[TOOL_CALLS]add[ARGS]{}", form=MISTRAL) as (_, _door, client):
        call = (await whole(client)).message.tool_calls[0]
    assert (len(call.id), call.id.isalnum(), call.function.arguments) == (9, True, "{}")


async def test_reasoning_stands_apart_with_and_without_tools() -> None:
    says = ("<thi", "nk>It is ", "3.</think>", "\n\nThree")
    async with answering(*says, form=None, thinks=True) as (backend, _door, client):
        answer = await client.chat.completions.create(model="m", messages=USER)
        parts = [chunk async for chunk in await client.chat.completions.create(model="m", messages=USER, stream=True)]
    message = answer.choices[0].message
    assert (message.content, message.model_extra["reasoning_content"]) == ("Three", "It is 3.")
    reasoning = [(chunk.choices[0].delta.model_extra or {}).get("reasoning_content") or "" for chunk in parts]
    assert "".join(reasoning) == "It is 3."
    assert "".join(chunk.choices[0].delta.content or "" for chunk in parts) == "Three"
    assert backend.params[0].special == THINK


async def test_a_model_without_tools_refuses_them_by_name() -> None:
    async with answering("x", form=None, refuses=("tools",)) as (_, _door, client):
        with pytest.raises(openai.BadRequestError) as caught:
            await whole(client)
    assert caught.value.param == "tools"
