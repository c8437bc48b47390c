"""What a checked chat request asks of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuruntime.backend import SamplingParams
from gpuruntime.door.errors import bad_request
from gpuruntime.openai_api import BadBody, ChatBody, Message, decode_chat


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


def parse_chat(body: bytes) -> ChatRequest:
    """Raises ``ApiError`` (400) whose ``param`` names the field, as ``messages[0].role``."""
    try:
        chat = decode_chat(body)
    except BadBody as error:
        raise bad_request(str(error), error.param, error.code) from error
    options = chat.stream_options
    return ChatRequest(
        model=chat.model,
        messages=[_plain(index, message) for index, message in enumerate(chat.messages)],
        max_tokens=chat.most_tokens,
        sampling=_sampling(chat),
        stream=bool(chat.stream),
        include_usage=bool(options and options.include_usage),
        continuous_usage=bool(options and options.continuous_usage_stats),
    )


def _sampling(chat: ChatBody) -> dict[str, Any]:
    given: dict[str, Any] = {
        "temperature": chat.temperature,
        "top_p": chat.top_p,
        "top_k": None if chat.top_k is None else max(0, chat.top_k),
        "seed": chat.seed,
        "stop": chat.stops or None,
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
