"""``manage.py serve`` on the tests' own database and Redis: the real process, on a port of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from django.db import connection
from websockets.sync.client import ClientConnection, connect

from helpers.patience import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[2]


class Web:
    """``said``: the lines of its log."""

    def __init__(self, port: int, process: subprocess.Popen[str], said: list[str]) -> None:
        self.port = port
        self.origin = f"http://127.0.0.1:{port}"
        self.process = process
        self.said = said

    def open(self, path: str, headers: dict[str, str] | None = None, origin: str | None = None) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}{path}", additional_headers=headers, origin=origin, proxy=None)

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes, Any]:
        try:
            with urlopen(Request(self.origin + path, headers=headers or {}), timeout=10) as answer:
                return answer.status, answer.read(), answer.headers
        except OSError as error:
            return error.code, b"", {}  # type: ignore[attr-defined]

    def send_raw(self, request: bytes) -> bytes:
        """What it answers to these very bytes, to the end of the connection."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as plug:
            plug.settimeout(PATIENCE_S)
            with contextlib.suppress(ConnectionError):
                plug.sendall(request)
            answer = b""
            with contextlib.suppress(ConnectionError):
                while piece := plug.recv(65536):
                    answer += piece
            return answer


@contextlib.contextmanager
def serving_web(**variables: str) -> Iterator[Web]:
    """``variables``: BERTH_*, beside those of the tests' services."""
    name = connection.settings_dict["NAME"]
    url = os.environ["BERTH_DATABASE_URL"].replace("/berth?", f"/{name}?")
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", "0"],
        cwd=REPOSITORY,
        env={**os.environ, "BERTH_DATABASE_URL": url, **variables},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if '"listening"' in line:
            port = int(json.loads(line)["url"].rpartition(":")[2])
            break
    else:
        raise AssertionError("the server did not start: " + "".join(said[-20:]))
    listener = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    listener.start()
    try:
        yield Web(port, process, said)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE_S)
        listener.join(PATIENCE_S)
        process.stderr.close()
    assert code in (0, -signal.SIGTERM)
