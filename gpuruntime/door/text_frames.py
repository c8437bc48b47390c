"""OpenAI's text completion frames: as ``frames``, with the prompt's echo and another shape of log probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuruntime.backend import Delta
from gpuruntime.door.choice import Choice
from gpuruntime.door.frames import PROMPT_STRIDE, Envelope, encode
from gpuruntime.door.logprobs import TextLogprobs, TokenBytes, cut, joined, prompt_logprobs


class TextFrames:
    """``frames.Writer`` of ``/v1/completions``.

    ``shows_prompt``: the client asked for ``prompt_logprobs`` by name; ``unseen``: tokens that end a text and are
    not part of it.
    """

    def __init__(
        self,
        envelope: Envelope,
        token_bytes: TokenBytes,
        *,
        logprobs: bool,
        echo: bool,
        shows_prompt: bool,
        unseen: frozenset[int],
    ) -> None:
        self._envelope = envelope
        self._token_bytes = token_bytes
        self._logprobs = logprobs
        self._echo = echo
        self._shows_prompt = shows_prompt
        self._unseen = unseen
        self._scores: dict[int, TextLogprobs] = {}

    def begin(self, choice: Choice) -> bytes:
        frames = []
        if self._echo:
            scores = cut(echoed, PROMPT_STRIDE) if (echoed := self._echoed(choice)) else [None]
            texts = [choice.source.echo, *([""] * (len(scores) - 1))]
            frames += [self._frame(choice, text, part) for text, part in zip(texts, scores, strict=True)]
        if self._shows_prompt:
            shown = prompt_logprobs(choice.source.logprobs, self._token_bytes)
            for at in range(0, len(shown), PROMPT_STRIDE):
                part = b',"prompt_logprobs":' + encode(shown[at : at + PROMPT_STRIDE])
                frames.append(self._frame(choice, "", None, more=part))
        return b"".join(frames)

    def text(self, choice: Choice, delta: Delta) -> bytes:
        scores = None
        if self._logprobs and delta.logprobs:
            scores = self._score(choice).more(delta.logprobs)
        if not delta.text and scores is None and not (self._envelope.continuous and delta.new_tokens):
            return b""
        return self._frame(choice, delta.text, scores)

    def finish(self, choice: Choice) -> bytes:
        return self._frame(choice, "", None, reason=b'"%s"' % (choice.finish_reason or "stop").encode())

    def end(self) -> bytes:
        return self._envelope.end()

    def whole(self, choices: Sequence[Choice]) -> bytes:
        return self._envelope.whole("text_completion", [self._choice(choice) for choice in choices])

    def _choice(self, choice: Choice) -> dict[str, Any]:
        source, scores = choice.source, list[dict[str, Any]]()
        if self._logprobs:
            echoed = self._echoed(choice) if self._echo else None
            scores = [*([echoed] if echoed else []), self._score(choice).more(choice.logprobs)]
        shown: dict[str, Any] = {
            "index": choice.index,
            "text": (source.echo if self._echo else "") + "".join(choice.texts),
            "logprobs": joined(scores) if self._logprobs else None,
            "finish_reason": choice.finish_reason or "stop",
        }
        if self._shows_prompt:
            shown["prompt_logprobs"] = prompt_logprobs(source.logprobs, self._token_bytes)
        return shown

    def _echoed(self, choice: Choice) -> dict[str, Any] | None:
        source = choice.source
        if not self._logprobs:
            return None
        return self._score(choice).echo(source.echo, source.prompt.token_ids or (), source.logprobs)

    def _score(self, choice: Choice) -> TextLogprobs:
        return self._scores.setdefault(choice.index, TextLogprobs(self._token_bytes, self._unseen))

    def _frame(
        self, choice: Choice, text: str, scores: dict[str, Any] | None, more: bytes = b"", reason: bytes = b"null"
    ) -> bytes:
        shown = b"null" if scores is None else encode(scores)
        head, usage = self._envelope.head, self._envelope.usage()
        return head + b',"choices":[{"index":%d,"text":%b,"logprobs":%b,"finish_reason":%b%b}]%b' % (
            choice.index,
            encode(text),
            shown,
            reason,
            more,
            usage,
        )
