"""Counts every admitted request exactly once: to the spool, the metrics and the work of its tenant."""

from __future__ import annotations

import itertools
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuruntime.backend import Delta, Timings
from gpuruntime.door.choice import Choice
from gpuruntime.door.metrics import Metrics
from gpuruntime.door.spool import Spool
from gpuruntime.door.trace import finish
from gpuruntime.goodput import Outcome
from gpuruntime.marks import Begun
from gpuruntime.protocol import DEGRADED, EndedRequest

if TYPE_CHECKING:
    from gpuruntime.tracing import Trace

log = logging.getLogger("gpuruntime.counting")


@dataclass(slots=True)
class TenantWork:
    """Ideal seconds since the process started; they only grow, so a reader keeps its own base."""

    ideal_s_by_tenant: dict[str, float] = field(default_factory=dict)

    def add(self, tenant: str, ideal_s: float) -> None:
        self.ideal_s_by_tenant[tenant] = self.ideal_s_by_tenant.get(tenant, 0.0) + ideal_s


@dataclass(slots=True)
class Account:
    """One admitted request, from its admission to its end. Times are of the monotonic clock, in seconds.

    Of several choices: each prompt counts once, every generated token counts, the last one's reason to finish stays.
    Of an answer that another door began, its tokens count as the client's, and are ``replayed_tokens``.
    """

    request_id: str
    tenant: str
    received_s: float
    prompt_tokens: int = 0
    new_prompt_tokens: int | None = None
    started_s: float | None = None
    first_token_s: float | None = None
    completion_tokens: int = 0
    replayed_tokens: int = 0
    resumed: bool = False
    finish_reason: str = ""
    timings: Timings | None = None
    running_at_arrival: int | None = None
    queued_at_arrival: int | None = None
    degraded: bool = False
    ended: bool = False
    trace: Trace | None = None

    def start(self) -> None:
        """The queue let its first choice into the engine."""
        if self.started_s is None:
            self.started_s = time.monotonic()

    def add(self, choice: Choice, delta: Delta) -> None:
        """Counts what came for one choice."""
        source = choice.source
        if delta.prompt_tokens != source.tokens and choice.leads and delta.prompt_tokens:
            self.prompt_tokens += delta.prompt_tokens - source.tokens
            source.tokens = delta.prompt_tokens
        if not choice.silent:
            self.completion_tokens += delta.completion_tokens - choice.completion_tokens
            choice.completion_tokens = delta.completion_tokens
        if delta.finish_reason is not None:
            choice.timings = delta.timings
            choice.finish_reason = delta.finish_reason
            self.finish_reason = delta.finish_reason

    def resume(self, choice: Choice, begun: Begun) -> None:
        """The client has the first tokens of this choice, and all of them if it has ended."""
        self.resumed = True
        choice.finish_reason = begun.finish_reason  # type: ignore[assignment]
        choice.completion_tokens = len(begun.tokens)
        self.completion_tokens += len(begun.tokens)
        self.replayed_tokens += len(begun.tokens)
        self.finish_reason = begun.finish_reason or self.finish_reason

    def told(self) -> dict[str, str]:
        """Headers of the answer."""
        return {DEGRADED: "ttft"} if self.degraded else {}

    @property
    def ttft_s(self) -> float | None:
        """None of an answer whose first token was another door's."""
        known = self.first_token_s is not None and not self.resumed
        return (self.first_token_s or 0.0) - self.received_s if known else None

    @property
    def cached_tokens(self) -> int | None:
        return None if self.timings is None else self.timings.cached_tokens

    def usage(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens or 0},
        }

    def berth(self) -> dict[str, float | int | None]:
        """What the last frame tells the gateway; unknown fields are null."""
        timings = self.timings or Timings()
        whole = not self.resumed
        return {
            "queue_ms": self._queue_ms(timings) if whole else None,
            "prefill_ms": timings.prefill_ms if whole else None,
            "decode_ms": timings.decode_ms if whole else None,
            "preemptions": timings.preemptions,
            "cached_tokens": timings.cached_tokens,
            "new_prompt_tokens": self._new_prompt_tokens(timings),
            "ideal_s": timings.ideal_s,
            "executed_ideal_s": timings.executed_ideal_s,
        }

    def _queue_ms(self, timings: Timings) -> float:
        """The wait at the door plus the engine's own."""
        door_s = (self.started_s or time.monotonic()) - self.received_s
        return round(1000 * door_s + (timings.queue_ms or 0.0), 3)

    def _new_prompt_tokens(self, timings: Timings) -> int | None:
        """The door's own count where it knows the tokens; for an external engine prompt minus cached."""
        if self.new_prompt_tokens is not None:
            return self.new_prompt_tokens
        if timings.cached_tokens is not None:
            return self.prompt_tokens - timings.cached_tokens
        return timings.new_prompt_tokens

    def record(self, outcome: Outcome, deployment: str, replica_id: str, epoch: str, number: int) -> EndedRequest:
        ttft_s = self.ttft_s
        timings = self.berth()
        cached = timings.pop("cached_tokens")
        return EndedRequest(
            request_id=self.request_id,
            tenant=self.tenant,
            deployment=deployment,
            replica_id=replica_id,
            epoch=epoch,
            outcome=outcome.value,
            finish_reason=self.finish_reason,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=int(cached or 0),
            ttft_ms=None if ttft_s is None else round(1000 * ttft_s, 3),
            duration_ms=round(1000 * (time.monotonic() - self.received_s), 3),
            running_at_arrival=self.running_at_arrival,
            queued_at_arrival=self.queued_at_arrival,
            degraded=self.degraded,
            replayed_tokens=self.replayed_tokens,
            number=number,
            ended_at=round(time.time(), 3),
            **timings,  # type: ignore[arg-type]
        )


class Counter:
    """Closes accounts. ``end`` is idempotent, so every way out of a request may call it."""

    def __init__(self, deployment: str, replica_id: str, epoch: str, spool: Spool, metrics: Metrics) -> None:
        self._identity = (deployment, replica_id, epoch)
        self._spool = spool
        self._metrics = metrics
        self._numbers = itertools.count(1)
        self.work = TenantWork()

    def end(self, account: Account, outcome: Outcome) -> None:
        if account.ended:
            return
        account.ended = True
        ended = account.record(outcome, *self._identity, next(self._numbers))
        self._spool.append(ended)
        self._metrics.observe(ended)
        if account.trace is not None:
            finish(account.trace, ended, account.received_s)
        if outcome not in (Outcome.COMPLETED, Outcome.CLIENT_LEFT):
            log.warning("request_id=%s tenant=%s outcome=%s", ended.request_id, ended.tenant, ended.outcome)
        executed = ended.executed_ideal_s if ended.executed_ideal_s is not None else ended.ideal_s
        if executed:
            self.work.add(account.tenant, executed)
