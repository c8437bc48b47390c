"""Runs the web or gateway process: uvicorn with httptools and uvloop, started in code so that its settings are ours."""

from __future__ import annotations

import errno
import logging
import socket
import sys

import uvicorn

from berth.security_headers import OF_DATA
from gpuruntime.bounded_http import BoundedHttp

BACKLOG = 2048
KEEP_ALIVE_S = 75
DRAIN_S = 5

log = logging.getLogger(__name__)


class Http(BoundedHttp):
    refusal_headers = OF_DATA


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ``OSError``, with a taken port as EADDRINUSE."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def serve(host: str, port: int, drain_s: int = DRAIN_S) -> int:
    """Serves until SIGINT or SIGTERM; open streams then have ``drain_s`` seconds. Returns the exit code.

    2 when it cannot listen, with one line that says why.
    """
    try:
        listener = listen(host, port)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = f"port {port} on {host} is taken by another process" if taken else f"{host}:{port}: {error.strerror}"
        print(f"berth: cannot listen: {why}.", file=sys.stderr)  # noqa: T201 - the one line for whoever started it
        return 2
    config = uvicorn.Config(
        "berth.asgi:application",
        http=Http,
        loop="uvloop",
        ws="websockets-sansio",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=drain_s,
        ws_max_size=16 << 20,
        ws_ping_interval=10,
        ws_ping_timeout=20,
    )
    server = uvicorn.Server(config)
    log.info("listening", extra={"url": f"http://{host}:{listener.getsockname()[1]}"})
    server.run(sockets=[listener])
    return 0 if server.started else 1
