"""The main job: a real model answers a tenant's question as a stream, and the answer is counted and judged."""

from __future__ import annotations

import json
import subprocess

import openai
import pytest
import requests

from helpers.cluster import DEPLOYMENT, Cluster, Person, messages
from helpers.patience import eventually

from .conftest import Demo

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


def test_the_official_client_streams_the_answer(cluster: Cluster, demo: Demo) -> None:
    stream = cluster.client(demo.key).chat.completions.create(
        model=DEPLOYMENT,
        messages=messages(QUESTION),
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    pieces, usage, reasons = [], None, []
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            reasons += [choice.finish_reason] if choice.finish_reason else []

    assert "".join(pieces) == ANSWER
    assert len([piece for piece in pieces if piece]) >= 5, "token by token, not in one piece"
    assert reasons == ["stop"]
    assert usage is not None
    assert usage.completion_tokens >= 7


def test_the_readme_curl_line_works(cluster: Cluster, demo: Demo) -> None:
    body = {"model": DEPLOYMENT, "stream": True, "temperature": 0, "messages": messages(QUESTION)}
    command = ["curl", "-sN", f"{cluster.base}/v1/chat/completions", "-d", json.dumps(body)]
    command += ["-H", f"Authorization: Bearer {demo.key}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    events = [line.removeprefix("data: ") for line in done.stdout.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    texts = [json.loads(e)["choices"][0]["delta"].get("content") or "" for e in events[:-1]]
    assert "".join(texts) == ANSWER
    assert "berth" not in done.stdout, "internal fields never reach a client that did not ask"


def test_usage_equals_what_the_client_was_told(cluster: Cluster, demo: Demo, operator: Person) -> None:
    raw = cluster.client(demo.key).chat.completions.with_raw_response.create(
        model=DEPLOYMENT, messages=messages("Count to five."), temperature=0, max_tokens=24
    )
    told, request_id = raw.parse().usage, raw.headers["x-request-id"]
    assert told is not None

    def row() -> dict[str, object]:
        rows = operator.get(f"usage?tenant={demo.tenant_id}")["results"]
        return next((r for r in rows if r["request_id"] == request_id), {})

    record = eventually(row, "the ledger has the request")
    assert (record["prompt_tokens"], record["completion_tokens"]) == (told.prompt_tokens, told.completion_tokens)
    assert record["counted_by"] == "door"
    assert record["outcome"] == "completed"


BAD = [
    ({"messages": "hi"}, 400, "messages"),
    ({"max_tokens": "many"}, 400, "max_tokens"),
    ({"temperature": 9}, 400, "temperature"),
    ({"messages": [{"role": "user", "content": "word " * 30000}]}, 400, "messages"),
    ({"model": "no-such-model"}, 404, "model"),
]


@pytest.mark.parametrize(("change", "status", "field"), BAD)
def test_bad_input_gets_one_clear_error(
    cluster: Cluster, demo: Demo, change: dict[str, object], status: int, field: str
) -> None:
    body = {"model": DEPLOYMENT, "messages": messages("hi"), "max_tokens": 4} | change
    answer = requests.post(
        f"{cluster.base}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {demo.key}"}, timeout=30
    )
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == field


def test_malformed_json_and_a_missing_key(cluster: Cluster, demo: Demo) -> None:
    url = f"{cluster.base}/v1/chat/completions"
    bad = requests.post(url, data="{not json", headers={"Authorization": f"Bearer {demo.key}"}, timeout=10)
    assert bad.status_code == 400
    assert requests.post(url, json={}, timeout=10).status_code == 401
    with pytest.raises(openai.AuthenticationError):
        cluster.client("key_wrong.secret").models.list()
