"""A request's spans at the door, written at its end from what was counted: serving pays for nothing before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from gpuruntime.goodput import Outcome
from gpuruntime.protocol import EndedRequest

if TYPE_CHECKING:
    from gpuruntime.door.counting import Account
    from gpuruntime.tracing import Trace, Tracing


def begin(tracing: Tracing | None, headers: Headers, account: Account, deployment: str) -> Trace | None:
    if tracing is None:
        return None
    known = {"request_id": account.request_id, "deployment_id": deployment}
    return tracing.begin("berth.door", headers, account.received_s, known)


def finish(trace: Trace, ended: EndedRequest, received_s: float) -> None:
    """``queue``, then ``engine`` with ``prefill`` and ``decode`` in it. Of an engine that says no times of its own,
    prefill is until the first token.
    """
    end_s = received_s + ended.duration_ms / 1000
    queued_s = min(end_s, received_s + (ended.queue_ms or 0.0) / 1000)
    trace.span("queue", received_s, queued_s)
    if ended.ttft_ms is not None or ended.prefill_ms is not None:
        engine = trace.span("engine", queued_s, end_s, preemptions=ended.preemptions)
        if ended.prefill_ms is not None:
            prefilled_s = min(end_s, queued_s + ended.prefill_ms / 1000)
        else:
            prefilled_s = min(end_s, received_s + (ended.ttft_ms or 0.0) / 1000)
        trace.span("prefill", queued_s, prefilled_s, engine, tokens=ended.new_prompt_tokens, cached=ended.cached_tokens)
        decoded_s = end_s if ended.decode_ms is None else min(end_s, prefilled_s + ended.decode_ms / 1000)
        trace.span("decode", prefilled_s, decoded_s, engine, tokens=ended.completion_tokens)
    completed = ended.outcome == Outcome.COMPLETED.value
    trace.end("" if completed else ended.outcome, outcome=ended.outcome, finish_reason=ended.finish_reason or None)
