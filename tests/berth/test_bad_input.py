"""Input that no client sends: on the management API and on ``/v1``, at the real process, as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from berth.tenants.models import KeyScope
from berth.tenants.services import create_key
from helpers.factories import make_tenant, make_user, unique
from helpers.web import Web, serving_web

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def web(django_db_setup: None) -> Iterator[Web]:
    with serving_web() as running:
        yield running
        faults = [line for line in running.said if '"level": "error"' in line or "Traceback" in line]
        assert faults == []


@pytest.fixture(scope="module")
def key(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    """Opens both. One for all: emptying the tables after each test takes longer than the test."""
    with django_db_blocker.unblock():
        tenant = make_tenant(unique("bad-input"))
        maker = make_user(tenant=tenant, role="owner")
        scopes = [KeyScope.INFERENCE, KeyScope.MANAGEMENT]
        yield create_key(tenant=tenant, name="k", actor="test", scopes=scopes, created_by=maker)[1]
        tenant.delete()
        maker.delete()


DEEP = 100_000
CHAT = b'{"model":"m","messages":[{"role":"user","content":"x"}]'
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "blank": b"   ",
    "not json": b"model=m",
    "half": b'{"model": "m", "messages": [',
    "a list": b"[]",
    "a text": b'"x"',
    "null": b"null",
    "a number": b"1e400",
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep unknown field": CHAT + b',"name":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep schema": CHAT
    + b',"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":'
    + b'{"items":' * 20_000
    + b"{}"
    + b"}" * 20_000
    + b"}}}",
    "not utf-8": b'{"model": "\xff\xfe", "name": "\x80"}',
    "a lone surrogate": b'{"model": "\\ud800", "name": "\\ud800", "messages": [{"role": "user", "content": "x"}]}',
    "another one": CHAT.replace(b'"x"', b'"\\udfff"') + b"}",
    "nul": b'{"model": "a\\u0000b", "name": "a\\u0000b"}',
    "raw nul": b'{"model": "a\x00b"}',
    "twice": b'{"name": "a", "name": 7, "model": "m", "model": ["x"]}',
    "infinite": CHAT + b',"temperature": 1e400, "name": "x", "max_concurrency": 1e400}',
    "nan": CHAT + b',"temperature": NaN}',
    "minus infinity": CHAT + b',"temperature": -Infinity}',
    "digits": CHAT + b',"max_tokens": ' + b"9" * 10_000 + b"}",
    "negative": CHAT + b',"max_tokens": -9223372036854775809}',
    "bom": b"\xef\xbb\xbf{}",
    "utf-16": '{"name": "x"}'.encode("utf-16"),
    "long name": json.dumps({"name": "x" * 900_000, "model": "y" * 900_000}).encode(),
    "many fields": json.dumps({f"f{i}": i for i in range(50_000)}).encode(),
    "prototype": b'{"__proto__": {"is_operator": true}, "constructor": 1, "is_operator": true}',
}
TARGETS = (
    *("POST /v1/chat/completions", "POST /v1/completions", "POST /v1/embeddings"),
    *("POST /api/v1/keys", "PATCH /api/v1/me", "POST /api/v1/session"),
    *("POST /api/v1/invitations/accept", "POST /api/v1/models"),
)


def status_of(web: Web, request: str, *headers: str, body: bytes = b"") -> tuple[int, bytes]:
    lines = ["host: 127.0.0.1", "connection: close", f"content-length: {len(body)}", *headers]
    head = f"{request} HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n"
    raw = web.send_raw(head.encode("latin-1") + body)
    answer, _, content = raw.partition(b"\r\n\r\n")
    return int(answer.split()[1]), content


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_none_is_refused_in_words(web: Web, key: str, name: str) -> None:
    for target in TARGETS:
        for kind in ("application/json", "text/plain"):
            bearer = f"authorization: Bearer {key}"
            status, content = status_of(web, target, bearer, f"content-type: {kind}", body=BODIES[name])
            assert 400 <= status < 500, (target, kind, status, content[:300])
            said = json.loads(content)
            assert len(content) < 20_000, (target, len(content))
            assert said.get("detail") or said["error"]["message"]


HEADS: dict[str, tuple[str, ...]] = {
    "a key that is none": ("authorization: Bearer key_x.y",),
    "a key of other letters": ("authorization: Bearer \xff\xfe\xfd",),
    "a long key": ("authorization: Bearer " + "k" * 60_000,),
    "basic": ("authorization: Basic Og==",),
    "no scheme": ("authorization: x",),
    "an empty one": ("authorization:",),
    "two keys": ("authorization: Bearer a", "authorization: Bearer b"),
    "a cookie that is none": ("cookie: sessionid=\xff\x01; =; ;;;csrftoken=x",),
    "a long cookie": ("cookie: sessionid=" + "a" * 60_000,),
    "a request id of ours": ("x-request-id: req_00000000000000000000000000",),
    "headers of ours": ("x-berth-node: n", "x-berth-load: x", "x-slo-ttft-ms: -1", "x-berth-verdict: 2"),
    "a trace": ("traceparent: 00-zz-zz-zz", "tracestate: " + "x" * 9000),
    "forwarded": ("x-forwarded-for: 1.1.1.1\xff", "x-forwarded-host: evil.test", "forwarded: host=evil.test"),
    "a range": ("range: bytes=9999999999999999999-1",),
    "a tag": ('if-match: "' + "x" * 5000 + '"', "if-none-match: *"),
    "a key of idempotency": ("idempotency-key: " + "x" * 5000,),
    "encodings": ("accept-encoding: " + "gzip;q=9," * 2000, "accept: " + "a/b," * 2000, "accept-language: \xff"),
    "a kind": ("content-type: multipart/form-data; boundary=\x22", "content-encoding: gzip"),
    "a form": ("content-type: application/x-www-form-urlencoded",),
}
PATHS = (
    "/v1/models", "/v1/models/%00", "/v1/models/" + "a" * 5000, "/v1/models/%ff%fe", "/v1//models", "/v1/../api/v1/me",
    "/api/v1/keys?tenant=%00", "/api/v1/keys?cursor=%ff", "/api/v1/keys?page_size=1e400", "/api/v1/keys/%00",
    "/api/v1/keys/%ed%a0%80", "/api/v1/keys?search=" + "%25" * 3000, "/api/v1/audit?from=0001-01-01T00:00:00Z",
    "/api/v1/usage?from=9999-12-31T23:59:59Z", "/api/v1/me", "/api/v1/%2e%2e/%2e%2e/etc/passwd", "/static/%00",
    "/static/..%2f..%2fetc%2fpasswd", "/t/%3Cscript%3E", "/signin?next=//evil.test", "/internal/models/..%2f/x", "/%ff",
    "/metrics?x=%00", "/healthz?x", "/readyz/", "/?" + "a=b&" * 8000,
)  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_is_none_breaks_nothing(web: Web, name: str) -> None:
    for target in ("GET /v1/models", "POST /v1/chat/completions", "GET /api/v1/me", "POST /api/v1/session", "GET /"):
        status, content = status_of(web, target, *HEADS[name])
        assert status < 500, (target, status, content[:300])


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40])
def test_a_path_that_is_none_breaks_nothing(web: Web, key: str, path: str) -> None:
    for headers in ((), (f"authorization: Bearer {key}",)):
        status, content = status_of(web, f"GET {path}", *headers)
        assert status < 500, (path, status, content[:300])
        assert b"root:" not in content


def test_nothing_of_a_request_comes_back_as_markup(web: Web, key: str) -> None:
    """What an answer repeats is JSON, of a type that no browser takes for a page."""
    for path in ("/api/v1/<script>alert(1)</script>", "/v1/<script>", "/api/v1/keys?<script>=1", "/internal/<script>"):
        raw = web.send_raw(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode()).lower()
        assert b"content-type: text/html" not in raw
        assert b"x-content-type-options: nosniff" in raw
