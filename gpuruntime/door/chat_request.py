"""Reads and checks the body of ``POST /v1/chat/completions``. Unknown fields are ignored; a wrong one is named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from gpuruntime.backend import SamplingParams
from gpuruntime.door.errors import ApiError, bad_request

MAX_BODY_BYTES = 8 << 20
MAX_STOPS = 4


class ContentPart(msgspec.Struct):
    type: str
    text: str | None = None


class Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    name: str | None = None


class StreamOptions(msgspec.Struct):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class ChatBody(msgspec.Struct):
    model: str
    messages: list[Message]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    ignore_eos: bool | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked request. ``max_tokens`` is None when the client left it to the deployment."""

    model: str
    messages: list[dict[str, Any]]
    max_tokens: int | None
    sampling: dict[str, Any]
    stream: bool
    include_usage: bool
    continuous_usage: bool

    def params(self, max_tokens: int, defaults: dict[str, float]) -> SamplingParams:
        """The client's sampling over the model's own defaults; OpenAI's where neither says anything."""
        merged: dict[str, Any] = {**defaults, **self.sampling}
        if "top_k" in merged:
            merged["top_k"] = int(merged["top_k"])
        return SamplingParams(max_tokens=max_tokens, **merged)


_decoder = msgspec.json.Decoder(ChatBody)
_PATH = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"missing required field `(\w+)`")


def parse_chat(body: bytes) -> ChatRequest:
    """Raises ``ApiError`` (400) whose ``param`` names the field, as ``messages[0].role``."""
    try:
        chat = _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(error, body) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"The body is not valid JSON: {error}", code="invalid_json") from error
    _check_ranges(chat)
    options = chat.stream_options or StreamOptions()
    return ChatRequest(
        model=chat.model,
        messages=[_plain(index, message) for index, message in enumerate(chat.messages)],
        max_tokens=chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens,
        sampling=_sampling(chat),
        stream=bool(chat.stream),
        include_usage=options.include_usage,
        continuous_usage=options.continuous_usage_stats,
    )


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
    raws = msgspec.json.decode(body, type=_RawMessages).messages
    for index, raw in enumerate(raws):
        try:
            msgspec.json.decode(raw, type=Message)
        except msgspec.ValidationError:
            return index
    return 0


class _RawMessages(msgspec.Struct):
    messages: list[msgspec.Raw]


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("max_tokens", 1, 1 << 31),
    ("max_completion_tokens", 1, 1 << 31),
    ("temperature", 0.0, 2.0),
    ("top_p", 0.0, 1.0),
    ("top_k", -1, 1 << 20),
    ("seed", -(1 << 63), (1 << 63) - 1),
    ("n", 1, 1),
)


def _check_ranges(chat: ChatBody) -> None:
    for name, low, high in _RANGES:
        value = getattr(chat, name)
        if value is not None and not low <= value <= high:
            allowed = f"must be {low}" if low == high else f"must be between {low} and {high}"
            raise bad_request(f"Invalid '{name}': {value} is out of range; it {allowed}.", name)
    if chat.top_p == 0:
        raise bad_request("Invalid 'top_p': it must be above 0.", "top_p")
    if not chat.messages:
        raise bad_request("Invalid 'messages': at least one message is needed.", "messages")
    stops = _stops(chat)
    if len(stops) > MAX_STOPS:
        raise bad_request(f"Invalid 'stop': {len(stops)} strings; at most {MAX_STOPS} are allowed.", "stop")
    if any(not stop for stop in stops):
        raise bad_request("Invalid 'stop': an empty string would stop at once.", "stop")


def _stops(chat: ChatBody) -> tuple[str, ...]:
    if chat.stop is None:
        return ()
    return (chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop)


def _sampling(chat: ChatBody) -> dict[str, Any]:
    given: dict[str, Any] = {
        "temperature": chat.temperature,
        "top_p": chat.top_p,
        "top_k": None if chat.top_k is None else max(0, chat.top_k),
        "seed": chat.seed,
        "stop": _stops(chat) or None,
        "ignore_eos": chat.ignore_eos,
    }
    return {name: value for name, value in given.items() if value is not None}


def _plain(index: int, message: Message) -> dict[str, Any]:
    """The message as chat templates want it: content is one string, text parts joined by newlines."""
    where = f"messages[{index}].content"
    if message.content is None:
        if message.role != "assistant":
            raise bad_request(f"Invalid '{where}': a {message.role} message needs content.", where)
        content = ""
    elif isinstance(message.content, str):
        content = message.content
    else:
        for position, part in enumerate(message.content):
            if part.type != "text" or part.text is None:
                at = f"{where}[{position}]"
                raise bad_request(f"Invalid '{at}': only parts of type 'text' are supported.", at, "unsupported_value")
        content = "\n".join(part.text or "" for part in message.content)
    role = "system" if message.role == "developer" else message.role
    plain = {"role": role, "content": content}
    if message.name is not None:
        plain["name"] = message.name
    return plain
