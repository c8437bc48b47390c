"""Puts a stream's chunks together into the one answer of a request with ``stream: false``."""

from __future__ import annotations

from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Collector:
    """``add`` each event for the client; ``body`` is OpenAI's ``chat.completion``."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._logprobs: list[Any] = []
        self._finish_reason: str | None = None
        self._usage: dict[str, Any] | None = None

    def add(self, event: bytes) -> None:
        chunk = _decode(event[5:])
        if not self._head:
            self._head = {name: chunk.get(name) for name in ("id", "created", "model")}
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            self._delta(choice.get("delta") or {})
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            self._logprobs += (choice.get("logprobs") or {}).get("content") or ()

    def _delta(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name == "tool_calls":
                for call in value or ():
                    self._call(call)
            elif name == "role":
                self._message["role"] = value
            elif isinstance(value, str):
                self._texts.setdefault(name, []).append(value)

    def _call(self, call: dict[str, Any]) -> None:
        held = self._calls.setdefault(int(call.get("index", 0)), {"type": "function", "function": {"arguments": ""}})
        function = call.get("function") or {}
        held["function"]["arguments"] += function.get("arguments") or ""
        if function.get("name"):
            held["function"]["name"] = function["name"]
        if call.get("id"):
            held["id"] = call["id"]

    def body(self, berth: dict[str, Any] | None) -> bytes:
        nothing = None if self._calls else ""
        message = self._message | {"content": nothing} | {name: "".join(parts) for name, parts in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": {"content": self._logprobs} if self._logprobs else None,
            "finish_reason": self._finish_reason,
        }
        answer = {
            "id": self._head.get("id"),
            "object": "chat.completion",
            "created": self._head.get("created"),
            "model": self._head.get("model"),
            "choices": [choice],
            "usage": self._usage,
        }
        return _encode(answer if berth is None else answer | {"berth": berth})
