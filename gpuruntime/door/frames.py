"""OpenAI's chat completion frames, encoded by template: per token only its text and its counts are encoded."""

from __future__ import annotations

from typing import Any

import msgspec

from gpuruntime.backend import Delta

DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


class Frames:
    """The frames of one stream. With ``continuous`` each carries the running usage."""

    def __init__(self, chat_id: str, created: int, model: str, *, include_usage: bool, continuous: bool) -> None:
        head = {"id": chat_id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._head = b"data: " + _encode(head)[:-1]
        self._text_head = self._head + b',"choices":[{"index":0,"delta":{"content":'
        self._text_tail = b'},"logprobs":null,"finish_reason":null}]'
        self._include_usage = include_usage
        self._continuous = continuous
        self._no_usage = b',"usage":null}\n\n' if include_usage else b"}\n\n"

    def _usage(self, prompt_tokens: int, completion_tokens: int) -> bytes:
        if not self._continuous:
            return self._no_usage
        return b',"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}\n\n' % (
            prompt_tokens,
            completion_tokens,
            prompt_tokens + completion_tokens,
        )

    def role(self, prompt_tokens: int) -> bytes:
        """The first frame of every stream."""
        choice = (
            b',"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        )
        return self._head + choice + self._usage(prompt_tokens, 0)

    def text(self, delta: Delta) -> bytes:
        """Empty when there is nothing to say: no text, and nobody counts along."""
        if not delta.text and not (self._continuous and delta.new_tokens):
            return b""
        usage = self._usage(delta.prompt_tokens, delta.completion_tokens)
        return self._text_head + _encode(delta.text) + self._text_tail + usage

    def finish(self, delta: Delta) -> bytes:
        choice = b',"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"%s"}]' % (
            (delta.finish_reason or "stop").encode()
        )
        return self._head + choice + self._usage(delta.prompt_tokens, delta.completion_tokens)

    def end(self, usage: dict[str, Any], berth: dict[str, Any]) -> bytes:
        """The usage frame, when it was asked for, and the end of the stream."""
        if not self._include_usage:
            return DONE
        return self._head + b',"choices":[],"usage":' + _encode(usage) + b',"berth":' + _encode(berth) + b"}\n\n" + DONE


def error_frame(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"


def usage_of(prompt_tokens: int, completion_tokens: int, cached_tokens: int | None) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens or 0},
    }


def completion_body(
    chat_id: str,
    created: int,
    model: str,
    *,
    text: str,
    finish_reason: str,
    usage: dict[str, Any],
    berth: dict[str, Any],
) -> bytes:
    """The answer to a request with ``stream: false``."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
    return _encode(
        {
            "id": chat_id,
            "object": "chat.completion",
            "created": created,
            "model": model,
            "choices": [choice],
            "usage": usage,
            "berth": berth,
        }
    )
