"""What every answer carries, whoever made it: each route of the API, the console, ``/v1``, files, refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.parser import BytesParser
from pathlib import Path

import pytest
from django.conf import settings

from berth.security_headers import DATA_POLICY
from gpuruntime.bounded_http import MAX_HEAD_BYTES
from helpers.api_routes import METHODS, cases
from helpers.web import Web, serving_web

pytestmark = pytest.mark.django_db

WANTED = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
API = sorted({case.template.replace("{id}", "x") for case in cases()} | {"nothing-here"})
HANDSHAKE = (
    "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\norigin: http://elsewhere\r\n"
)


@pytest.fixture(scope="module")
def web(django_db_setup: None) -> Iterator[Web]:
    with serving_web() as running:
        yield running


def answer(web: Web, request: str, *headers: str) -> tuple[int, dict[str, list[str]]]:
    """The status, and each header with all its values."""
    lines = "".join(f"{header}\r\n" for header in ("host: 127.0.0.1", *headers))
    closing = "" if "upgrade" in lines else "connection: close\r\n"
    raw = web.send_raw(f"{request} HTTP/1.1\r\n{lines}{closing}\r\n".encode())
    head = raw.partition(b"\r\n\r\n")[0]
    status, _, rest = head.partition(b"\r\n")
    found: dict[str, list[str]] = {}
    for name, value in BytesParser().parsebytes(rest, headersonly=True).items():
        found.setdefault(name.lower(), []).append(value)
    return int(status.split()[1]), found


def check(headers: dict[str, list[str]], *, page: bool = False) -> None:
    assert {name: headers.get(name) for name in WANTED} == {name: [value] for name, value in WANTED.items()}
    assert "camera=()" in headers["permissions-policy"][0]
    (policy,) = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'self'" in policy if page else "default-src '" in policy
    assert "strict-transport-security" not in headers
    assert len(headers["cache-control"]) == 1
    assert "server" not in headers


@pytest.mark.parametrize("path", API)
def test_each_route_of_the_api_whatever_it_answers(web: Web, path: str) -> None:
    for method in METHODS:
        status, headers = answer(web, f"{method.upper()} /api/v1/{path}", "content-length: 0")
        assert status < 500
        check(headers)
        assert headers["cache-control"] == ["no-store"]


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /v1/models", 401),
        ("POST /v1/chat/completions", 401),
        ("POST /v1/completions", 401),
        ("PUT /v1/models", 405),
        ("GET /v1/nothing", 404),
        ("GET /healthz", 200),
        ("GET /readyz", 200),
        ("GET /metrics", 200),
        ("GET /internal/models/x/y", 401),
        ("GET /internal/../etc/passwd", 404),
        ("GET /static/nothing.js", 404),
        ("GET /static/favicon.svg", 200),
        ("POST /t/acme", 403),
    ],
)
def test_each_other_listener_of_the_process(web: Web, request_line: str, status: int) -> None:
    found, headers = answer(web, request_line, "content-length: 0")
    assert found == status
    check(headers)


def test_the_page_has_a_nonce_of_its_own_that_its_policy_names(web: Web) -> None:
    pages = [web.get(path) for path in ("/", "/signin")]
    nonces = []
    for status, body, headers in pages:
        assert status == 200
        check({name.lower(): headers.get_all(name) for name in headers}, page=True)
        (nonce,) = set(re.findall(r'nonce="([^"]*)"', body.decode()))
        assert f"style-src 'self' 'nonce-{nonce}'" in headers["content-security-policy"]
        nonces.append(nonce)
    assert len(set(nonces)) == 2


@pytest.mark.parametrize("path", ["/ws/console", "/ws/agent", "/ws/runtime", "/ws/none", "/elsewhere"])
def test_a_handshake_that_is_refused(web: Web, path: str) -> None:
    status, headers = answer(web, f"GET {path}", *HANDSHAKE.strip().split("\r\n"))
    assert status == 403
    check(headers)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * (MAX_HEAD_BYTES + 200_000),
        b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx\0y: 1\r\n\r\n",
    ],
    ids=["nonsense", "large", "negative", "nul"],
)
def test_what_no_application_sees(web: Web, request_bytes: bytes) -> None:
    raw = web.send_raw(request_bytes)
    if raw:  # a large head may be cut off while it is sent: the answer is lost then
        assert raw.startswith(b"HTTP/1.1 400 ")
        assert b"content-security-policy: " + DATA_POLICY in raw


def test_a_host_that_is_not_ours_and_a_body_that_is_too_large(web: Web) -> None:
    for head in ("GET / HTTP/1.1\r\nhost: evil", "POST /api/v1/session HTTP/1.1\r\nhost: a\r\ncontent-length: 9999999"):
        raw = web.send_raw(f"{head}\r\nconnection: close\r\n\r\n".encode())
        assert raw.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))
        assert raw.count(b"content-security-policy: ") + raw.count(b"Content-Security-Policy: ") == 1


def test_behind_https_a_browser_uses_nothing_else_and_cookies_are_secure(django_db_setup: None) -> None:
    with serving_web(BERTH_PUBLIC_URL="https://berth.example.com") as web:
        for request in ("GET /api/v1/session", "GET /v1/models", "GET /static/nothing"):
            _, headers = answer(web, request)
            assert headers["strict-transport-security"] == ["max-age=31536000"]
        _, headers = answer(web, "GET /api/v1/session")
        (cookie,) = headers["set-cookie"]
        assert "Secure" in cookie
        assert b"strict-transport-security: max-age=31536000" in web.send_raw(b"NONSENSE\r\n\r\n")


def test_cookies_are_for_this_site_alone(web: Web) -> None:
    _, headers = answer(web, "GET /api/v1/session")
    (cookie,) = headers["set-cookie"]
    assert cookie.startswith("csrftoken=")
    assert "SameSite=Lax" in cookie
    assert (settings.SESSION_COOKIE_HTTPONLY, settings.SESSION_COOKIE_SAMESITE) == (True, "Lax")


def test_no_page_of_the_build_runs_or_styles_inline() -> None:
    page = Path(settings.CONSOLE_DIST, "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=|\bstyle=", page)


def test_no_name_becomes_markup_in_the_console() -> None:
    """React escapes what it shows; nothing goes round it, so that a tenant's or a model's name is text everywhere."""
    sources = list((settings.REPOSITORY / "frontend" / "src").rglob("*.ts*"))
    assert len(sources) > 100
    ways = re.compile(r"(inner|outer|Adjacent)HTML|SetInnerHTML|document\.write|eval\(|new Function")
    assert [str(path) for path in sources if ways.search(path.read_text())] == []
