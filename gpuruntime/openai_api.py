"""OpenAI's contract where gateway and door must agree on it: the body of a chat request and the error object."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

MAX_BODY_BYTES = 8 << 20
MAX_STOPS = 4


class BadBody(ValueError):
    """A request that cannot be read as a chat; ``param`` names the field, as ``messages[0].role`` (HTTP 400)."""

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ContentPart(msgspec.Struct):
    type: str
    text: str | None = None


class Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    name: str | None = None


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class ChatBody(msgspec.Struct):
    """The fields Berth knows; ``max_completion_tokens`` is the newer name of ``max_tokens`` and wins."""

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

    @property
    def most_tokens(self) -> int | None:
        """None when the client left it to the deployment."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


_decoder = msgspec.json.Decoder(ChatBody)
_PATH = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"missing required field `(\w+)`")


def decode_chat(body: bytes) -> ChatBody:
    """The body with every type and range checked; unknown fields are ignored. Raises ``BadBody``."""
    try:
        chat = _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(error, body) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"The body is not valid JSON: {error}", code="invalid_json") from error
    _check_ranges(chat)
    return chat


def _invalid(error: msgspec.ValidationError, body: bytes) -> BadBody:
    text = str(error)
    found = _PATH.search(text)
    param = found.group(1) if found else ""
    if param.startswith("messages[...]"):
        param = param.replace("[...]", f"[{_bad_message(body)}]", 1)
    param = param.replace("[...]", "")
    if missing := _MISSING.search(text):
        param = f"{param}.{missing.group(1)}" if param else missing.group(1)
        return BadBody(f"Missing required field '{param}'.", param, "missing_required_parameter")
    what = _PATH.sub("", text)
    return BadBody(f"Invalid '{param}': {what}." if param else f"{what}.", param or None, "invalid_type")


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
            raise BadBody(f"Invalid '{name}': {value} is out of range; it {allowed}.", name)
    if chat.top_p == 0:
        raise BadBody("Invalid 'top_p': it must be above 0.", "top_p")
    if not chat.messages:
        raise BadBody("Invalid 'messages': at least one message is needed.", "messages")
    stops = chat.stops
    if len(stops) > MAX_STOPS:
        raise BadBody(f"Invalid 'stop': {len(stops)} strings; at most {MAX_STOPS} are allowed.", "stop")
    if any(not stop for stop in stops):
        raise BadBody("Invalid 'stop': an empty string would stop at once.", "stop")


def error_object(status: int, message: str, param: str | None, code: str | None) -> bytes:
    """``{"error": {...}}`` with all four keys; the type follows from the status."""
    return msgspec.json.encode(
        {"error": {"message": message, "type": _error_type(status), "param": param, "code": code}}
    )


def _error_type(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    if status == 503:
        return "overloaded_error"
    return "server_error" if status >= 500 else "invalid_request_error"
