"""Traces of requests, gateway -> door -> engine, for OpenTelemetry. Off, and not imported, until an endpoint is set.

    berth.request (gateway)                      berth.door (runtime)
      admission | route                            queue
      forward  --- traceparent (W3C) --->          engine
                                                     prefill | decode

On by BERTH_OTLP_ENDPOINT (http://HOST:4318) or OpenTelemetry's own OTEL_EXPORTER_OTLP_[TRACES_]ENDPOINT; its other
variables (sampler, headers, resource) hold as well. A span carries ids, counts and durations: no prompt, key or text.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer

OURS = "BERTH_OTLP_ENDPOINT"
STANDARD = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
FLUSH_MS = 2000

log = logging.getLogger("gpuruntime.tracing")

Value = str | int | float | bool | None


def is_on(environ: Mapping[str, str]) -> bool:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER", "") == "none":
        return False
    return any(environ.get(name) for name in (OURS, *STANDARD))


def start(service: str, instance: str, environ: Mapping[str, str] | None = None) -> Tracing | None:
    """None while tracing is off. ``instance``: which process of the service this is."""
    environ = os.environ if environ is None else environ
    if not is_on(environ):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        log.error("An endpoint for traces is set, and OpenTelemetry is not installed: pip install 'berth[tracing]'")
        return None
    endpoint = environ.get(OURS, "").rstrip("/")
    exporter = OTLPSpanExporter(f"{endpoint}/v1/traces") if endpoint else OTLPSpanExporter()
    return Tracing(service, instance, exporter)


class Tracing:
    """One a process. Spans are exported in batches, by a thread of the SDK's."""

    def __init__(self, service: str, instance: str, exporter: SpanExporter) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create({"service.name": service, "service.instance.id": instance})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("berth")
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, name: str, parent: Mapping[str, str], start_s: float, attributes: Mapping[str, Value]) -> Trace:
        """A request's root in this process. ``parent``: lower-case headers, with ``traceparent`` where the caller has
        one. ``start_s``: when the request came, by the monotonic clock.
        """
        carrier = {key: parent[key] for key in ("traceparent", "tracestate") if key in parent}
        return Trace(self._tracer, name, self._propagator.extract(carrier), start_s, attributes)

    def stop(self) -> None:
        """Sends what is left, in bounded time."""
        self._provider.force_flush(FLUSH_MS)
        self._provider.shutdown()


class Trace:
    """One request in one process. Times are of the monotonic clock, in seconds; ``end`` may be called twice."""

    def __init__(
        self, tracer: Tracer, name: str, parent: Context, start_s: float, attributes: Mapping[str, Value]
    ) -> None:
        from opentelemetry.trace import SpanKind

        self._tracer = tracer
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._root = tracer.start_span(name, parent, SpanKind.SERVER, _given(attributes), start_time=self._ns(start_s))
        self._ended = False

    def span(self, name: str, start_s: float, end_s: float, parent: Span | None = None, **attributes: Value) -> Span:
        """A part that is over."""
        span = self._tracer.start_span(
            name, self._below(parent or self._root), attributes=_given(attributes), start_time=self._ns(start_s)
        )
        span.end(self._ns(max(start_s, end_s)))
        return span

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.span(name, began_s, time.monotonic())

    @contextlib.contextmanager
    def calling(self, name: str, headers: dict[str, str], **attributes: Value) -> Iterator[None]:
        """A call to the next process: its ``traceparent`` is added to ``headers``."""
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        span = self._tracer.start_span(name, self._below(self._root), SpanKind.CLIENT, _given(attributes))
        TraceContextTextMapPropagator().inject(headers, self._below(span))
        try:
            yield
        finally:
            span.end()

    def end(self, error: str = "", **attributes: Value) -> None:
        """``error``: what went wrong, as a code or an outcome."""
        if self._ended:
            return
        from opentelemetry.trace import Status, StatusCode

        self._ended = True
        self._root.set_attributes(_given(attributes))
        if error:
            self._root.set_status(Status(StatusCode.ERROR, error))
        self._root.end()

    def _ns(self, at_s: float) -> int:
        return int(at_s * 1e9) + self._offset_ns

    @staticmethod
    def _below(span: Span) -> Context:
        from opentelemetry.trace import set_span_in_context

        return set_span_in_context(span)


def _given(attributes: Mapping[str, Value]) -> dict[str, Any]:
    return {f"berth.{name}": value for name, value in attributes.items() if value is not None}
