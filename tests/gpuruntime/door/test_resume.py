"""A stream cut behind any of its marks goes on at another door with the frames of the uninterrupted one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.backend import Delta, Prompt, SamplingParams, TokenLogprob
from gpuruntime.door.choice import Choice, Source
from gpuruntime.door.counting import Account
from gpuruntime.door.frames import Envelope
from gpuruntime.door.tool_frames import ToolFrames
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig
from gpuruntime.marks import MARK
from gpuruntime.protocol import CREATED, MARKS, REQUEST_ID, RESUME
from gpuruntime.tools.formats import HERMES, LLAMA, MISTRAL
from helpers.door import AUTH, OpenDoor, ScriptedBackend, open_door
from helpers.engine import save_byte_model

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ASKED = {REQUEST_ID: "req_1", MARKS: "1", CREATED: "1700000000"}
TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
SAID = (
    "<thi", "nk>hm ", "</th", "ink>\n", "Let me ", "see.\n<tool", '_call>{"name": "add", "argu', 'ments": {"a": 1',
    ', "b": "é"}}', "</tool_call>\n<tool_call>", '{"name": "add", "arguments": {}}', "</tool_call>",
)  # fmt: skip


@dataclass
class Stream:
    """A door's stream as a gateway reads it: what stands in front of each mark, and what behind the last one."""

    model: str
    groups: list[tuple[str, bytes]] = field(default_factory=list)
    end: bytes = b""

    def marks(self, count: int) -> bytes:
        return "".join(f"{mark}\n" for mark, _ in self.groups[:count]).encode()

    def by_choice(self, start: int = 0) -> dict[str, bytes]:
        found: dict[str, bytes] = defaultdict(bytes)
        for mark, frames in self.groups[start:]:
            found[mark.split()[1]] += frames
        return found


