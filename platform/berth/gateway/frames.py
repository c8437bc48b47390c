"""A door's server-sent events on their way to a client: counted and stripped by bytes, not by JSON.

A door ends every chunk with ``,"usage":{...}}``: the running counts. A raw ``"`` cannot stand inside a JSON string, so
the last ``,"usage":`` of a line is always the key. Chunks of another shape take the slow way through JSON.

A door that marks its tokens (``gpuruntime.marks``) may be cut off anywhere: only what stands in front of a mark is
counted and goes on to the client, so the marks always say what the client has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpuruntime.backend import Timings
from gpuruntime.marks import MARK

MAX_EVENT_BYTES = 4 << 20
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"

_USAGE_KEY = b',"usage":'
_COUNTS = re.compile(rb',"usage":\{"prompt_tokens":(\d+),"completion_tokens":(\d+),"total_tokens":\d+\}\}\s*\Z')
_INDEX = re.compile(rb',"choices":\[\{"index":(\d+),')
_FINISH = re.compile(rb'"finish_reason":\s*"(\w+)"')
_encode = msgspec.json.Encoder().encode


class BadStream(ValueError):
    """A door sent what is no stream of chunks."""


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Choice(msgspec.Struct):
    index: int = 0


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    berth: Timings | None = None
    error: msgspec.Raw = msgspec.Raw()


_chunk_decoder = msgspec.json.Decoder(_Chunk)
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(slots=True)
class StreamFilter:
    """One request's stream. ``take`` bytes as they come; read the counts beside it.

    ``include_usage`` and ``continuous``: what the client asked for, so what it sees of the counts. ``several``: it
    asked for more than one choice. The counts of a chunk are the request's, its rise is the choice's it carries.
    ``model``: of the door's marks; empty: it makes none. ``marks``, a line each: what the client has.
    """

    include_usage: bool
    continuous: bool
    several: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str = ""
    berth: Timings | None = None
    error: bytes | None = None
    done: bool = False
    model: str = ""
    marks: bytearray = field(default_factory=bytearray)
    _rest: bytes = b""
    _held: list[bytes] = field(default_factory=list)
    _counted: int = 0
    _counted_choice: int = 0
    _risen: dict[int, int] = field(default_factory=dict)
    _no_usage: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._no_usage = b',"usage":null}\n\n' if self.include_usage else b"}\n\n"

    def take(self, data: bytes) -> list[bytes]:
        """The events for the client that ``data`` completes, without the last ``[DONE]``. Raises ``BadStream``."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise BadStream(f"an event of more than {MAX_EVENT_BYTES} bytes")
        out: list[bytes] = []
        held = self._held if self.model else out
        for event in events:
            if event.startswith(MARK) and self.model:
                self.marks += event[len(MARK) :] + b"\n"
                self._release(out)
            elif (frame := self._event(event)) is not None:
                held.append(frame)
            if self.done or self.error is not None:
                break
        if self.done or not self.model:
            self._release(out)
        return out

    def _release(self, out: list[bytes]) -> None:
        """What came so far is certain."""
        out += self._held
        self._held.clear()
        self._settle()

    def _settle(self) -> None:
        rise = self._counted - self.completion_tokens
        if rise > 0:
            self.completion_tokens = self._counted
            self._risen[self._counted_choice] = self._risen.get(self._counted_choice, 0) + rise

    def begin(self, model: str) -> None:
        """A door answers, the first or one that goes on. Raises ``BadStream``."""
        if self.marks and model != self.model:
            raise BadStream(f"marks of model {model!r} in an answer of {self.model!r}")
        self.model = model

    def cut(self) -> None:
        """The door is gone; another one goes on behind the last mark."""
        self._rest, self.error = b"", None
        self._held.clear()
        self._counted = self.completion_tokens

    def risen(self) -> list[tuple[int, int]]:
        """(choice, tokens) of what the last ``take`` counted."""
        risen, self._risen = self._risen, {}
        return list(risen.items())

    def _count(self, completion_tokens: int, choice: int) -> None:
        if choice != self._counted_choice and not self.model:
            self._settle()
        self._counted, self._counted_choice = completion_tokens, choice

    def _event(self, event: bytes) -> bytes | None:
        if not event.startswith(b"data:"):
            return None  # a comment: keeps the connection open and says nothing
        at = event.rfind(_USAGE_KEY)
        counts = _COUNTS.match(event, at) if at >= 0 else None
        if counts is None or b'"choices":[]' in event:
            return self._slow(event)
        self.prompt_tokens = int(counts[1])
        index = _INDEX.search(event) if self.several else None
        self._count(int(counts[2]), int(index[1]) if index else 0)
        if b'"finish_reason":null' not in event and (found := _FINISH.search(event)):
            self.finish_reason = found[1].decode()
        return event + b"\n\n" if self.continuous else event[:at] + self._no_usage

    def _slow(self, event: bytes) -> bytes | None:
        payload = event[5:].strip()
        if payload == b"[DONE]":
            self.done = True
            return None
        try:
            chunk = _chunk_decoder.decode(payload)
            fields: dict[str, Any] = dict(_fields_decoder.decode(payload))
        except msgspec.DecodeError as error:
            raise BadStream(f"an event that is not a chunk: {error}") from error
        if bytes(chunk.error) not in (b"", b"null"):
            self.error = event + b"\n\n"
            return None
        if chunk.usage is not None:
            self.prompt_tokens = chunk.usage.prompt_tokens
            self._count(chunk.usage.completion_tokens, chunk.choices[0].index if chunk.choices else 0)
        if chunk.berth is not None:
            self.berth = chunk.berth
        if found := _FINISH.search(payload):
            self.finish_reason = found[1].decode()
        fields.pop("berth", None)
        if not chunk.choices:
            return b"data: " + _encode(fields) + b"\n\n" if self.include_usage else None
        if not self.continuous:
            fields.pop("usage", None)
            if self.include_usage:
                fields["usage"] = None
        return b"data: " + _encode(fields) + b"\n\n"


def error_event(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"
