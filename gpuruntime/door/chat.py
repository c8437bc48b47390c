"""``POST /v1/chat/completions``."""

from __future__ import annotations

from gpuruntime.backend import Backend, BackendInfo
from gpuruntime.door.asked import Asked
from gpuruntime.door.chat_request import ChatRequest, parse_chat
from gpuruntime.door.choice import Source
from gpuruntime.door.frames import ChatFrames, Envelope


class Chat:
    name = "chat.completion.chunk"
    prefix = "chatcmpl"
    prompt_field = "messages"

    def parse(self, body: bytes) -> Asked:
        return parse_chat(body)

    async def sources(self, backend: Backend, info: BackendInfo, asked: Asked, salt: bytes) -> list[Source]:
        messages = list(asked.messages) if isinstance(asked, ChatRequest) else []
        return [Source(await backend.prepare(messages, salt))]

    def writer(self, envelope: Envelope, backend: Backend, info: BackendInfo, asked: Asked) -> ChatFrames:
        return ChatFrames(envelope, backend.token_bytes, logprobs=asked.logprobs is not None)