async def ask(door: OpenDoor, path: str, body: dict[str, Any], marks: bytes = b"", model: str = "") -> Stream:
    """``marks``: of what the client has already."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    data = json.dumps({"model": "m", "stream": True, "stream_options": options, **body}).encode()
    headers = {**AUTH, **ASKED, **({RESUME: f"{len(data)} {model}"} if marks else {})}
    async with door.http.post(f"{door.url}{path}", data=data + marks, headers=headers) as answer:
        raw = await answer.read()
        assert answer.status == 200, raw
        stream = Stream(answer.headers[MARKS])
    held = b""
    for event in raw.split(b"\n\n")[:-1]:
        if event.startswith(MARK):
            stream.groups.append((event.decode(), held))
            held = b""
        else:
            held += event + b"\n\n"
    stream.end = held
    return stream


def usage_of(end: bytes) -> dict[str, int]:
    """The counts of the last frame."""
    assert end.endswith(b"data: [DONE]\n\n")
    usage: dict[str, Any] = json.loads(end.split(b"\n\n")[0][6:])["usage"]
    return {name: usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}


async def equals_when_cut(door: OpenDoor, other: OpenDoor, path: str, body: dict[str, Any], every: int = 1) -> None:
    whole = await ask(door, path, body)
    usage = usage_of(whole.end)
    one = len(whole.by_choice()) == 1
    for cut in range(1, len(whole.groups) + 1, every):
        rest = await ask(other, path, body, whole.marks(cut), whole.model)
        if one:
            assert rest.groups == whole.groups[cut:], f"cut behind mark {cut}"
        else:  # the counts in a frame are the request's, and so follow the order of the choices
            assert texts_of(rest.by_choice()) == texts_of(whole.by_choice(cut)), f"cut behind mark {cut}"
        assert usage_of(rest.end) == usage
        ended = other.ended()[-1]
        assert (ended.outcome, ended.prompt_tokens) == ("completed", usage["prompt_tokens"])
        assert ended.completion_tokens == usage["completion_tokens"]
        ids = sum(len([word for word in mark.split()[2:] if word.isdigit()]) for mark, _ in whole.groups[:cut])
        assert ended.replayed_tokens == ids
        assert (ended.queue_ms, ended.ttft_ms) == (None, None)


def texts_of(frames: dict[str, bytes]) -> dict[str, list[Any]]:
    found = {}
    for choice, raw in frames.items():
        chunks = [json.loads(event[6:]) for event in raw.split(b"\n\n")[:-1]]
        found[choice] = [{name: value for name, value in chunk.items() if name != "usage"} for chunk in chunks]
    return found


def chat(**more: Any) -> tuple[str, dict[str, Any]]:
    return CHAT, {"messages": [{"role": "user", "content": "Say something."}], "max_tokens": 12, **more}


def text(**more: Any) -> tuple[str, dict[str, Any]]:
    return COMPLETIONS, {"prompt": "Say something.", "max_tokens": 10, **more}


SCRIPTED = [
    chat(),
    chat(logprobs=True, top_logprobs=2),
    chat(prompt_logprobs=1, n=2, max_tokens=4),
    chat(n=3, max_tokens=4),
    text(),
    text(echo=True, logprobs=1, max_tokens=5),
    text(prompt=["One", "Another"], n=2, echo=True, logprobs=1, max_tokens=3),
    text(echo=True, logprobs=0, max_tokens=0),
]


async def test_a_cut_stream_goes_on() -> None:
    async with open_door(ScriptedBackend()) as door, open_door(ScriptedBackend(), replica_id="rep_2") as other:
        for path, body in SCRIPTED:
            await equals_when_cut(door, other, path, body)


async def test_calls_and_reasoning_go_on() -> None:
    backends = [ScriptedBackend(says=SAID, tool_format=HERMES, thinks=True) for _ in range(2)]
    async with open_door(backends[0]) as door, open_door(backends[1], replica_id="rep_2") as other:
        for more in ({}, {"parallel_tool_calls": False}, {"logprobs": True}, {"n": 2}):
            await equals_when_cut(door, other, *chat(max_tokens=50, tools=[TOOL], **more))


# --- The writer alone, however a text falls into steps ------------------------------------------------------------

ANSWERS = [
    (HERMES, "".join(SAID)),
    (HERMES, "No call: <tool_call> {oops} < tool_call>"),
    (MISTRAL, 'Well [TOOL_CALLS][{"name": "add", "arguments": {"a": [1, "]"]}}, {"name": "add", "arguments": {}}]'),
    (LLAMA, '{"name": "add", "parameters": {"x": "<|python_tag|>"}} and more'),
]


class _Written:
    """A writer fed as a door feeds it."""

    def __init__(self, form: Any) -> None:
        self.account = Account("req_1", "t", 0.0)
        envelope = Envelope("chat.completion.chunk", "chatcmpl-1", 1, "m", self.account, usage=True, continuous=True)
        self.writer = ToolFrames(
            envelope, lambda token: bytes([token % 256]), logprobs=True, form=form, tools=["add"], thinks=True,
            parallel=True,
        )  # fmt: skip
        params, ticket = SamplingParams(99), None
        self.choice = Choice(0, "e", Source(Prompt((), (1,))), params, ticket)  # type: ignore[arg-type]

    def text(self, said: str, tokens: list[int]) -> bytes:
        self.account.completion_tokens += len(tokens)
        scores = tuple(TokenLogprob(token, -0.5) for token in tokens)
        return self.writer.text(self.choice, Delta(said, len(tokens), 0, 1, token_ids=tuple(tokens), logprobs=scores))


@given(answer=st.sampled_from(ANSWERS), cuts=st.sets(st.integers(0, 200), max_size=12), at=st.integers(0, 12))
def test_a_writer_stands_where_another_stood(answer: tuple[Any, str], cuts: set[int], at: int) -> None:
    form, said = answer
    borders = [0, *sorted(cut for cut in cuts if 0 < cut < len(said)), len(said)]
    pieces = [said[start:end] for start, end in pairwise(borders)]
    at = min(at, len(pieces))
    first = _Written(form)
    frames = [first.text(piece, [number]) for number, piece in enumerate(pieces)] + [first.writer.finish(first.choice)]
    second = _Written(form)
    second.text("".join(pieces[:at]), list(range(at)))
    rest = [second.text(piece, [number]) for number, piece in enumerate(pieces[at:], at)]
    assert [*rest, second.writer.finish(second.choice)] == frames[at:]


# --- A real engine: what it holds back at the cut comes out right -----------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_byte_model(tmp_path_factory.mktemp("bytes"))


@asynccontextmanager
async def native_doors(model: Path) -> AsyncIterator[tuple[OpenDoor, OpenDoor]]:
    """One backend behind both, as one process has no room to prove more with two."""
    backend = NativeBackend(EngineConfig(model, dtype="fp32", kv_bytes=1 << 20, threads=1))
    info = await backend.start()
    try:
        async with (
            open_door(backend, info=info, kv_bytes=1 << 20) as door,
            open_door(backend, info=info, kv_bytes=1 << 20, replica_id="rep_2") as other,
        ):
            yield door, other
    finally:
        await backend.stop()


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 4}, "b": {"type": "integer", "maximum": 99}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
REAL = [
    text(temperature=0, max_tokens=24, ignore_eos=True),
    text(temperature=0.8, seed=3, presence_penalty=0.5, repetition_penalty=1.3, max_tokens=24, ignore_eos=True),
    text(seed=7, n=2, max_tokens=8, ignore_eos=True),
    chat(seed=1, max_tokens=60, response_format=FORMAT),
]


async def test_a_real_answer_goes_on(model: Path) -> None:
    async with native_doors(model) as (door, other):
        for path, body in REAL:
            await equals_when_cut(door, other, path, body, every=3)
        path, body = text(seed=2, max_tokens=16, ignore_eos=True)
        whole = await ask(door, path, body)
        said = "".join(chunk["choices"][0]["text"] for chunk in texts_of(whole.by_choice())["0"])
        middle = len(said) // 2
        for stops in ([said[middle : middle + 3]], [said[middle : middle + 3] + "never"]):
            await equals_when_cut(door, other, path, {**body, "stop": stops})


# --- What is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marks", "model", "status", "code"),
    [
        (b":ids 0 1000\n", "another", 409, "other_model"),
        (b":ids 1 1000\n", "", 400, "invalid_value"),
        (b"nonsense", "", 400, "invalid_value"),
    ],
)
async def test_what_cannot_be_gone_on_with(marks: bytes, model: str, status: int, code: str) -> None:
    async with open_door(ScriptedBackend()) as door:
        path, body = chat()
        own = (await ask(door, path, body)).model
        data = json.dumps({"model": "m", "stream": True, **body}).encode()
        headers = {**AUTH, RESUME: f"{len(data)} {model or own}"}
        async with door.http.post(f"{door.url}{path}", data=data + marks, headers=headers) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (status, code)


async def test_what_took_too_long_is_told_from_what_failed() -> None:
    backend = ScriptedBackend(aborted={"req_1"})
    async with open_door(backend) as door, door.chat(stream=True, headers=ASKED) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (500, "request_timeout")


async def test_who_does_not_ask_gets_no_marks() -> None:
    async with open_door(ScriptedBackend()) as door, door.chat(stream=True) as answer:
        assert MARKS not in answer.headers
        assert MARK not in await answer.read()
