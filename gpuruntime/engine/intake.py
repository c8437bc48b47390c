"""From a prompt and its parameters to a request: the one place where the engine's limits are checked."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuruntime.backend import BadPrompt, EngineFull, SamplingParams
from gpuruntime.engine.request import Clock, Request
from gpuruntime.models.config import read_json

SAMPLING_DEFAULTS = ("temperature", "top_p", "top_k")


@dataclass(frozen=True, slots=True)
class Limits:
    """``max_requests`` may be in the engine at once, running and waiting; None: no bound.

    ``timeout_s``: of requests that bring none; None: they may take as long as they need.
    """

    max_model_len: int
    kv_capacity_tokens: int
    vocab_size: int
    max_requests: int | None = None
    timeout_s: float | None = None

    @property
    def context(self) -> int:
        """Tokens of prompt and answer that one request may have."""
        return min(self.max_model_len, self.kv_capacity_tokens)


class Intake:
    """Makes requests that the engine is able to finish. ``seed``: of those that bring none; None draws one each."""

    def __init__(
        self,
        limits: Limits,
        eos_token_ids: Sequence[int],
        seed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self._eos_ids = frozenset(eos_token_ids)
        self._seed = seed
        self._clock = clock
        self._keys = itertools.count(1)

    def check_size(self, prompt_tokens: int, max_tokens: int) -> None:
        """Raises ``BadPrompt`` with the numbers for what neither context nor KV memory can hold."""
        limit = self.limits.context
        if prompt_tokens == 0:
            raise BadPrompt("the prompt has no tokens", "messages")
        if prompt_tokens + min(1, max_tokens) > limit:
            raise BadPrompt(
                f"the prompt has {prompt_tokens} tokens; this model's context is {limit} tokens"
                + (", one of them for the answer" if max_tokens else ""),
                "messages",
                "context_length_exceeded",
            )
        if prompt_tokens + max_tokens > limit:
            raise BadPrompt(
                f"the prompt has {prompt_tokens} tokens and max_tokens is {max_tokens}, together "
                f"{prompt_tokens + max_tokens}; this model's context is {limit} tokens",
                "max_tokens",
                "context_length_exceeded",
            )

    def check(
        self, token_ids: Sequence[int], params: SamplingParams, present: int, answered: Sequence[int] = ()
    ) -> None:
        """Raises ``BadPrompt``, or ``EngineFull`` when ``present`` requests are in the engine and no more may be.

        ``answered``: tokens of the answer that are there already; one more must be allowed.
        """
        self.check_size(len(token_ids), params.max_tokens)
        if params.max_tokens < 1 and params.pooling is None:
            raise BadPrompt(f"max_tokens is {params.max_tokens}; it must be at least 1", "max_tokens")
        if len(answered) >= max(1, params.max_tokens):
            raise BadPrompt(
                f"{len(answered)} tokens are answered already; max_tokens is {params.max_tokens}", "max_tokens"
            )
        self._check_ids("messages", token_ids)
        self._check_ids("answered", answered)
        self._check_ids("logit_bias", [token for token, _ in params.logit_bias])
        self._check_ids("stop_token_ids", params.stop_token_ids)
        most = self.limits.max_requests
        if most is not None and present >= most:
            raise EngineFull(f"{present} requests are in the engine, which is its limit; try again later")

    def request(
        self, token_ids: Sequence[int], params: SamplingParams, salt: bytes, answered: Sequence[int] = ()
    ) -> Request:
        """A request that entered the engine now; ``check`` comes before."""
        now_s = self._clock()
        timeout_s = params.timeout_s if params.timeout_s is not None else self.limits.timeout_s
        ends = frozenset(params.stop_token_ids)
        request = Request(
            key=next(self._keys),
            prompt_len=len(token_ids),
            tokens=[*token_ids, *answered],
            params=params,
            seed=self._seed_of(params),
            salt=salt,
            end_ids=ends if params.ignore_eos else ends | self._eos_ids,
            clock=Clock(now_s),
            resumed=len(answered),
        )
        if timeout_s is not None:
            request.deadline_s = now_s + timeout_s
        return request

    def _check_ids(self, field: str, token_ids: Sequence[int]) -> None:
        size = self.limits.vocab_size
        if token_ids and not 0 <= min(token_ids) <= max(token_ids) < size:
            wrong = next(token for token in token_ids if not 0 <= token < size)
            raise BadPrompt(f"{field}: {wrong} is no token of this model, whose ids are 0 to {size - 1}", field)

    def _seed_of(self, params: SamplingParams) -> int:
        if params.seed is not None:
            return params.seed & ((1 << 64) - 1)
        if self._seed is not None:
            return self._seed
        return secrets.randbits(64)


def model_sampling(model_path: Path) -> dict[str, float]:
    """The model's own sampling defaults (``generation_config.json``), none where it says nothing."""
    path = model_path / "generation_config.json"
    stored = read_json(path) if path.is_file() else {}
    return {name: float(value) for name in SAMPLING_DEFAULTS if (value := stored.get(name)) is not None}
