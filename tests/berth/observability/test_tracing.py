"""One request through a gateway and a door over real HTTP, its spans received by a collector of the test's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuruntime import tracing
from helpers.collector import Collector
from helpers.door import ScriptedBackend, open_door
from helpers.http_servers import serving

PROMPT = "the-secret-question"
CLIENTS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with serving(Collector()) as server:
        yield server


async def one_request(redis_url: str, **headers: str) -> str:
    """A chat through both; the request's id."""
    from helpers.gateway import chat, make_key, make_snapshot, running_gateway

    key, token = make_key()
    async with open_door(ScriptedBackend()) as door:
        config = door.replica.config
        snapshot = make_snapshot([door.url], key, door_token=config.token, model=config.served_model_name)
        async with running_gateway(snapshot, token, redis_url) as running:
            body = chat(model=config.served_model_name, messages=[{"role": "user", "content": PROMPT}])
            async with running.post(body, headers=headers) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()
                request_id = answer.headers["x-request-id"]
        if door.replica.tracing is not None:
            door.replica.tracing.stop()
    return request_id


async def test_the_spans_of_one_request(collector: Collector, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_OTLP_ENDPOINT", collector.url)
    request_id = await one_request(redis_url, traceparent=CLIENTS)
    spans = {span["name"]: span for span in collector.spans()}
    assert set(spans) == {
        "berth.request", "admission", "route", "forward", "berth.door", "queue", "engine", "prefill", "decode",
    }  # fmt: skip
    by_id = {span["id"]: span["name"] for span in spans.values()}
    parents = {name: by_id.get(span["parent"], span["parent"]) for name, span in spans.items()}
    assert parents == {
        "berth.request": "b7ad6b7169203331",
        "admission": "berth.request",
        "route": "berth.request",
        "forward": "berth.request",
        "berth.door": "forward",
        "queue": "berth.door",
        "engine": "berth.door",
        "prefill": "engine",
        "decode": "engine",
    }
    assert {span["trace"] for span in spans.values()} == {"0af7651916cd43dd8448eb211c80319c"}
    assert spans["berth.request"]["service"] == "berth-gateway"
    assert spans["berth.door"]["service"] == "berth-runtime"
    for name in ("berth.request", "berth.door"):
        assert request_id in spans[name]["berth.request_id"]
        assert not spans[name]["error"]
    for name, span in spans.items():
        assert span["start"] <= span["end"]
        if name not in ("berth.request", "berth.door"):  # nothing lies outside its request
            assert spans["berth.request"]["start"] <= span["start"]
    text = str(list(spans.values())) + str(collector.bodies)
    assert PROMPT not in text
    assert "Bearer" not in text


async def test_a_client_that_does_not_want_to_be_traced_is_not(
    collector: Collector, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    await one_request(redis_url, traceparent=CLIENTS[:-2] + "00")
    assert collector.spans() == []


async def test_a_refused_request_is_an_error(
    collector: Collector, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from helpers.gateway import chat, make_key, make_snapshot, running_gateway

    monkeypatch.setenv("BERTH_OTLP_ENDPOINT", collector.url)
    key, token = make_key()
    async with running_gateway(make_snapshot([], key), token, redis_url) as running, running.post(chat()) as answer:
        assert answer.status == 503
    root = next(span for span in collector.spans() if span["name"] == "berth.request")
    assert root["error"]
    assert "refused" in root["berth.outcome"]


@pytest.mark.parametrize(
    ("environ", "on"),
    [
        ({}, False),
        ({"BERTH_OTLP_ENDPOINT": "http://x:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x/v1/traces"}, True),
        ({"BERTH_OTLP_ENDPOINT": "http://x:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_when_it_is_on(environ: dict[str, str], on: bool) -> None:
    assert tracing.is_on(environ) is on


def test_off_imports_nothing() -> None:
    program = (
        "import sys; sys.path[:0] = ['platform', '.'];"
        "import gpuruntime.tracing as t, gpuruntime.door.app, berth.gateway.app;"
        "assert t.start('s', 'i', {}) is None;"
        "ours = ('opentelemetry.sdk.trace', 'opentelemetry.exporter');"
        "print([name for name in sys.modules if name.startswith(ours)])"
    )
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "[]", run.stderr
