"""Small HTTP servers on this machine that tests make others talk to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class LocalServer(ThreadingHTTPServer):
    """On a free port; what it is sent is kept by its handler in its own attributes."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


Server = TypeVar("Server", bound=LocalServer)


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
    """It answers in a thread of its own until the end."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class QuietHandler(BaseHTTPRequestHandler):
    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def lower_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Whole: its length is said. Empty ``headers`` are left out; an underscore in a name is a hyphen."""
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
