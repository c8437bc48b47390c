"""What every answer of this process tells a browser, whoever made it: Django, ``/v1``, a file, a refused handshake.

One policy for what is data: nothing in it may load, run, be framed or be read by another site. The console's page
brings a policy of its own (``CONTENT_SECURITY_POLICY`` of the settings), which is then left as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berth.config import CONFIG

Header = tuple[bytes, bytes]

DATA_POLICY = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_POLICY = b"content-security-policy"
_FEATURES = ("camera", "display-capture", "geolocation", "microphone", "payment", "publickey-credentials-get", "usb")
_HSTS = b"max-age=31536000"


def fixed_headers(*, tls: bool) -> list[Header]:
    """``tls``: the public address is https, so that a browser may remember to use nothing else."""
    headers = [
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"same-origin"),
        (b"permissions-policy", ", ".join(f"{feature}=()" for feature in _FEATURES).encode()),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]
    return [*headers, (b"strict-transport-security", _HSTS)] if tls else headers


FIXED = fixed_headers(tls=CONFIG.public_url.startswith("https://"))
# What says nothing of caches itself is kept by none: it may be a tenant's, or hold a token that is told once.
OF_DATA = [*FIXED, (_POLICY, DATA_POLICY), (b"cache-control", b"no-store")]


class SecurityHeaders:
    """Around the whole application. A frame of a stream passes one comparison, and no coroutine more."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket" and "websocket.http.response" in scope.get("extensions", {}):
            await self._app(scope, receive, _Handshake(send).send)
        else:
            await self._app(scope, receive, send)


def completed(headers: Sequence[Header]) -> list[Header]:
    """``headers`` and those of ours that they do not have."""
    given = list(headers)
    names = {name.lower() for name, _ in given}
    return given + [header for header in OF_DATA if header[0] not in names]


def _with_headers(send: Send) -> Send:
    def send_with_headers(message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            message = {**message, "headers": completed(message.get("headers", ()))}
        return send(message)

    return send_with_headers


class _Handshake:
    """A websocket that is not accepted is an HTTP answer, which the server makes without headers of ours."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open = False

    async def send(self, message: Message) -> None:
        if message["type"] == "websocket.close" and not self._open:
            headers = completed([(b"content-length", b"0"), (b"connection", b"close")])
            await self._send({"type": "websocket.http.response.start", "status": 403, "headers": headers})
            await self._send({"type": "websocket.http.response.body", "body": b""})
            return
        self._open = self._open or message["type"] == "websocket.accept"
        await self._send(message)
