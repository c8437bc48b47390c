"""The console's files: cached for ever under hashed names, and served from whatever build is there now."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

SCRIPT = b"export const berth = 1;\n" * 100


@pytest.fixture
def dist(settings: Any, tmp_path: Path) -> Path:
    settings.STATIC_ROOT = settings.CONSOLE_DIST = tmp_path / "dist"
    return tmp_path / "dist"


def body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def build(dist: Path, name: str) -> str:
    (dist / "assets").mkdir(parents=True, exist_ok=True)
    (dist / "index.html").write_text(f'<script src="/static/assets/{name}"></script>')
    (dist / "assets" / name).write_bytes(SCRIPT)
    (dist / "assets" / f"{name}.gz").write_bytes(gzip.compress(SCRIPT))
    return f"/static/assets/{name}"


def test_a_build_made_while_the_process_runs_is_served(dist: Path) -> None:
    client = Client(raise_request_exception=False)
    assert client.get("/").status_code == 503
    for name in ("index-Ab3_-x9Z.js", "index-Q2w4e6R8.js"):
        url = build(dist, name)
        assert url in client.get("/").content.decode()
        answer = client.get(url)
        assert (answer.status_code, body(answer)) == (200, SCRIPT)
        assert "immutable" in answer["cache-control"]
        (dist / "assets" / name).unlink()
        (dist / "assets" / f"{name}.gz").unlink()
        assert client.get(url).status_code == 404


def test_what_the_build_compressed_is_sent_compressed(dist: Path) -> None:
    url = build(dist, "index-Ab3_-x9Z.js")
    answer = Client().get(url, headers={"accept-encoding": "gzip, br"})
    assert answer["content-encoding"] == "gzip"
    assert answer["vary"] == "Accept-Encoding"
    assert gzip.decompress(body(answer)) == SCRIPT


def test_a_name_without_a_hash_is_not_kept_for_ever(dist: Path) -> None:
    build(dist, "index-Ab3_-x9Z.js")
    (dist / "favicon.svg").write_text("<svg/>")
    assert "immutable" not in Client().get("/static/favicon.svg")["cache-control"]


@pytest.mark.parametrize(
    "path", ["../secret", "assets/../../secret", "%2e%2e/secret", "..%2fsecret", "assets", "", "assets/\0", "x" * 5000]
)
def test_nothing_else_is_reachable(dist: Path, path: str) -> None:
    build(dist, "index-Ab3_-x9Z.js")
    (dist.parent / "secret").write_text("secret")
    assert Client(raise_request_exception=False).get(f"/static/{path}").status_code == 404
