"""What a client sees of one request; outside the engine's step."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer

from gpuruntime.backend import Delta
from gpuruntime.engine.core import StepOutput
from gpuruntime.engine.text import TextStream


class Answer:
    """Turns a request's step outputs into deltas, up to and without its stop strings.

    ``stopped``: a stop string has been found, which the engine does not look for: whoever drives it must abort the
    request. Tokens after the one that completed the string were never for the client and count nothing.
    """

    def __init__(
        self, prompt_tokens: int, tokenizer: Tokenizer, stops: Sequence[str], special: Sequence[str] = ()
    ) -> None:
        self._prompt_tokens = prompt_tokens
        self._text = TextStream(tokenizer, stops, special)
        self._completion_tokens = 0

    @property
    def stopped(self) -> bool:
        return self._text.stopped

    def replay(self, tokens: Sequence[int]) -> Delta:
        """The text of an answer's first tokens, which the client has; whatever they held back is held back again."""
        self._completion_tokens = len(tokens)
        return Delta(
            text="".join(self._text.push(token) for token in tokens),
            new_tokens=0,
            completion_tokens=len(tokens),
            prompt_tokens=self._prompt_tokens,
            token_ids=tuple(tokens),
        )

    def stop(self) -> Delta:
        """The end of an answer whose replayed tokens completed a stop string."""
        return Delta("", 0, self._completion_tokens, self._prompt_tokens, "stop")

    def take(self, output: StepOutput) -> Delta | None:
        """The client's view of one output; None for what was computed after a stop string."""
        if self.stopped and output.finish_reason is None:
            return None
        text, used = "", 0
        for token in () if self.stopped else output.tokens:
            text += self._text.push(token)
            used += 1
            if self.stopped:
                break
        self._completion_tokens += used
        reason = output.finish_reason
        if reason is not None:
            text += self._text.finish()
            reason = "stop" if self.stopped else reason
        return Delta(
            text=text,
            new_tokens=used,
            completion_tokens=self._completion_tokens,
            prompt_tokens=self._prompt_tokens,
            finish_reason=reason,
            timings=output.timings,
            token_ids=tuple(output.tokens[:used]),
            logprobs=tuple(output.logprobs[:used]),
            prompt_logprobs=tuple(output.prompt_logprobs),
            embedding=output.embedding,
        )
