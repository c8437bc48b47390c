"""Reads and checks the body of ``POST /v1/chat/completions`` and rewrites it for a door, without a second JSON tree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from berth.gateway.errors import ApiError, bad_request

MAX_BODY_BYTES = 8 << 20
PROMPT_OVERHEAD_TOKENS = 64
AFFINITY_BYTES = 1024


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None
    name: str | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Body(msgspec.Struct):
    model: str
    messages: list[_Message]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: int | None = None
    ignore_eos: bool | None = None
    user: str | None = None


class _RawMessages(msgspec.Struct):
    messages: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked request. ``unknown``: fields nobody here knows; they are ignored and counted."""

    model: str
    stream: bool
    include_usage: bool
    continuous_usage: bool
    max_tokens: int | None
    body_bytes: int
    affinity: bytes
    unknown: tuple[str, ...]
    fields: dict[str, msgspec.Raw]

    def reserve(self, default_max_tokens: int) -> int:
        """Tokens to reserve before anyone has tokenized: the door's exact count settles it."""
        prompt = -(-self.body_bytes // 3) + PROMPT_OVERHEAD_TOKENS
        return prompt + (default_max_tokens if self.max_tokens is None else self.max_tokens)

    def for_door(self) -> bytes:
        """The body a door gets: always a stream that counts along; unknown fields stay behind."""
        known: dict[str, Any] = {name: raw for name, raw in self.fields.items() if name in _KNOWN}
        known["stream"] = True
        known["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        return msgspec.json.encode(known)


_KNOWN = frozenset(_Body.__struct_fields__)
_decoder = msgspec.json.Decoder(_Body)
_field_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PATH = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"missing required field `(\w+)`")


def parse_chat(body: bytes) -> ChatRequest:
    """Raises ``ApiError`` (400) whose ``param`` names the field, as ``messages[0].role``."""
    try:
        chat = _decoder.decode(body)
        fields = _field_decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(error, body) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"The body is not valid JSON: {error}", code="invalid_json") from error
    _check_ranges(chat)
    options = chat.stream_options or _StreamOptions()
    return ChatRequest(
        model=chat.model,
        stream=bool(chat.stream),
        include_usage=bool(options.include_usage),
        continuous_usage=bool(options.continuous_usage_stats),
        max_tokens=chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens,
        body_bytes=len(body),
        affinity=_affinity(chat.messages),
        unknown=tuple(name for name in fields if name not in _KNOWN),
        fields=fields,
    )


def _affinity(messages: list[_Message]) -> bytes:
    """What stays the same over a conversation's turns: everything up to the first question, its first kilobyte."""
    parts: list[str] = []
    for message in messages:
        content = message.content or ""
        text = content if isinstance(content, str) else "\n".join(part.text or "" for part in content)
        parts.append(f"{message.role}\0{text[:AFFINITY_BYTES]}\0")
        if message.role == "user":
            break
    return "".join(parts).encode("utf-8", "surrogatepass")[:AFFINITY_BYTES]


def _invalid(error: msgspec.ValidationError, body: bytes) -> ApiError:
    text = str(error)
    found = _PATH.search(text)
    param = found.group(1) if found else ""
    if param.startswith("messages[...]"):
        param = param.replace("[...]", f"[{_bad_message(body)}]", 1)
    param = param.replace("[...]", "")
    if missing := _MISSING.search(text):
        param = f"{param}.{missing.group(1)}" if param else missing.group(1)
        return bad_request(f"Missing required field '{param}'.", param, "missing_required_parameter")
    what = _PATH.sub("", text)
    return bad_request(f"Invalid '{param}': {what}." if param else f"{what}.", param or None, "invalid_type")


def _bad_message(body: bytes) -> int:
    """The index of the first message that does not decode; msgspec's paths leave indices out."""
    for index, raw in enumerate(msgspec.json.decode(body, type=_RawMessages).messages):
        try:
            msgspec.json.decode(raw, type=_Message)
        except msgspec.ValidationError:
            return index
    return 0


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("max_tokens", 1, 1 << 31),
    ("max_completion_tokens", 1, 1 << 31),
    ("temperature", 0.0, 2.0),
    ("top_p", 0.0, 1.0),
    ("top_k", -1, 1 << 20),
    ("n", 1, 1),
)


def _check_ranges(chat: _Body) -> None:
    for name, low, high in _RANGES:
        value = getattr(chat, name)
        if value is not None and not low <= value <= high:
            allowed = f"must be {low}" if low == high else f"must be between {low} and {high}"
            raise bad_request(f"Invalid '{name}': {value} is out of range; it {allowed}.", name)
    if not chat.messages:
        raise bad_request("Invalid 'messages': at least one message is needed.", "messages")
