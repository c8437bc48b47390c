"""From an ended exchange to its verdict, its record, and what a client that asked is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from berth.gateway.errors import ApiError
from berth.metering.records import UsageEvent
from gpuruntime.backend import Timings
from gpuruntime.goodput import Circumstances, Outcome, Verdict, judge

if TYPE_CHECKING:
    from berth.gateway.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Judged:
    verdict: Verdict
    event: UsageEvent


def judge_exchange(exchange: Exchange, outcome: Outcome, status: int, ended_us: int) -> Judged:
    frames, line = exchange.frames, exchange.line
    berth = frames.berth or Timings()
    seen = Circumstances(
        outcome=outcome,
        ended_us=ended_us,
        new_prompt_tokens=_new_prompt_tokens(exchange, berth),
        ready_at_arrival=exchange.ready_at_arrival,
        queue_ms=berth.queue_ms,
        prefill_ms=berth.prefill_ms,
        preemptions=berth.preemptions,
    )
    level = exchange.route.level
    verdict = judge(level, line, seen)
    opened = {name: getattr(exchange.opened, name) for name in exchange.opened.__struct_fields__}
    return Judged(
        verdict,
        UsageEvent(
            **opened,
            replica_id=exchange.replica_id,
            reached=exchange.reached,
            outcome=outcome.value,
            finish_reason=frames.finish_reason,
            status=status,
            prompt_tokens=frames.prompt_tokens,
            cached_tokens=berth.cached_tokens or 0,
            new_prompt_tokens=seen.new_prompt_tokens if frames.prompt_tokens else 0,
            completion_tokens=line.tokens,
            offered=verdict.offered,
            good=verdict.good,
            compatible=verdict.compatible,
            reason=verdict.reason.value if verdict.reason else "",
            ttft_us=verdict.ttft_us,
            ttft_limit_us=verdict.ttft_limit_us,
            tpot_us=verdict.tpot_us,
            fluidity=verdict.fluidity,
            e2e_us=verdict.e2e_us,
            queue_ms=berth.queue_ms,
            prefill_ms=berth.prefill_ms,
            decode_ms=berth.decode_ms,
            preemptions=berth.preemptions,
            ideal_s=berth.ideal_s,
            executed_ideal_s=berth.executed_ideal_s,
            tpot_limit_us=level.tpot_us,
            fluidity_floor=level.fluidity_floor if level.tpot_us is not None else None,
            e2e_limit_us=None if level.e2e_ms is None else level.e2e_ms * 1000,
            burst=exchange.grant.burst,
            ready_at_arrival=exchange.ready_at_arrival,
            tries=exchange.trail.tries,
            resumes=exchange.resumes,
            stalls=line.stalls,
            max_gap_us=line.max_gap_us,
        ),
    )


def outcome_of(error: ApiError, tokens: int) -> Outcome:
    """Of a request that ended with this error, after so many tokens."""
    if error.status in (400, 413):
        return Outcome.INVALID
    if error.code == "queue_timeout":
        return Outcome.QUEUE_TIMEOUT
    if error.status in (429, 503) and error.code != "replica_lost":
        return Outcome.REFUSED
    return Outcome.TRUNCATED if tokens else Outcome.FAILED


def _new_prompt_tokens(exchange: Exchange, berth: Timings) -> int:
    """The door's count; before its last frame, at most the whole prompt; before its first, a guess from the bytes."""
    if berth.new_prompt_tokens is not None:
        return berth.new_prompt_tokens
    return exchange.frames.prompt_tokens - (berth.cached_tokens or 0) or exchange.request.body_bytes // 4


def verdict_of(exchange: Exchange) -> dict[str, Any]:
    """For a client that sent ``x-berth-verdict: 1``, once the exchange is judged."""
    if exchange.judged is None:
        return {}
    verdict, event = exchange.judged.verdict, exchange.judged.event
    return {
        "request_id": event.request_id,
        "good": verdict.good,
        "compatible": verdict.compatible,
        "reason": verdict.reason.value if verdict.reason else None,
        "ttft_ms": _ms(verdict.ttft_us),
        "ttft_limit_ms": _ms(verdict.ttft_limit_us),
        "tpot_ms": _ms(verdict.tpot_us),
        "fluidity": verdict.fluidity,
        "tokens": verdict.tokens,
        "queue_ms": event.queue_ms,
        "prefill_ms": event.prefill_ms,
        "decode_ms": event.decode_ms,
        "cached_tokens": event.cached_tokens,
    }


def verdict_event(exchange: Exchange) -> bytes:
    return b"event: berth.verdict\ndata: " + msgspec.json.encode(verdict_of(exchange)) + b"\n\n"


def _ms(value_us: float | None) -> float | None:
    return None if value_us is None else round(value_us / 1000, 3)
