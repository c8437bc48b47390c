"""OpenAI's chat completion frames, encoded by template: per token only its text and its counts are encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from gpuruntime.backend import Delta
from gpuruntime.door.choice import Choice, Source
from gpuruntime.door.counting import Account
from gpuruntime.door.logprobs import TokenBytes, chat_logprobs, prompt_logprobs

DONE = b"data: [DONE]\n\n"
PROMPT_STRIDE = 256  # tokens of a prompt whose log probabilities go in one frame
encode = msgspec.json.Encoder().encode


class Writer(Protocol):
    """How an answer is written, as frames of a stream or as a whole. Counts are read from the request's account."""

    def begin(self, choice: Choice) -> bytes:
        """What comes before a choice's first text."""
        ...

    def text(self, choice: Choice, delta: Delta) -> bytes:
        """Empty when there is nothing to say: no text, and nobody counts along."""
        ...

    def finish(self, choice: Choice) -> bytes: ...

    def end(self) -> bytes:
        """The usage frame, when it was asked for, and the end of the stream."""
        ...

    def whole(self, choices: Sequence[Choice]) -> bytes:
        """The answer to a request with ``stream: false``."""
        ...


class Envelope:
    """What every frame of one answer repeats: its head, and with ``continuous`` the running usage.

    ``more``: fields of the head that only some answers have.
    """

    def __init__(
        self,
        kind: str,
        answer_id: str,
        created: int,
        model: str,
        account: Account,
        *,
        usage: bool,
        continuous: bool,
        **more: str,
    ) -> None:
        self.fields = {"id": answer_id, "object": kind, "created": created, "model": model, **more}
        self.head = b"data: " + encode(self.fields)[:-1]
        self.include_usage = usage
        self.continuous = continuous
        self._account = account
        self._no_usage = b',"usage":null}\n\n' if usage else b"}\n\n"

    def usage(self) -> bytes:
        """The end of a frame."""
        if not self.continuous:
            return self._no_usage
        prompt, completion = self._account.prompt_tokens, self._account.completion_tokens
        return b',"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}\n\n' % (
            prompt,
            completion,
            prompt + completion,
        )

    def end(self) -> bytes:
        if not self.include_usage:
            return DONE
        usage, berth = encode(self._account.usage()), encode(self._account.berth())
        return self.head + b',"choices":[],"usage":' + usage + b',"berth":' + berth + b"}\n\n" + DONE

    def whole(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> bytes:
        rest = {"choices": choices, "usage": self._account.usage(), "berth": self._account.berth()}
        return encode({**self.fields, "object": kind, **rest, **more})


class ChatFrames:
    """``Writer`` of ``/v1/chat/completions``. ``logprobs``: whether the client asked for them."""

    def __init__(self, envelope: Envelope, token_bytes: TokenBytes, *, logprobs: bool) -> None:
        self._envelope = envelope
        self._token_bytes = token_bytes
        self._logprobs = logprobs
        self._text_heads: list[bytes] = []
        self._text_tail = b'},"logprobs":null,"finish_reason":null}]'

    def begin(self, choice: Choice) -> bytes:
        role = self._frame(choice.index, b'{"role":"assistant","content":""}')
        if not choice.source.logprobs or choice.index:
            return role
        shown = self._prompt_logprobs(choice.source)
        parts = [encode(shown[at : at + PROMPT_STRIDE]) for at in range(0, len(shown), PROMPT_STRIDE)]
        return role + b"".join(self._frame(choice.index, b"{}", b',"prompt_logprobs":' + part) for part in parts)

    def text(self, choice: Choice, delta: Delta) -> bytes:
        envelope, logprobs = self._envelope, self._logprobs and delta.logprobs
        if not delta.text and not logprobs and not (envelope.continuous and delta.new_tokens):
            return b""
        tail = self._text_tail
        if logprobs:
            content = encode(chat_logprobs(delta.logprobs, self._token_bytes))
            tail = b'},"logprobs":{"content":' + content + b',"refusal":null},"finish_reason":null}]'
        return self._text_head(choice.index) + encode(delta.text) + tail + envelope.usage()

    def finish(self, choice: Choice) -> bytes:
        return self._frame(choice.index, b"{}", reason=b'"%s"' % (choice.finish_reason or "stop").encode())

    def end(self) -> bytes:
        return self._envelope.end()

    def whole(self, choices: Sequence[Choice]) -> bytes:
        more = {}
        if choices[0].source.logprobs:
            more["prompt_logprobs"] = self._prompt_logprobs(choices[0].source)
        return self._envelope.whole("chat.completion", [self._choice(choice) for choice in choices], **more)

    def _choice(self, choice: Choice) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(choice.texts), "refusal": None}
        logprobs = None
        if self._logprobs:
            logprobs = {"content": chat_logprobs(choice.logprobs, self._token_bytes), "refusal": None}
        return {
            "index": choice.index,
            "message": message,
            "logprobs": logprobs,
            "finish_reason": choice.finish_reason or "stop",
        }

    def _prompt_logprobs(self, source: Source) -> list[dict[str, dict[str, Any]] | None]:
        return prompt_logprobs(source.logprobs, self._token_bytes)

    def _text_head(self, index: int) -> bytes:
        heads = self._text_heads
        while len(heads) <= index:
            heads.append(self._envelope.head + b',"choices":[{"index":%d,"delta":{"content":' % len(heads))
        return heads[index]

    def _frame(
        self, index: int, delta: bytes, more: bytes = b"", *, reason: bytes = b"null", logprobs: bytes = b"null"
    ) -> bytes:
        parts = (index, delta, logprobs, reason)
        choice = b',"choices":[{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b}]' % parts
        return self._envelope.head + choice + more + self._envelope.usage()


def error_frame(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"
