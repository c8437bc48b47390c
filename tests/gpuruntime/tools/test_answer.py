"""Tool calls from text: what each family's models write, cut anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.tools.answer import AnswerParser
from gpuruntime.tools.events import CallArguments, CallBegins, Content, Event, Reasoning
from gpuruntime.tools.formats import HERMES, LLAMA, MISTRAL, ToolFormat, thinks, tool_format

NAMES = ("get_weather", "add")
Read = tuple[str, str, list[tuple[str, str]]]


def read(form: ToolFormat | None, pieces: Sequence[str], *, think: bool = False, thinking: bool = False) -> Read:
    """Content, reasoning and the calls of an answer that came in these pieces."""
    parser = AnswerParser(form, NAMES, thinks=think, thinking=thinking)
    events: list[Event] = [event for piece in pieces for event in parser.push(piece)]
    events += parser.finish()
    calls: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, CallBegins):
            calls.append((event.name, ""))
        elif isinstance(event, CallArguments):
            calls[-1] = (calls[-1][0], calls[-1][1] + event.text)
    content = "".join(event.text for event in events if isinstance(event, Content))
    reasoning = "".join(event.text for event in events if isinstance(event, Reasoning))
    return content, reasoning, calls


PARIS = '{"city": "Paris"}'
CASES: list[tuple[str, ToolFormat | None, str, Read]] = [
    ("text alone", HERMES, " It is sunny.\n", (" It is sunny.\n", "", [])),
    (
        "a call",
        HERMES,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        ("", "", [("get_weather", PARIS)]),
    ),
    (
        "text, two calls, text",
        HERMES,
        'Let me see.\n<tool_call>{"name":"add","arguments":{"a":[1,{"b":2}]}}</tool_call>\n'
        '<tool_call>{"arguments":{},"name":"get_weather"}</tool_call>\n\nDone.',
        ("Let me see.Done.", "", [("add", '{"a":[1,{"b":2}]}'), ("get_weather", "{}")]),
    ),
    (
        "marks and brackets in a string",
        HERMES,
        '<tool_call>{"name": "add", "arguments": {"s": "}\\"</tool_call><tool_call>{"}}</tool_call>',
        ("", "", [("add", '{"s": "}\\"</tool_call><tool_call>{"}')]),
    ),
    ("no arguments", HERMES, '<tool_call>{"name": "add"}</tool_call>', ("", "", [("add", "{}")])),
    (
        "arguments as a string",
        HERMES,
        '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>',
        ("", "", [("add", '{"a": 1}')]),
    ),
    (
        "other keys, and one twice",
        HERMES,
        '<tool_call>{"id": 7, "name": "add", "x": [1], "arguments": {"a": 1}, "arguments": {"b": 2}}</tool_call>',
        ("", "", [("add", '{"a": 1}')]),
    ),
    ("not JSON", HERMES, "a <tool_call>hello</tool_call> b", ("a <tool_call>hello</tool_call> b", "", [])),
    ("nothing between", HERMES, "<tool_call>\n</tool_call>", ("<tool_call>\n</tool_call>", "", [])),
    ("no name", HERMES, '<tool_call>{"a": 1}</tool_call>!', ('<tool_call>{"a": 1}</tool_call>!', "", [])),
    ("unclosed before its name", HERMES, 'So <tool_call>{"name": "ad', ('So <tool_call>{"name": "ad', "", [])),
    (
        "unclosed in its arguments",
        HERMES,
        '<tool_call>{"name":"add","arguments":{"a": "x',
        ("", "", [("add", '{"a": "x')]),
    ),
    ("a beginning of a mark", HERMES, "1 <tool 2 <tool_ca", ("1 <tool 2 <tool_ca", "", [])),
    ("a stray end", HERMES, "x </tool_call> y", ("x </tool_call> y", "", [])),
    (
        "an object without its last brace",
        HERMES,
        '<tool_call>{"name":"add","arguments":{"a":1}</tool_call><tool_call>{"name":"add"}</tool_call>',
        ("", "", [("add", '{"a":1}'), ("add", "{}")]),
    ),
    ("a bare call", LLAMA, '{"name": "add", "parameters": {"a": 1}}', ("", "", [("add", '{"a": 1}')])),
    (
        "two bare calls",
        LLAMA,
        '\n{"name": "add", "parameters": {"a": 1}}; {"name": "add", "parameters": {"a": 2}}',
        ("", "", [("add", '{"a": 1}'), ("add", '{"a": 2}')]),
    ),
    (
        "behind its mark",
        LLAMA,
        '<|python_tag|>{"name": "other", "parameters": {}}',
        ("", "", [("other", "{}")]),
    ),
    ("an object of another kind", LLAMA, '{"name": "Ann", "age": 3}', ('{"name": "Ann", "age": 3}', "", [])),
    ("a tool's name without arguments", LLAMA, '{"name": "add"}', ('{"name": "add"}', "", [])),
    (
        "an object later on",
        LLAMA,
        'See {"name": "add", "parameters": {}}',
        ('See {"name": "add", "parameters": {}}', "", []),
    ),
    (
        "a list",
        MISTRAL,
        '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}, {"name": "add", "arguments": {"a": 2}}]',
        ("", "", [("add", '{"a": 1}'), ("add", '{"a": 2}')]),
    ),
    (
        "names before arguments",
        MISTRAL,
        'Well.[TOOL_CALLS]add[ARGS]{"a": "]"}[TOOL_CALLS]get_weather{"city": "Paris"}',
        ("Well.", "", [("add", '{"a": "]"}'), ("get_weather", PARIS)]),
    ),
    ("a mark alone", MISTRAL, "[TOOL_CALLS]add", ("[TOOL_CALLS]add", "", [])),
    ("no tools", None, '<tool_call>{"name": "add"}</tool_call>', ('<tool_call>{"name": "add"}</tool_call>', "", [])),
]


@pytest.mark.parametrize(("form", "text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_text_is_read_the_same_whole_and_by_characters(form: ToolFormat | None, text: str, expected: Read) -> None:
    assert read(form, [text]) == expected
    assert read(form, list(text)) == expected


def test_reasoning_stands_apart() -> None:
    text = '<think>\nI need {"a"} or <tool_call>.\n</think>\n\nHi <think>x</think>'
    expected = ("Hi <think>x</think>", '\nI need {"a"} or <tool_call>.\n', [])
    assert read(HERMES, [text], think=True) == expected
    assert read(HERMES, list(text), think=True) == expected
    assert read(None, ["It is", " so</th", "ink> Yes"], thinking=True) == ("Yes", "It is so", [])
    assert read(None, ["never ends </thin"], thinking=True) == ("", "never ends </thin", [])


def test_reasoning_before_a_bare_call() -> None:
    text = '<think>so</think>\n{"name": "add", "parameters": {}}'
    assert read(LLAMA, list(text), think=True) == ("", "so", [("add", "{}")])


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
call = st.tuples(st.sampled_from(NAMES), st.dictionaries(st.text(), values, max_size=3))
prose = st.text(st.characters(exclude_characters="<[{|", exclude_categories=("Cs",)), max_size=12)


def cuts(text: str, places: Sequence[int]) -> list[str]:
    bounds = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in pairwise(bounds)]


@given(before=prose, calls=st.lists(call, min_size=1, max_size=3), places=st.lists(st.integers(0, 999), max_size=12))
def test_calls_come_out_as_they_went_in(before: str, calls: list[tuple[str, Any]], places: list[int]) -> None:
    def written(form: ToolFormat, key: str) -> list[str]:
        return [json.dumps({"name": name, key: arguments}, ensure_ascii=False) for name, arguments in calls]

    texts = {
        HERMES: before + "\n".join(f"<tool_call>\n{one}\n</tool_call>" for one in written(HERMES, "arguments")),
        LLAMA: before + "<|python_tag|>" + "; ".join(written(LLAMA, "parameters")),
        MISTRAL: f"{before}[TOOL_CALLS][{', '.join(written(MISTRAL, 'arguments'))}]",
    }
    for form, text in texts.items():
        content, _, found = read(form, cuts(text, places))
        assert [(name, json.loads(arguments)) for name, arguments in found] == calls
        assert content == before.rstrip(" \t\r\n")


pieces = st.lists(
    st.sampled_from(
        [
            "<tool_call>",
            "</tool_call>",
            "[TOOL_CALLS]",
            "[ARGS]",
            "<|python_tag|>",
            "<think>",
            "</think>",
            " ",
            "\n",
            "a",
            '{"name": "add", "arguments": {"a": 1}}',
            '{"name":',
            '"add"',
            ',"parameters":',
            "{",
            "}",
            "]",
            "[",
            '"',
            "\\",
            ",",
            ";",
            "1",
        ]
    ),
    max_size=14,
)


@given(
    parts=pieces,
    places=st.lists(st.integers(0, 999), max_size=12),
    form=st.sampled_from([HERMES, LLAMA, MISTRAL, None]),
    think=st.booleans(),
)
def test_how_a_text_is_cut_changes_nothing(
    parts: list[str], places: list[int], form: ToolFormat | None, think: bool
) -> None:
    text = "".join(parts)
    assert read(form, cuts(text, places), think=think) == read(form, [text], think=think)


@given(parts=pieces, form=st.sampled_from([HERMES, LLAMA, MISTRAL]))
def test_an_answer_without_a_call_is_shown_whole(parts: list[str], form: ToolFormat) -> None:
    text = "".join(parts)
    content, _, calls = read(form, [text])
    if not calls:
        assert content == text


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", None),
        ("{% if tools %}<tools></tools> answer in <tool_call></tool_call>{% endif %}", HERMES),
        ("{% if tools %}[AVAILABLE_TOOLS]{% endif %}[TOOL_CALLS]", MISTRAL),
        ("{% if tools is not none %}" + '{"name": function name, "parameters": dictionary}{% endif %}', LLAMA),
        ("{% if tools %}say it somehow{% endif %}", None),
    ],
)
def test_the_template_tells_the_format(template: str, expected: ToolFormat | None) -> None:
    assert tool_format(template) == expected


def test_the_template_tells_whether_the_model_thinks() -> None:
    assert thinks("{{ content.split('</think>')[-1] }}")
    assert not thinks("{{ content }}")
