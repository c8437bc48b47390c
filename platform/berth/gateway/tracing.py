"""A request's spans at the gateway. While tracing is off, ``NO_TRACE`` stands in: nothing is imported or recorded."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from berth.gateway.outcomes import Judged
    from berth.metering.records import OpenRecord
    from gpuruntime.tracing import Trace, Tracing, Value

_NOTHING: AbstractContextManager[None] = nullcontext()


class RequestTrace:
    """What the exchange calls; this one does nothing."""

    def timed(self, name: str) -> AbstractContextManager[None]:
        return _NOTHING

    def calling(self, headers: dict[str, str], replica_id: str) -> AbstractContextManager[None]:
        return _NOTHING

    def ended(self, judged: Judged) -> None:
        """The verdict is there: the request's own span ends."""


NO_TRACE = RequestTrace()


class _Recorded(RequestTrace):
    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def timed(self, name: str) -> AbstractContextManager[None]:
        return self._trace.timed(name)

    def calling(self, headers: dict[str, str], replica_id: str) -> AbstractContextManager[None]:
        return self._trace.calling("forward", headers, replica_id=replica_id)

    def ended(self, judged: Judged) -> None:
        event = judged.event
        self._trace.end(
            "" if event.outcome == "completed" else event.outcome,
            outcome=event.outcome,
            status=event.status,
            good=event.good,
            reason=event.reason or None,
            prompt_tokens=event.prompt_tokens,
            completion_tokens=event.completion_tokens,
            ttft_ms=None if event.ttft_us is None else event.ttft_us / 1000,
            tpot_ms=None if event.tpot_us is None else event.tpot_us / 1000,
        )


def begin(tracing: Tracing | None, headers: Mapping[bytes, bytes], opened: OpenRecord, arrived_us: int) -> RequestTrace:
    """``headers``: the client's, whose own trace is gone on with where it has one.

    By its ids alone: ``tracestate`` is text of the client's, and would stand in the operator's traces.
    """
    if tracing is None:
        return NO_TRACE
    named = headers.get(b"traceparent")
    parent = {} if named is None else {"traceparent": named.decode("latin-1")}
    known: dict[str, Value] = {
        "request_id": opened.request_id,
        "tenant_id": opened.tenant_id,
        "deployment": opened.deployment_name,
        "class": opened.class_name,
        "stream": opened.stream,
    }
    return _Recorded(tracing.begin("berth.request", parent, arrived_us / 1e6, known))
