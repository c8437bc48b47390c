"""Tools and structure through vLLM: what it is sent, and that our door reads calls out of what it says.

A program of the tests stands in for vLLM, whose own tests are marked ``external``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from llguidance import LLMatcher, grammar_from

from gpuruntime.external.openai_body import structure_of
from helpers.door import TOKEN, RuntimeProcess
from helpers.openai_answers import check_answer, check_stream
from helpers.sdk_world import TEMPLATE
from helpers.tiny_llama import write_tiny_llama

USER: Any = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
ADD: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}
NAMED: Any = {"type": "function", "function": {"name": "add"}}
CALLS = ["Let me see. <tool", '_call>\n{"name": "add", "argu', 'ments": {"a": 1}}\n</tool_call>']
OURS = frozenset({"berth"})


class Vllm:
    def __init__(self, runtime: RuntimeProcess, asked: Path) -> None:
        self.client = openai.OpenAI(base_url=f"{runtime.url}/v1", api_key=TOKEN, max_retries=0)
        self._asked = asked

    @property
    def arguments(self) -> list[str]:
        found: list[str] = json.loads(self._asked.read_text().splitlines()[0])
        return found

    @property
    def sent(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._asked.read_text().splitlines()[-1])
        return found

    def ask(self, **more: Any) -> Any:
        return self.client.chat.completions.create(model="m", messages=more.pop("messages", USER), **more)


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Vllm]]:
    """Starts a runtime before a stand-in that says ``pieces``."""
    program, started = tmp_path / "vllm", list[RuntimeProcess]()
    script = Path(__file__).parents[2] / "helpers" / "scripted_vllm.py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    program.chmod(0o755)
    asked = tmp_path / "asked"
    for name, value in {"BERTH_VLLM_BIN": program, "SCRIPTED_VLLM_ASKED": asked}.items():
        monkeypatch.setenv(name, str(value))

    def start(*pieces: str, template: str = TEMPLATE) -> Vllm:
        monkeypatch.setenv("SCRIPTED_VLLM_SAYS", json.dumps(pieces))
        write_tiny_llama(tmp_path / "model", template=template)
        runtime = RuntimeProcess(tmp_path, tmp_path / "model", engine={"engine": "vllm", "max_model_len": 512})
        started.append(runtime)
        assert runtime.wait_for("ready", "failed").state == "ready", runtime.logged()
        return Vllm(runtime, asked)

    yield start
    for runtime in started:
        runtime.end()


def test_calls_are_read_out_of_what_it_says(vllm: Callable[..., Vllm]) -> None:
    asking = vllm(*CALLS)
    whole = asking.client.chat.completions.with_raw_response.create(model="m", messages=USER, tools=[ADD])
    check_answer(whole.http_response.json(), extra=OURS)
    with asking.client.chat.completions.with_streaming_response.create(
        model="m", messages=USER, tools=[ADD], stream=True
    ) as streamed:
        check_stream(streamed.read())
    (choice,) = whole.parse().choices
    assert choice.message.content == "Let me see."
    assert [(c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls] == [
        ("add", {"a": 1})
    ]
    assert choice.finish_reason == "tool_calls"
    assert (asking.sent["tools"], asking.sent["tool_choice"]) == ([ADD], "none")
    assert asking.sent["skip_special_tokens"] is False
    at = asking.arguments.index("--structured-outputs-config")
    assert json.loads(asking.arguments[at + 1]) == {"backend": "guidance"}


def test_a_call_that_has_to_be_is_a_structure(vllm: Callable[..., Vllm]) -> None:
    asking = vllm('{"name": "add", ', '"arguments": {"a": 2}}')
    (choice,) = asking.ask(tools=[ADD], tool_choice=NAMED).choices
    assert [(c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls] == [
        ("add", {"a": 2})
    ]
    (kind,) = asking.sent["structured_outputs"]["json"]["anyOf"]
    assert kind["properties"]["name"] == {"const": "add"}
    call = choice.message.tool_calls[0].model_dump()
    turns = [*USER, {"role": "assistant", "tool_calls": [call]}]
    turns.append({"role": "tool", "tool_call_id": call["id"], "content": "3"})
    asking.ask(messages=turns, tools=[ADD], tool_choice="none")
    assert "tools" not in asking.sent
    assert asking.sent["messages"][1]["tool_calls"] == [call | {"function": {"name": "add", "arguments": '{"a": 2}'}}]
    assert asking.sent["messages"][2]["tool_call_id"] == call["id"]


def test_structures_are_passed_on_as_they_were_checked(vllm: Callable[..., Vllm]) -> None:
    asking = vllm("x")
    asked = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, "strict": True}}
    asking.ask(response_format=asked)
    sent = asking.sent["structured_outputs"]["json"]
    assert {name: value for name, value in sent.items() if name != "x-guidance"} == SCHEMA
    asking.ask(extra_body={"structured_outputs": {"regex": "[a-z]{3}"}})
    assert asking.sent["structured_outputs"] == {"grammar": "start: /[a-z]{3}/"}
    asking.ask(extra_body={"structured_outputs": {"choice": ["yes", "no"]}})
    assert asking.sent["structured_outputs"] == {"grammar": 'start: "yes" | "no"'}
    asking.ask()
    assert asking.sent.keys().isdisjoint({"structured_outputs", "tools", "tool_choice", "skip_special_tokens"})
    with pytest.raises(openai.BadRequestError) as refusal:
        asking.ask(extra_body={"structured_outputs": {"regex": "["}})
    assert refusal.value.param == "structured_outputs.regex"


def test_a_model_without_a_format_refuses_tools_by_name(vllm: Callable[..., Vllm]) -> None:
    asking = vllm("x", template="{% for m in messages %}{{ m.content }}{% endfor %}")
    with pytest.raises(openai.BadRequestError) as refusal:
        asking.ask(tools=[ADD])
    assert refusal.value.param == "tools"
    asking.ask(response_format={"type": "json_object"})
    assert asking.sent["structured_outputs"]["json"]["type"] == "object"


@pytest.mark.parametrize(
    "grammar",
    [
        LLMatcher.grammar_from_regex("[a-z]{3}"),
        LLMatcher.grammar_from_lark('start: "a" | "b"'),
        LLMatcher.grammar_from_json_schema(json.dumps(SCHEMA)),
    ],
)
def test_vllms_guidance_backend_makes_the_same_grammar_of_it(grammar: str) -> None:
    """As ``vllm/v1/structured_output/backend_guidance.py`` calls llguidance."""

    def heart(text: str) -> Any:
        if not text.startswith("{"):
            return text
        (only,) = json.loads(text)["grammars"]
        return only.get("lark_grammar") or {k: v for k, v in only["json_schema"].items() if k != "x-guidance"}

    (kind, value), *_ = structure_of(grammar).items()
    made = grammar_from(kind, value) if kind == "grammar" else grammar_from("json_schema", json.dumps(value))
    assert heart(made) == heart(grammar)
