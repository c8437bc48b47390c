"""A random model that has to answer in JSON or call a tool, behind a real door, by OpenAI's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletion
from pydantic import BaseModel

from helpers.door import TOKEN, RuntimeProcess
from helpers.engine import save_byte_model

USER: Any = [{"role": "user", "content": "hello"}]
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if false %}<tool_call></tool_call>{% endif %}"
)
ADD = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/digit"}, "b": {"$ref": "#/$defs/digit"}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {"digit": {"type": "integer", "minimum": 0, "maximum": 9}},
}
PAINT = {
    "type": "object",
    "properties": {"colour": {"$ref": "#/$defs/digit"}},
    "required": ["colour"],
    "additionalProperties": False,
    "$defs": {"digit": {"enum": ["red", "blue"]}},
}
SCHEMAS = {"add": ADD, "paint": PAINT}
TOOLS: Any = [{"type": "function", "function": {"name": name, "parameters": SCHEMAS[name]}} for name in SCHEMAS]


class Answer(BaseModel):
    kind: Literal["x", "y"]
    sure: bool


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    folder = tmp_path_factory.mktemp("structured")
    model = save_byte_model(folder / "model", context=2048)
    (model / "chat_template.jinja").write_text(TEMPLATE)
    runtime = RuntimeProcess(folder, model, engine={"dtype": "fp32", "kv_bytes": 16 << 20})
    try:
        runtime.wait_for("ready")
        yield openai.OpenAI(base_url=f"{runtime.url}/v1", api_key=TOKEN, max_retries=0)
    finally:
        runtime.end()


def ask(client: openai.OpenAI, **more: Any) -> ChatCompletion:
    return client.chat.completions.create(
        **{"model": "m", "messages": USER, "max_tokens": 800, "temperature": 1, **more}
    )


def test_an_answer_is_parsed_into_the_clients_own_type(client: openai.OpenAI) -> None:
    more: Any = {"temperature": 1, "max_tokens": 800, "n": 3, "logprobs": True}
    parsed = client.chat.completions.parse(model="m", messages=USER, response_format=Answer, **more)
    assert len(parsed.choices) == 3
    for choice in parsed.choices:
        assert choice.finish_reason == "stop"
        assert choice.message.parsed == Answer.model_validate_json(choice.message.content or "")
        assert choice.logprobs is not None
    assert parsed.usage is not None
    assert parsed.usage.completion_tokens == sum(len(choice.logprobs.content) for choice in parsed.choices)  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_required_is_made(client: openai.OpenAI, stream: bool) -> None:
    for seed in range(4):
        more: Any = {"tools": TOOLS, "tool_choice": "required", "seed": seed}
        if stream:
            with client.chat.completions.stream(model="m", messages=USER, max_tokens=800, **more) as events:
                choice: Any = events.get_final_completion().choices[0]
        else:
            choice = ask(client, **more).choices[0]
        (call,) = choice.message.tool_calls
        assert (choice.finish_reason, choice.message.content or "") == ("tool_calls", "")
        jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])


def test_a_named_tool_is_the_one_that_is_called(client: openai.OpenAI) -> None:
    for name, schema in SCHEMAS.items():
        choice: Any = ask(
            client, tools=TOOLS, tool_choice={"type": "function", "function": {"name": name}}, seed=3
        ).choices[0]
        (call,) = choice.message.tool_calls
        assert call.function.name == name
        jsonschema.validate(json.loads(call.function.arguments), schema)


def test_an_answer_that_is_cut_says_so(client: openai.OpenAI) -> None:
    choice = ask(client, response_format={"type": "json_object"}, max_tokens=1).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("length", "{")


def test_a_text_completion_follows_vllms_field(client: openai.OpenAI) -> None:
    more: Any = {"extra_body": {"structured_outputs": {"choice": ["left", "right"]}}}
    answer = client.completions.create(model="m", prompt=["a", "b"], max_tokens=9, temperature=1, **more)
    assert all(choice.text in ("left", "right") for choice in answer.choices)
    assert {choice.finish_reason for choice in answer.choices} == {"stop"}


def test_a_schema_that_does_not_compile_is_refused_with_its_field(client: openai.OpenAI) -> None:
    schema: Any = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "objekt"}}}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, response_format=schema)
    assert caught.value.param == "response_format.json_schema.schema"
