"""Puts a stream's chunks together into the one answer of a request with ``stream: false``."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_HEAD = ("id", "created", "model", "service_tier")
_WHOLE = {"chat.completion.chunk": "chat.completion", "text_completion": "text_completion"}


class Collecting(Protocol):
    """``add`` each event for the client; ``body`` is the answer, with what it is told of its verdict."""

    def add(self, event: bytes) -> None: ...
    def body(self, berth: dict[str, Any] | None) -> bytes: ...


class _Choice:
    """One choice of an answer, of either endpoint: what its chunks carried, joined."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._role = "assistant"
        self._calls: dict[int, dict[str, Any]] = {}
        self._logprobs: dict[str, list[Any]] = {}
        self._prompt_logprobs: list[Any] = []
        self._finish_reason: str | None = None

    def add(self, choice: dict[str, Any]) -> None:
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        for name, items in (choice.get("logprobs") or {}).items():
            if items is not None:
                self._logprobs.setdefault(name, []).extend(items)
        self._prompt_logprobs += choice.get("prompt_logprobs") or ()
        if "text" in choice:
            self._text("text", choice["text"])
        for name, value in (choice.get("delta") or {}).items():
            if name == "tool_calls":
                for call in value or ():
                    self._call(call)
            elif name == "role":
                self._role = value
            else:
                self._text(name, value)

    def _text(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            self._texts.setdefault(name, []).append(value)

    def _call(self, call: dict[str, Any]) -> None:
        held = self._calls.setdefault(int(call.get("index", 0)), {"type": "function", "function": {"arguments": ""}})
        function = call.get("function") or {}
        held["function"]["arguments"] += function.get("arguments") or ""
        if function.get("name"):
            held["function"]["name"] = function["name"]
        if call.get("id"):
            held["id"] = call["id"]

    def chat(self, index: int) -> dict[str, Any]:
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        content = texts.pop("content", "")
        message: dict[str, Any] = {"role": self._role, "content": content, "refusal": None, **texts}
        if self._calls:
            message["content"] = content or None  # a stream's first delta says "" before it knows
            message["tool_calls"] = [self._calls[number] for number in sorted(self._calls)]
        logprobs: dict[str, Any] | None = None
        if self._logprobs:
            logprobs = {"content": [], "refusal": None, **self._logprobs}
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": self._finish_reason}

    def text(self, index: int) -> dict[str, Any]:
        whole: dict[str, Any] = {
            "index": index,
            "text": "".join(self._texts.get("text", ())),
            "logprobs": self._logprobs or None,
            "finish_reason": self._finish_reason,
        }
        return whole | ({"prompt_logprobs": self._prompt_logprobs} if self._prompt_logprobs else {})


class Collector:
    """Of texts: ``body`` is OpenAI's ``chat.completion`` or ``text_completion``."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._kind = "chat.completion"
        self._choices: dict[int, _Choice] = {}
        self._prompt_logprobs: list[Any] = []
        self._usage: dict[str, Any] | None = None

    def add(self, event: bytes) -> None:
        chunk = _decode(event[5:])
        if not self._head:
            self._head = {name: chunk[name] for name in _HEAD if name in chunk}
            self._kind = _WHOLE.get(chunk.get("object"), self._kind)
        self._usage = chunk.get("usage") or self._usage
        self._prompt_logprobs += chunk.get("prompt_logprobs") or ()
        for choice in chunk.get("choices") or ():
            index = int(choice.get("index") or 0)
            self._choices.setdefault(index, _Choice()).add(choice)

    def body(self, berth: dict[str, Any] | None) -> bytes:
        chat = self._kind == "chat.completion"
        choices = self._choices or {0: _Choice()}
        answer: dict[str, Any] = {
            **self._head,
            "object": self._kind,
            "choices": [choices[at].chat(at) if chat else choices[at].text(at) for at in sorted(choices)],
            "usage": self._usage,
        }
        if self._prompt_logprobs:
            answer["prompt_logprobs"] = self._prompt_logprobs
        return _encode(answer if berth is None else answer | {"berth": berth})


class _Embedded(msgspec.Struct):
    index: int = 0
    embedding: msgspec.Raw = msgspec.Raw()
    model: str = ""
    usage: dict[str, Any] | None = None


_decode_embedded = msgspec.json.Decoder(_Embedded).decode


class EmbeddingCollector:
    """Of embeddings, an event each, whose numbers pass as the door wrote them: they may be millions."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._end = _Embedded()

    def add(self, event: bytes) -> None:
        found = _decode_embedded(event[5:])
        if found.usage is not None:
            self._end = found
        else:
            shown = found.index, bytes(found.embedding)
            self._data.append(b'{"object":"embedding","index":%d,"embedding":%b}' % shown)

    def body(self, berth: dict[str, Any] | None) -> bytes:
        usage = self._end.usage or {}
        counts = {name: usage.get(name, 0) for name in ("prompt_tokens", "total_tokens")}
        rest: dict[str, Any] = {"model": self._end.model, "usage": counts}
        rest |= {} if berth is None else {"berth": berth}
        return b'{"object":"list","data":[%b],%b' % (b",".join(self._data), _encode(rest)[1:])
