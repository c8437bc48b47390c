"""A collector of OpenTelemetry's on this machine: what was exported to it, as it came and as spans."""

from __future__ import annotations

import gzip
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from helpers.http_servers import LocalServer, QuietHandler


class Collector(LocalServer):
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        super().__init__(_Handler)

    def spans(self) -> list[dict[str, Any]]:
        found = []
        for body in self.bodies:
            message = ExportTraceServiceRequest.FromString(body)
            for part in message.resource_spans:
                resource = {a.key: a.value.string_value for a in part.resource.attributes}
                for scope in part.scope_spans:
                    found += [
                        {
                            "service": resource["service.name"],
                            "name": span.name,
                            "id": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                            "trace": span.trace_id.hex(),
                            "start": span.start_time_unix_nano,
                            "end": span.end_time_unix_nano,
                            "error": span.status.code == 2,
                            **{a.key: str(a.value).strip() for a in span.attributes},
                        }
                        for span in scope.spans
                    ]
        return found


class _Handler(QuietHandler):
    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.body()
        self.server.bodies.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
        self.answer(200)
