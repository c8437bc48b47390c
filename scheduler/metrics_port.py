"""A small port for Prometheus, for processes that serve no HTTP of their own: the scheduler and the node agent.

``GET /metrics`` and nothing else, in a thread; with a token it is asked for as a bearer.
"""

from __future__ import annotations

import hmac
import os
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest, multiprocess

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"


class BadAddress(ValueError):
    """No HOST:PORT; the text says so."""


def parse_address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, ``[HOST]:PORT`` or ``PORT`` (of 127.0.0.1). Raises ``BadAddress``."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) < 65536:
        raise BadAddress(f"{text!r} is no address; expected HOST:PORT, as 127.0.0.1:9101")
    return host.strip("[]") or "127.0.0.1", int(port)


def render(registry: CollectorRegistry) -> bytes:
    """What the registry holds; of all processes together where they share PROMETHEUS_MULTIPROC_DIR."""
    if os.environ.get(MULTIPROCESS):
        shared = CollectorRegistry()
        multiprocess.MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared) + generate_latest(registry)
    return generate_latest(registry)


def allowed(authorization: str, token: str) -> bool:
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


class MetricsPort(ThreadingHTTPServer):
    """Raises ``OSError`` when it cannot listen. ``start`` once; it ends with the process or by ``stop``."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], token: str, body: Callable[[], bytes]) -> None:
        self.token = token
        self.body = body
        super().__init__(address, _Handler)

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, name="metrics", daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: MetricsPort
    timeout = 10

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self._answer(404, b"Metrics are at /metrics.\n")
        elif self.server.token and not allowed(self.headers.get("authorization", ""), self.server.token):
            self._answer(401, b"A bearer token is needed.\n")
        else:
            self._answer(200, self.server.body(), CONTENT_TYPE)

    def _answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("www-authenticate", "Bearer")
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A scrape each few seconds is no news."""
