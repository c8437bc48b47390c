"""Tools and structured output by the client's helpers. A grammar has the answer, so even a random model keeps to it."""

from __future__ import annotations

import json
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from helpers.openai_answers import check_answer, check_stream

from .conftest import World

USER: Any = [{"role": "user", "content": "hello"}]


class Weather(BaseModel):
    """Tells the weather."""

    city: Literal["Paris", "Rome"]
    unit: Literal["C", "F"]


class Person(BaseModel):
    kind: Literal["human", "robot"]
    grown: bool


WEATHER: Any = openai.pydantic_function_tool(Weather)
PAINT: Any = {
    "type": "function",
    "function": {
        "name": "paint",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "blue"]}},
            "required": ["colour"],
            "additionalProperties": False,
        },
    },
}
NAMED: Any = {"type": "function", "function": {"name": "Weather"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_call_is_parsed_to_its_type(world: World, client: openai.OpenAI, choice: Any) -> None:
    asked: Any = {"model": world.caller, "messages": USER, "tools": [WEATHER], "tool_choice": choice}
    answer = client.chat.completions.parse(**asked, max_tokens=1500)
    (call, *_) = answer.choices[0].message.tool_calls or []
    assert isinstance(call.function.parsed_arguments, Weather)
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None


def test_a_call_is_put_together_from_its_stream(world: World, client: openai.OpenAI) -> None:
    asked: Any = {"model": world.caller, "messages": USER, "tools": [WEATHER, PAINT], "tool_choice": NAMED}
    with client.chat.completions.stream(**asked, max_tokens=1500, seed=1) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    whole = client.chat.completions.create(**asked, max_tokens=1500, seed=1)
    streamed, plain = final.choices[0].message.tool_calls, whole.choices[0].message.tool_calls
    assert [(c.function.name, c.function.arguments) for c in streamed or []] == [
        (c.function.name, c.function.arguments) for c in plain or [] if c.type == "function"
    ]
    assert kinds.count("tool_calls.function.arguments.done") == len(streamed or []) >= 1


def test_a_turn_with_a_tools_result_goes_on(world: World, client: openai.OpenAI) -> None:
    asked: Any = {"model": world.caller, "tools": [PAINT], "tool_choice": "required", "max_tokens": 1500}
    first = client.chat.completions.create(**asked, messages=USER, parallel_tool_calls=False).choices[0].message
    (call,) = first.tool_calls or []
    result = {"role": "tool", "tool_call_id": call.id, "content": "done"}
    turns: Any = [*USER, first.model_dump(exclude_none=True), result]
    again = client.chat.completions.create(**asked | {"messages": turns, "tool_choice": "none", "max_tokens": 4})
    assert again.choices[0].message.tool_calls is None
    turns = [*USER, first.model_dump(), result]
    client.chat.completions.create(**asked | {"messages": turns, "max_tokens": 1500}), "its nulls are no fields"


def test_every_byte_of_calls_is_openais(world: World, client: openai.OpenAI) -> None:
    asked: Any = {"model": world.caller, "messages": USER, "tools": [WEATHER, PAINT], "max_tokens": 1500}
    for choice in ("auto", "required", NAMED):
        asked["tool_choice"] = choice
        check_answer(client.chat.completions.with_raw_response.create(**asked).http_response.json())
        with client.chat.completions.with_streaming_response.create(**asked, stream=True) as answer:
            check_stream(answer.read())


def test_a_model_whose_template_knows_no_tools_refuses_them_by_name(world: World, client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(model=world.model, messages=USER, tools=[PAINT])
    assert refusal.value.param == "tools"


def test_an_answer_is_parsed_to_its_type(world: World, client: openai.OpenAI) -> None:
    asked: Any = {"model": world.model, "messages": USER, "response_format": Person, "max_tokens": 60}
    parsed = client.chat.completions.parse(**asked).choices[0].message.parsed
    assert isinstance(parsed, Person)
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Person)


def test_an_answer_that_is_cut_short_is_no_type(world: World, client: openai.OpenAI) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model=world.model, messages=USER, response_format=Person, max_tokens=2)


def test_json_objects_and_vllms_own_field(world: World, client: openai.OpenAI) -> None:
    asked: Any = {"model": world.model, "messages": USER, "max_tokens": 60}
    choice = client.chat.completions.create(**asked, extra_body={"structured_outputs": {"choice": ["yes", "no"]}})
    assert choice.choices[0].message.content in ("yes", "no")
    answer = client.chat.completions.create(**asked, temperature=0, response_format={"type": "json_object"})
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content or ""), dict)
