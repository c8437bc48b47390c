"""What a checked request asks of the engine, whichever endpoint it came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gpuruntime.backend import BackendInfo, SamplingParams
from gpuruntime.door.errors import bad_request
from gpuruntime.door.structure import Grammar
from gpuruntime.openai_api import BadBody, ChatBody, CompletionBody
from gpuruntime.openai_checks import biases, check_ids

# A field that says what would happen anyway asks nothing of the engine.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "top_k": (0, -1),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_tokens": (0,),
    "response_format": ({"type": "text"},),
}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked request. ``max_tokens`` is None when the client left it to the deployment."""

    body: ChatBody | CompletionBody
    max_tokens: int | None
    logprobs: int | None
    echo: bool = False
    grammar: Grammar | None = None

    @property
    def model(self) -> str:
        return self.body.model

    @property
    def n(self) -> int:
        return self.body.choices

    @property
    def stream(self) -> bool:
        return bool(self.body.stream)

    @property
    def echoed(self) -> dict[str, str]:
        """Fields of the request that OpenAI's answer repeats: the tier, of a chat that named one."""
        tier = self.body.service_tier if isinstance(self.body, ChatBody) else None
        return {} if tier is None else {"service_tier": tier}

    @property
    def scored_prompt(self) -> int | None:
        """Alternatives beside each token of the prompt: asked for by name, or by an echo with log probabilities."""
        counts = [self.body.prompt_logprobs, self.logprobs if self.echo else None]
        return max((count for count in counts if count is not None), default=None)

    def check(self, info: BackendInfo) -> None:
        """What only the replica knows: its vocabulary, and what its engine cannot do. Raises ``ApiError`` 400."""
        for name in sorted(info.refuses):
            if self._wants(name):
                text = f"Unsupported '{name}': the engine of this model ({info.engine}) does not offer it."
                raise bad_request(text, name, "unsupported_value")
        if "prompt_logprobs" in info.refuses and self.scored_prompt is not None:
            text = f"Unsupported 'echo' with 'logprobs': the engine of this model ({info.engine}) scores no prompts."
            raise bad_request(text, "echo", "unsupported_value")
        with_ids = (("logit_bias", [token for token, _ in biases(self.body)]), ("stop_token_ids", self._stop_ids()))
        for name, ids in with_ids:
            refusing(lambda name=name, ids=ids: check_ids(name, ids, info.vocab_size))  # type: ignore[misc]

    def special(self, info: BackendInfo) -> tuple[str, ...]:
        """The special tokens that whoever reads the answer looks for."""
        return ()

    def params(self, max_tokens: int, defaults: dict[str, float], special: tuple[str, ...] = ()) -> SamplingParams:
        """The client's sampling over the model's own defaults; OpenAI's where neither says anything."""
        merged: dict[str, Any] = {**defaults, **self._sampling()}
        if "top_k" in merged:
            merged["top_k"] = int(merged["top_k"])
        return SamplingParams(max_tokens=max_tokens, special=special, **merged)

    def _wants(self, name: str) -> bool:
        if name == "logprobs":
            return self.logprobs is not None
        value = getattr(self.body, name, None)
        if name == "prompt_logprobs":
            return value is not None
        return bool(value) and value not in _NEUTRAL.get(name, ())

    def _stop_ids(self) -> tuple[int, ...]:
        return tuple(self.body.stop_token_ids or ())

    def _sampling(self) -> dict[str, Any]:
        body = self.body
        given: dict[str, Any] = {
            "temperature": body.temperature,
            "top_p": body.top_p,
            "top_k": None if body.top_k is None else max(0, body.top_k),
            "min_p": body.min_p,
            "presence_penalty": body.presence_penalty,
            "frequency_penalty": body.frequency_penalty,
            "repetition_penalty": body.repetition_penalty,
            "logit_bias": biases(body) or None,
            "min_tokens": body.min_tokens,
            "ignore_eos": body.ignore_eos,
            "stop": body.stops or None,
            "stop_token_ids": self._stop_ids() or None,
            "seed": body.seed,
            "logprobs": self.logprobs,
            "prompt_logprobs": self.scored_prompt,
            "grammar": None if self.grammar is None else self.grammar.text,
        }
        return {name: value for name, value in given.items() if value is not None}


def refusing(read: Callable[[], _T]) -> _T:
    """``read`` with a ``BadBody`` turned into the ``ApiError`` (400) that says so."""
    try:
        return read()
    except BadBody as error:
        raise bad_request(str(error), error.param, error.code) from error
