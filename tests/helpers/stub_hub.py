"""A model hub on this machine: Hugging Face's listing and files, with what can go wrong on the way."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.http_servers import LocalServer, QuietHandler, serving

COMMIT = "c0ffee" * 6 + "abcd"


@dataclass
class StubHub:
    """Serves ``files`` as the repository ``acme/tiny``. ``asked``: (path, Range) of each request for a file.

    ``break_at``: the connection is cut when so many bytes of an answer's body were sent, ``breaks`` times.
    ``trickle_s``: between blocks of 1,000 bytes. ``tamper``: names whose content is another than listed.
    """

    files: dict[str, bytes]
    about: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    break_at: int | None = None
    breaks: int = 0
    trickle_s: float = 0.0
    ranges: bool = True
    tamper: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def __enter__(self) -> StubHub:
        self.stopping = threading.Event()
        self.ending = contextlib.ExitStack()
        self.server = self.ending.enter_context(serving(LocalServer(_handler(self))))
        self.ending.callback(self.stopping.set)
        return self

    def __exit__(self, *error: object) -> None:
        self.ending.close()

    @property
    def url(self) -> str:
        return self.server.url

    def listing(self) -> dict[str, Any]:
        return {"id": "acme/tiny", "sha": COMMIT, "siblings": [self._entry(name) for name in self.files], **self.about}

    def _entry(self, name: str) -> dict[str, Any]:
        data = self.files[name]
        entry: dict[str, Any] = {"rfilename": name, "size": len(data)}
        if name.endswith((".safetensors", ".gguf", ".bin")):
            return {**entry, "blobId": "0" * 40, "lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}}
        return {**entry, "blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}


def of_directory(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def _handler(hub: StubHub) -> type[QuietHandler]:
    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
            hub.tokens.append(self.headers.get("Authorization", ""))
            if hub.status != 200:
                self._answer(hub.status, b"{}")
            elif path in ("/api/models/acme/tiny", "/api/models/acme/tiny/revision/v1"):
                self._answer(200, json.dumps(hub.listing()).encode())
            elif path.startswith(f"/acme/tiny/resolve/{COMMIT}/") and path.rsplit("/", 1)[1] in hub.files:
                self._file(path.rsplit("/", 1)[1])
            else:
                self._answer(404, b"{}")

        def _file(self, name: str) -> None:
            wanted = self.headers.get("Range", "")
            hub.asked.append((name, wanted))
            data = hub.files[name]
            if name in hub.tamper:
                data = data[:-1] + bytes([data[-1] ^ 1])
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and hub.ranges else 0
            self._answer(206 if start else 200, data[start:])

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            cut = hub.break_at if hub.breaks > 0 and self.path.find("/resolve/") > 0 else None
            for at in range(0, len(body), 1000):
                if cut is not None and at >= cut:
                    hub.breaks -= 1
                    self.close_connection = True
                    self.wfile.flush()
                    self.connection.shutdown(2)
                    return
                if hub.trickle_s and hub.stopping.wait(hub.trickle_s):
                    return
                try:
                    self.wfile.write(body[at : at + 1000])
                except OSError:
                    return

    return Handler
