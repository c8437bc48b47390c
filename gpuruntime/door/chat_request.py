"""A chat's body as the engine wants it: messages whose content is one string."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuruntime.backend import BackendInfo
from gpuruntime.door.asked import Asked, refusing
from gpuruntime.door.errors import bad_request
from gpuruntime.door.structure import asked_grammar
from gpuruntime.openai_api import ChatBody, ContentPart, Message, NamedTool, Tool, ToolCall
from gpuruntime.openai_checks import decode_chat
from gpuruntime.tools.formats import THINK


@dataclass(frozen=True, slots=True)
class ChatRequest(Asked):
    """``messages`` and ``tools`` as chat templates want them; only tools that may be called.

    ``forced``: one of them has to be.
    """

    messages: tuple[dict[str, Any], ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    parallel: bool = True
    forced: bool = False

    def special(self, info: BackendInfo) -> tuple[str, ...]:
        marks = info.tool_format.marks if self.tools and info.tool_format is not None else ()
        return (*marks, *(THINK if info.thinks else ()))


def parse_chat(body: bytes) -> ChatRequest:
    """Raises ``ApiError`` (400) whose ``param`` names the field, as ``messages[0].role``."""
    chat = refusing(lambda: decode_chat(body))
    tools = _tools(chat)
    return ChatRequest(
        chat,
        chat.most_tokens,
        chat.logprob_count,
        messages=tuple(plain_messages(chat.messages)),
        grammar=refusing(lambda: asked_grammar(chat, tools)),
        tools=tools,
        forced=chat.tool_choice not in (None, "none", "auto"),
        parallel=chat.parallel_tool_calls is not False,
    )


def plain_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Content is one string, text parts joined by newlines. Raises ``ApiError`` (400)."""
    return [_plain(index, message) for index, message in enumerate(messages)]


def _plain(index: int, message: Message) -> dict[str, Any]:
    where = f"messages[{index}].content"
    if message.content is None:
        if message.role != "assistant":
            raise bad_request(f"Invalid '{where}': a {message.role} message needs content.", where)
        content = message.refusal or ""
    elif isinstance(message.content, str):
        content = message.content
    else:
        for position, part in enumerate(message.content):
            if _text(part) is None:
                at = f"{where}[{position}]"
                raise bad_request(f"Invalid '{at}': only parts of type 'text' are supported.", at, "unsupported_value")
        content = "\n".join(_text(part) or "" for part in message.content)
    role = "system" if message.role == "developer" else message.role
    plain: dict[str, Any] = {"role": role, "content": content}
    if message.name is not None:
        plain["name"] = message.name
    if message.tool_calls:
        plain["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _text(part: ContentPart) -> str | None:
    return part.refusal if part.type == "refusal" else part.text if part.type == "text" else None


def _call(call: ToolCall) -> dict[str, Any]:
    """Templates write arguments as JSON themselves, so they want the object; what is none stays as it came."""
    arguments: Any = call.function.arguments
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        decoded = msgspec.json.decode(arguments)
        arguments = decoded if isinstance(decoded, dict) else arguments
    return {"id": call.id, "type": call.type, "function": {"name": call.function.name, "arguments": arguments}}


def _tools(chat: ChatBody) -> tuple[dict[str, Any], ...]:
    if chat.tool_choice == "none":
        return ()
    only = chat.tool_choice.function.name if isinstance(chat.tool_choice, NamedTool) else None
    return tuple(_tool(tool) for tool in chat.tools or () if only in (None, tool.function.name))


def _tool(tool: Tool) -> dict[str, Any]:
    """As it came, but for ``strict``, which is none of the model's business."""
    function: dict[str, Any] = msgspec.to_builtins(tool.function)
    function.pop("strict", None)
    return {"type": tool.type, "function": function}
