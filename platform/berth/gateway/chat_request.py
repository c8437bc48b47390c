"""Reads and checks the body of ``POST /v1/chat/completions`` and rewrites it for a door, without a second JSON tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from berth.gateway.errors import bad_request
from gpuruntime.openai_api import BadBody, ChatBody, Message, decode_chat

PROMPT_OVERHEAD_TOKENS = 64
AFFINITY_BYTES = 1024
NAMED_BODY_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked request. ``unknown``: fields nobody here knows, named for usual sizes only; ``fields``: the known."""

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
        known: dict[str, Any] = dict(self.fields)
        known["stream"] = True
        known["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        return msgspec.json.encode(known)


_KNOWN = frozenset(ChatBody.__struct_fields__)
# The known fields as they came. Unlike a dict of all fields, it costs nothing for a million unknown ones.
_raw_decoder = msgspec.json.Decoder(
    msgspec.defstruct("_RawBody", [(name, msgspec.Raw, msgspec.Raw()) for name in ChatBody.__struct_fields__])
)
_name_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parse_chat(body: bytes) -> ChatRequest:
    """Raises ``ApiError`` (400) whose ``param`` names the field, as ``messages[0].role``."""
    try:
        chat = decode_chat(body)
    except BadBody as error:
        raise bad_request(str(error), error.param, error.code) from error
    raws = _raw_decoder.decode(body)
    names = _name_decoder.decode(body) if len(body) <= NAMED_BODY_BYTES else {}
    options = chat.stream_options
    return ChatRequest(
        model=chat.model,
        stream=bool(chat.stream),
        include_usage=bool(options and options.include_usage),
        continuous_usage=bool(options and options.continuous_usage_stats),
        max_tokens=chat.most_tokens,
        body_bytes=len(body),
        affinity=_affinity(chat.messages),
        unknown=tuple(name for name in names if name not in _KNOWN),
        fields={name: raw for name in _KNOWN if memoryview(raw := getattr(raws, name)).nbytes},
    )


def _affinity(messages: list[Message]) -> bytes:
    """What stays the same over a conversation's turns: everything up to the first question, its first kilobyte."""
    parts: list[str] = []
    for message in messages:
        content = message.content or ""
        text = content if isinstance(content, str) else "\n".join(part.text or "" for part in content)
        parts.append(f"{message.role}\0{text[:AFFINITY_BYTES]}\0")
        if message.role == "user":
            break
    return "".join(parts).encode("utf-8", "surrogatepass")[:AFFINITY_BYTES]
