"""Usage equals what the door counted: finished, stopped, disconnected and crashed requests, difference 0."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis
import requests

from berth.embedded.paths import redis_url
from helpers.cluster import DEPLOYMENT, Cluster, Person, messages
from helpers.patience import PATIENCE_S, eventually

from .conftest import Demo


@pytest.fixture
def fresh_key(demo: Demo, operator: Person) -> Iterator[dict[str, Any]]:
    """A key of its own, so that a test can add up its usage."""
    made = operator.post("keys", {"tenant": demo.tenant_id, "name": "counted"})
    yield made
    operator.post(f"keys/{made['key']['id']}/revoke")


def stream(cluster: Cluster, token: str, **body: Any) -> requests.Response:
    full = {
        "model": DEPLOYMENT,
        "stream": True,
        "messages": messages("Tell me a long story about the sea."),
        "temperature": 0,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    return requests.post(
        f"{cluster.base}/v1/chat/completions",
        json=full | body,
        headers={"Authorization": f"Bearer {token}"},
        stream=True,
        timeout=120,
    )


def frames(answer: requests.Response) -> Iterator[dict[str, Any]]:
    for line in answer.iter_lines():
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def usage_of(operator: Person, demo: Demo, key_id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = operator.get(f"usage?tenant={demo.tenant_id}&key={key_id}&page_size=200")["results"]
    return rows


def test_finished_stopped_and_disconnected(
    cluster: Cluster, demo: Demo, operator: Person, fresh_key: dict[str, Any]
) -> None:
    token = fresh_key["token"]
    eventually(lambda: stream(cluster, token, max_tokens=1).status_code == 200, "the key works")

    with closing(stream(cluster, token, max_tokens=12)) as finished:
        told = [f["usage"]["completion_tokens"] for f in frames(finished) if f.get("usage")]
        finished_tokens = told[-1]
    with closing(stream(cluster, token, max_tokens=200, stop=["the"])) as stopped:
        stopped_tokens = [f["usage"]["completion_tokens"] for f in frames(stopped) if f.get("usage")][-1]
    with closing(stream(cluster, token, max_tokens=400)) as left:
        seen = 0
        for frame in frames(left):
            seen = (frame.get("usage") or {}).get("completion_tokens", seen)
            if seen >= 10:
                break

    rows = eventually(
        lambda: len(r := usage_of(operator, demo, fresh_key["key"]["id"])) >= 4 and r, "four records are posted"
    )
    by_outcome: dict[str, list[int]] = {}
    for row in rows:
        assert row["counted_by"] == "door"
        by_outcome.setdefault(row["outcome"], []).append(row["completion_tokens"])
    assert sorted(by_outcome["completed"]) == sorted([1, finished_tokens, stopped_tokens])
    (gone,) = by_outcome["client_left"]
    assert seen <= gone < 400, "the generation was cancelled, and what was generated is paid for"


def test_a_killed_gateway_loses_no_token_of_fifty_streams(
    cluster: Cluster, demo: Demo, operator: Person, fresh_key: dict[str, Any]
) -> None:
    count = 50
    first = [0] * count

    def read(index: int) -> None:
        try:
            with closing(stream(cluster, fresh_key["token"], max_tokens=300)) as answer:
                for frame in frames(answer):
                    first[index] = (frame.get("usage") or {}).get("completion_tokens", first[index])
        except requests.RequestException:
            pass

    eventually(lambda: stream(cluster, fresh_key["token"], max_tokens=1).status_code == 200, "the key works")
    readers = [threading.Thread(target=read, args=(i,), daemon=True) for i in range(count)]
    with DoorCounts(cluster) as counted:
        for reader in readers:
            reader.start()
        eventually(lambda: sum(n > 0 for n in first) >= 30, "most streams have tokens")
        cluster.process("manage.py", "serve").kill()
        for reader in readers:
            reader.join(60)
        rows = eventually(
            lambda: len(r := usage_of(operator, demo, fresh_key["key"]["id"])) >= count + 1 and r,
            "all fifty are posted",
            every_s=0.5,
        )

    billed = {row["request_id"]: row["completion_tokens"] for row in rows}
    assert len(billed) == count + 1
    at_doors = {request: tokens for request, tokens in counted.items() if request in billed}
    assert len(at_doors) >= 30, "those that had tokens ended at a door"
    assert {request: billed[request] for request in at_doors} == at_doors
    # The rest never reached a door, or ended before the watch began: nothing was generated but for the probe's token.
    assert sum(billed.values()) - sum(at_doors.values()) <= 1
    assert sum(billed.values()) >= sum(first)
    time.sleep(4)
    assert len(usage_of(operator, demo, fresh_key["key"]["id"])) == count + 1, "posted once"


class DoorCounts:
    """What the doors say on their way to the ledger, read beside it: request id -> tokens."""

    def __init__(self, cluster: Cluster) -> None:
        self._client = redis.Redis.from_url(redis_url(cluster.home))
        self._tokens: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> dict[str, int]:
        self._thread.start()
        return self._tokens

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        self._client.close()

    def _read(self) -> None:
        last = self._client.xinfo_stream("berth:ended")["last-generated-id"]
        while not self._stop.is_set():
            for _, entries in self._client.xread({"berth:ended": last}, block=200) or []:
                for last, fields in entries:  # noqa: B007  (the next read goes on behind it)
                    ended = json.loads(fields[b"request"])
                    self._tokens[ended["request_id"]] = ended["completion_tokens"]
