"""``POST /v1/chat/completions``."""

from __future__ import annotations

from dataclasses import replace

from gpuruntime.backend import Backend, BackendInfo
from gpuruntime.door.asked import Asked
from gpuruntime.door.chat_request import ChatRequest, parse_chat
from gpuruntime.door.choice import Source
from gpuruntime.door.frames import ChatFrames, Envelope
from gpuruntime.door.tool_frames import ToolFrames
from gpuruntime.tools.formats import ToolFormat


class Chat:
    name = "chat.completion.chunk"
    prefix = "chatcmpl"
    prompt_field = "messages"

    def parse(self, body: bytes) -> Asked:
        return parse_chat(body)

    async def sources(self, backend: Backend, info: BackendInfo, asked: Asked, salt: bytes) -> list[Source]:
        if not isinstance(asked, ChatRequest):
            raise TypeError(f"a chat was parsed to {type(asked).__name__}")
        return [Source(await backend.prepare(list(asked.messages), salt, asked.tools))]

    def writer(self, envelope: Envelope, backend: Backend, info: BackendInfo, asked: Asked) -> ChatFrames:
        logprobs = asked.logprobs is not None
        if not isinstance(asked, ChatRequest) or not (asked.tools or info.thinks):
            return ChatFrames(envelope, backend.token_bytes, logprobs=logprobs)
        return ToolFrames(
            envelope,
            backend.token_bytes,
            logprobs=logprobs,
            form=_form(asked, info),
            tools=[tool["function"]["name"] for tool in asked.tools],
            thinks=info.thinks,
            parallel=asked.parallel,
        )


def _form(asked: ChatRequest, info: BackendInfo) -> ToolFormat | None:
    """A call that was forced is the bare object: the grammar has no marks."""
    if not asked.tools or info.tool_format is None:
        return None
    return replace(info.tool_format, bare=True) if asked.forced else info.tool_format
