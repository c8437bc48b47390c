"""What bad input gets: OpenAI's object with all four keys, the field's name, never a stack."""

from __future__ import annotations

import json
import time
from typing import Any

import aiohttp
import pytest

from berth.gateway.app import PARSERS
from berth.gateway.asked import CHAT
from gpuruntime.openai_api import MAX_BODY_BYTES
from helpers.gateway import MODEL, Running, chat, make_key
from helpers.stub_door import StubDoor

MESSAGES = [{"role": "user", "content": "hi"}]

BAD: list[tuple[Any, str | None]] = [
    (b"", None),
    (b"{not json", None),
    (b"[1, 2]", None),
    (b'"text"', None),
    (b"\xff\xfe{}", None),
    ({"messages": MESSAGES}, "model"),
    ({"model": 7, "messages": MESSAGES}, "model"),
    ({"model": MODEL}, "messages"),
    ({"model": MODEL, "messages": "hi"}, "messages"),
    ({"model": MODEL, "messages": []}, "messages"),
    ({"model": MODEL, "messages": [*MESSAGES, {"role": "wizard", "content": "x"}]}, "messages[1].role"),
    ({"model": MODEL, "messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    (chat(max_tokens="many"), "max_tokens"),
    (chat(max_tokens=0), "max_tokens"),
    (chat(max_tokens=1.5), "max_tokens"),
    (chat(temperature=2.5), "temperature"),
    (chat(temperature="hot"), "temperature"),
    (chat(top_p=-0.1), "top_p"),
    (chat(n=17), "n"),
    (chat(logit_bias={"x": 1}), "logit_bias"),
    (chat(min_tokens=17), "min_tokens"),
    (chat(tools=[{"type": "function", "function": {}}]), "tools[0].function.name"),
    (chat(stream="yes"), "stream"),
    (chat(stop=[1]), "stop[0]"),
    (chat(stream_options={"include_usage": 3}), "stream_options.include_usage"),
]


def check(error: Any) -> dict[str, Any]:
    assert set(error) == {"error"}
    assert set(error["error"]) == {"message", "type", "param", "code"}
    assert error["error"]["message"]
    return dict(error["error"])


@pytest.mark.parametrize(("body", "field"), BAD)
async def test_a_bad_body_is_400_with_its_field(running: Running, door: StubDoor, body: Any, field: str | None) -> None:
    async with running.post(body) as answer:
        error = check(await answer.json())
    assert (answer.status, error["type"], error["param"]) == (400, "invalid_request_error", field)
    assert answer.headers["x-request-id"].startswith("req_")
    assert door.calls == []


async def test_a_deeply_nested_body_is_refused_not_a_crash(running: Running) -> None:
    async with running.post(b'{"model":"small","messages":[],"deep":' + b"[" * 100_000) as answer:
        assert (answer.status, check(await answer.json())["code"]) == (400, "invalid_json")


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_has_a_most(running: Running, declared: bool) -> None:
    async def parts() -> Any:
        for _ in range(9):
            yield b" " * (1 << 20)

    big = b" " * (MAX_BODY_BYTES + 1) if declared else parts()
    url = f"{running.base}/v1/chat/completions"
    try:
        async with running.http.post(url, data=big, headers=running.headers) as answer:
            assert (answer.status, check(await answer.json())["code"]) == (413, "body_too_large")
    except aiohttp.ClientOSError:
        pass  # the server closed while the rest was still on its way


async def test_any_content_type_is_read_as_json(running: Running) -> None:
    async with running.post(headers={"content-type": "application/x-www-form-urlencoded"}) as answer:
        assert answer.status == 200


async def test_null_stands_for_absent(running: Running) -> None:
    body = chat(temperature=None, stop=None, stream_options=None, max_completion_tokens=None, user=None, seed=None)
    async with running.post(body) as answer:
        assert answer.status == 200


EXPIRED, EXPIRED_TOKEN = make_key(5, expires_at=time.time() - 1)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer nonsense",
        f"Bearer {make_key(9)[1]}",
        f"Bearer {make_key(1)[1]}",
        f"Bearer {EXPIRED_TOKEN}",
        "Basic YTpi",
    ],
)
@pytest.mark.parametrize("path", ["chat/completions", "models", f"models/{MODEL}"])
async def test_a_key_that_does_not_open(running: Running, authorization: str | None, path: str) -> None:
    """Missing, malformed, unknown, with a wrong secret, expired, of another scheme."""
    current = running.keeper.current
    running.keeper.change(keys={**current.keys, EXPIRED.id: EXPIRED})
    headers = {} if authorization is None else {"Authorization": authorization}
    method = "POST" if path.startswith("chat") else "GET"
    async with running.http.request(method, f"{running.base}/v1/{path}", headers=headers) as answer:
        error = check(await answer.json())
    assert (answer.status, error["type"]) == (401, "authentication_error")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_session_cookie_opens_nothing(running: Running) -> None:
    async with running.http.get(f"{running.base}/v1/models", headers={"Cookie": "sessionid=abc"}) as answer:
        assert answer.status == 401


async def test_a_key_taken_out_of_the_snapshot_stops_at_once(running: Running) -> None:
    async with running.post() as answer:
        assert answer.status == 200
    running.keeper.change(keys={})
    async with running.post() as answer:
        assert answer.status == 401


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/v1/chat/completions", 405, "POST"),
        ("DELETE", "/v1/models", 405, "GET"),
        ("POST", f"/v1/models/{MODEL}", 405, "GET"),
        ("GET", "/v1", 404, None),
        ("GET", "/v1/", 404, None),
        ("GET", "/v1/nothing/at/all", 404, None),
    ],
)
async def test_paths_and_methods(running: Running, method: str, path: str, status: int, allow: str | None) -> None:
    async with running.http.request(method, running.base + path, headers=running.headers) as answer:
        check(json.loads(await answer.text()))
    assert (answer.status, answer.headers.get("allow")) == (status, allow)


async def test_a_fault_of_ours_is_an_error_object_too(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(body: bytes) -> None:
        raise RuntimeError("inner secret")

    monkeypatch.setitem(PARSERS, CHAT, broken)
    async with running.post() as answer:
        text = await answer.text()
    assert (answer.status, check(json.loads(text))["code"]) == (500, "internal_error")
    assert "inner secret" not in text
    assert answer.headers["x-request-id"].startswith("req_")
