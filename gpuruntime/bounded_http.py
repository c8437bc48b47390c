"""uvicorn's HTTP protocol with the two limits it lacks: how large a request's head may be, and how long it may take.

Every listener of ours has it: web, gateway and door. Without them anyone who can connect, key or none, can make the
process hold an endless header, or a connection for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 << 10
HEAD_TIMEOUT_S = 30.0


class BoundedHttp(HttpToolsProtocol):
    """A head over ``MAX_HEAD_BYTES`` plus what one read brings is 400; one over ``HEAD_TIMEOUT_S`` is closed.

    ``refusal_headers``: of the 400, which no application sees.
    """

    refusal_headers: Sequence[tuple[bytes, bytes]] = ()

    _in_head = True
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_in_head = self._in_head
        super().data_received(data)
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self._refuse(f"The head of the request is over {MAX_HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._start_timer()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """What no application sees: a head that cannot be parsed, or one that is too large."""
        body = msg.encode("ascii", "replace")
        own = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        headers = [*self.server_state.default_headers, *self.refusal_headers, *own]
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + lines + b"\r\n" + body)
        self.transport.close()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        if self._answering:
            self._start_timer()  # a pipelined head may wait for the answer before it
        else:
            self.transport.close()

    def _refuse(self, message: str) -> None:
        if self._answering:
            self.transport.close()
        else:
            self.send_400_response(message)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete
