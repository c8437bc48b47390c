"""A chat's body as the engine wants it: messages whose content is one string."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuruntime.door.asked import Asked, refusing
from gpuruntime.door.errors import bad_request
from gpuruntime.openai_api import Message
from gpuruntime.openai_checks import decode_chat


@dataclass(frozen=True, slots=True)
class ChatRequest(Asked):
    """``messages`` as chat templates want them."""

    messages: tuple[dict[str, Any], ...] = ()


def parse_chat(body: bytes) -> ChatRequest:
    """Raises ``ApiError`` (400) whose ``param`` names the field, as ``messages[0].role``."""
    chat = refusing(lambda: decode_chat(body))
    return ChatRequest(chat, chat.most_tokens, chat.logprob_count, messages=tuple(plain_messages(chat.messages)))


def plain_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Content is one string, text parts joined by newlines. Raises ``ApiError`` (400)."""
    return [_plain(index, message) for index, message in enumerate(messages)]


def _plain(index: int, message: Message) -> dict[str, Any]:
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
