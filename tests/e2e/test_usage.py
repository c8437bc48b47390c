"""Usage equals what the door counted: finished, stopped, disconnected and crashed requests, difference 0."""

from __future__ import annotations

import csv
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import redis
import requests
from playwright.sync_api import Browser, expect, sync_playwright

from berth.embedded.paths import redis_url
from helpers.cluster import DEPLOYMENT, Cluster, Person, messages
from helpers.console import opened, sign_in
from helpers.patience import PATIENCE_S, eventually

from .conftest import Demo
from .test_console import CHROMIUM


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


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        yield launched
        launched.close()


def test_the_page_shows_what_is_charged_and_that_it_is_what_the_doors_counted(
    browser: Browser, cluster: Cluster, demo: Demo, operator: Person, fresh_key: dict[str, Any]
) -> None:
    """Attainment and good tokens beside tokens and cost; the chargeback of the month adds up to the same."""
    eventually(lambda: stream(cluster, fresh_key["token"], max_tokens=4).status_code == 200, "the key works")
    key = fresh_key["key"]["id"]
    eventually(lambda: usage_of(operator, demo, key), "its record is posted")
    eventually(lambda: not operator.get("usage/reconciliation")["open_requests"], "nothing is open")
    secret = (cluster.home / "secrets" / "operator_password").read_text().strip()
    with opened(browser, cluster.base) as page:
        sign_in(page, "operator@berth.local", secret)
        page.goto(f"/t/demo/usage?key={key}&by=key&range=24h")
        total = operator.get(f"usage/summary?tenant={demo.tenant_id}&key={key}&group=key")["total"]
        good = f"{100 * total['good'] / total['offered']:.0f}"
        expect(page.get_by_test_id("usage-requests")).to_contain_text(re.compile(rf"\b{good}(\.\d+)?\s?% good"))
        expect(page.get_by_test_id("usage-output")).to_contain_text("in time")
        head = page.get_by_test_id("usage-table").get_by_role("columnheader")
        for name in ("Good", "Output", "In time", "Cost"):
            expect(head.filter(has_text=name).first).to_be_visible()
        expect(page.get_by_test_id("reconciled")).to_contain_text("Records equal the doors' counts")
        page.get_by_test_id("usage-export").click()
        with page.expect_download() as download:
            page.get_by_test_id("chargeback-0").click()
        lines = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert {line["key"] for line in lines} == {key}
    for name in ("requests", "good", "completion_tokens", "good_tokens", "cost"):
        assert sum(Decimal(line[name]) for line in lines) == Decimal(str(total[name]))


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
