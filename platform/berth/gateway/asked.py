"""Reads and checks the body of a request for text and rewrites it for a door, without a second JSON tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from berth.gateway.collect import Collecting, Collector, EmbeddingCollector
from berth.gateway.errors import bad_request
from gpuruntime.openai_api import BadBody, ChatBody, CompletionBody, EmbeddingBody, Message
from gpuruntime.openai_checks import decode_chat, decode_completion, decode_embedding

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"

PROMPT_OVERHEAD_TOKENS = 64
AFFINITY_BYTES = 1024
NAMED_BODY_BYTES = 256 << 10

_Body = TypeVar("_Body", ChatBody, CompletionBody, EmbeddingBody)


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked request to the endpoint ``path``; ``choices``: how many texts it asks for.

    ``unknown``: fields nobody here knows, named for usual sizes only; ``fields``: the known. ``collector`` makes what
    puts the door's events together for a client that wants no stream. ``tier``: ``service_tier`` as it was asked for.
    """

    path: str
    model: str
    choices: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    max_tokens: int | None
    body_bytes: int
    affinity: bytes
    unknown: tuple[str, ...]
    fields: dict[str, msgspec.Raw]
    collector: Callable[[], Collecting] = Collector
    tier: str | None = None

    def reserve(self, default_max_tokens: int) -> tuple[int, int]:
        """Tokens to reserve before anyone has tokenized, the prompt's and the output's for each choice; the door's
        count settles it."""
        prompt = -(-self.body_bytes // 3) + PROMPT_OVERHEAD_TOKENS
        return prompt, self.choices * (default_max_tokens if self.max_tokens is None else self.max_tokens)

    def for_door(self, tier: str) -> bytes:
        """The body a door gets: always a stream that counts along; unknown fields stay behind.

        ``tier``: the one that serves, which the answer repeats to who asked for any.
        """
        known: dict[str, Any] = dict(self.fields)
        if self.tier is not None:
            known["service_tier"] = tier
        known["stream"] = True
        known["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        return msgspec.json.encode(known)


class _Fields:
    """The known fields of a body as they came. Unlike a dict of all fields, it costs nothing for a million unknown."""

    def __init__(self, body: type[ChatBody] | type[CompletionBody] | type[EmbeddingBody]) -> None:
        self.known = body.__struct_fields__
        shape = msgspec.defstruct(f"Raw{body.__name__}", [(name, msgspec.Raw, msgspec.Raw()) for name in self.known])
        self._decoder = msgspec.json.Decoder(shape)

    def of(self, body: bytes) -> dict[str, msgspec.Raw]:
        raws = self._decoder.decode(body)
        return {name: raw for name in self.known if memoryview(raw := getattr(raws, name)).nbytes}


_chat_fields, _completion_fields, _embedding_fields = _Fields(ChatBody), _Fields(CompletionBody), _Fields(EmbeddingBody)
_name_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
Parse = Callable[[bytes], Asked]


def parse_chat(body: bytes) -> Asked:
    """Raises ``ApiError`` (400) whose ``param`` names the field, as ``messages[0].role``."""
    chat = _checked(decode_chat, body)
    affinity = chat.prompt_cache_key.encode("utf-8", "surrogatepass") if chat.prompt_cache_key else b""
    affinity = affinity[:AFFINITY_BYTES] or _affinity(chat.messages)
    return _asked(CHAT, body, chat, fields=_chat_fields, choices=chat.choices, affinity=affinity)


def parse_completion(body: bytes) -> Asked:
    """As ``parse_chat``, of ``/v1/completions``."""
    completion = _checked(decode_completion, body)
    first = completion.prompts[0]
    text = first if isinstance(first, str) else ",".join(map(str, first[:AFFINITY_BYTES]))
    affinity = text[:AFFINITY_BYTES].encode("utf-8", "surrogatepass")[:AFFINITY_BYTES]
    choices = completion.choices * len(completion.prompts)
    return _asked(COMPLETIONS, body, completion, fields=_completion_fields, choices=choices, affinity=affinity)


def parse_embedding(body: bytes) -> Asked:
    """As ``parse_chat``, of ``/v1/embeddings``: no tokens come of it, and nothing is to be found in a cache."""
    asked = _checked(decode_embedding, body)
    if asked.stream:
        raise bad_request("Unsupported 'stream': embeddings come at once.", "stream", "unsupported_value")
    return Asked(
        path=EMBEDDINGS,
        model=asked.model,
        choices=1,
        stream=False,
        include_usage=False,
        continuous_usage=False,
        max_tokens=0,
        body_bytes=len(body),
        affinity=body[:AFFINITY_BYTES],
        unknown=_unknown(body, _embedding_fields),
        fields=_embedding_fields.of(body),
        collector=EmbeddingCollector,
    )


def _checked(decode: Callable[[bytes], _Body], body: bytes) -> _Body:
    try:
        return decode(body)
    except BadBody as error:
        raise bad_request(str(error), error.param, error.code) from error


def _asked(
    path: str, body: bytes, read: ChatBody | CompletionBody, *, fields: _Fields, choices: int, affinity: bytes
) -> Asked:
    return Asked(
        path=path,
        model=read.model,
        choices=choices,
        stream=bool(read.stream),
        include_usage=read.include_usage,
        continuous_usage=read.continuous_usage,
        max_tokens=read.most_tokens,
        body_bytes=len(body),
        affinity=affinity,
        unknown=_unknown(body, fields),
        fields=fields.of(body),
        tier=read.service_tier,
    )


def _unknown(body: bytes, fields: _Fields) -> tuple[str, ...]:
    names = _name_decoder.decode(body) if len(body) <= NAMED_BODY_BYTES else {}
    return tuple(name for name in names if name not in fields.known)


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
