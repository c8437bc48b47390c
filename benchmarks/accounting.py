"""Whether usage stays exact, to the token, whatever dies: records against the doors' counts, difference 0.

    python benchmarks/accounting.py [--only disconnects,gateway,database] [--json FILE] [--check]

disconnects  1,000 clients that close their connection at a random point: no lease, open request or generation is left
gateway      kill -9 of a gateway with 100 streams: exactly one record each
database     PostgreSQL crashes and stays away for 60 s under load

The real house, database, Redis and model, as ``make run`` starts them. After each part the doors' own sums
(``/usage/reconciliation``) are compared with the records: requests, prompt, cached and output tokens.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil

from benchmarks.common.report import REPOSITORY, add_only, conclude, end_on_signals, options_parser, say

sys.path.insert(0, str(REPOSITORY / "tests"))

import redis
import requests

from berth.embedded.paths import redis_url
from berth.live import names
from helpers.cluster import DEPLOYMENT, Cluster, Person, free_port, messages, running_cluster
from helpers.patience import eventually

DISCONNECTS = 1000
AT_ONCE = 24
LATEST_S = 1.5
STREAMS = 100
AWAY_S = 60.0
SETTLE_S = 240.0
SIDES = ("doors", "records", "loose", "waiting", "difference")


class House:
    """A running cluster and its operator; a key for each part, so that its records can be told apart."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.operator: Person = cluster.operator()
        self.tenant = next(t["id"] for t in self.operator.get("tenants")["results"] if t["slug"] == "demo")
        rows = self.operator.get(f"deployments?tenant={self.tenant}")["results"]
        self.deployment = next(row["id"] for row in rows if row["name"] == DEPLOYMENT)
        self.store = redis.Redis.from_url(redis_url(cluster.home), decode_responses=True)

    def new_key(self) -> tuple[str, str]:
        """(id, token), known to every gateway."""
        made = self.operator.post("keys", {"tenant": self.tenant, "name": "counted"})
        client = self.cluster.client(made["token"])
        eventually(lambda: client.models.list().data, "the new key works")
        return made["key"]["id"], made["token"]

    def records(self, key_id: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        page = self.operator.get(f"usage?key={key_id}&page_size=200")
        while True:
            rows += page["results"]
            if not page["next"]:
                return rows
            page = self.operator.get(page["next"].partition("/api/v1/")[2])

    def settled(self) -> dict[str, Any]:
        """The reconciliation, once nothing is open, waits or is to be joined yet."""

        def found() -> dict[str, Any] | None:
            if self.store.scard(names.OPEN_REQUESTS) or self.store.xlen(names.USAGE_STREAM):
                return None
            if self.store.xlen(names.ENDED_STREAM):
                return None
            return dict(self.operator.get("usage/reconciliation"))

        return dict(eventually(found, "all is booked", patience_s=SETTLE_S, every_s=0.5))

    def engine(self) -> dict[str, int]:
        """What runs and waits at the replica, by its last report."""
        (replica,) = self.cluster.replicas(self.operator, self.deployment)
        told = json.loads(self.store.get(names.stats(replica["id"])) or "{}")
        return {name: told[name] for name in ("running", "queued")}

    def leases(self) -> int:
        """Places of tenants, keys and contracts that are held now."""
        return sum(self.store.zcard(key) for key in self.store.scan_iter("berth:limit:*:leases"))


def body(max_tokens: int) -> dict[str, Any]:
    text = messages(f"{random.random()} Write a very long story about the sea.")
    return {"model": DEPLOYMENT, "stream": True, "max_tokens": max_tokens, "messages": text}


def leave_at_random(house: House, token: str, max_tokens: int = 60) -> None:
    """Sends a request and closes the connection at some moment: before, while or after it is answered."""
    data = json.dumps(body(max_tokens)).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", house.cluster.port), timeout=30) as connection:
        connection.sendall(head.encode() + data)
        until = time.monotonic() + random.uniform(0, LATEST_S)
        with contextlib.suppress(TimeoutError):
            while (left := until - time.monotonic()) > 0:
                connection.settimeout(left)
                if not connection.recv(65536):
                    return


def disconnects(house: House) -> dict[str, Any]:
    key_id, token = house.new_key()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda _: leave_at_random(house, token), range(DISCONNECTS)))
    found = house.settled()
    eventually(lambda: house.engine()["running"] == 0, "the engine is idle")
    after = house.engine()
    outcomes: dict[str, int] = {}
    for row in house.records(key_id):
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
    left = {"running": after["running"], "queued": after["queued"], "leases": house.leases()}
    return {"outcomes": outcomes, "left": {**left, "open": found["open_requests"]}, **sums(found)}


@contextlib.contextmanager
def own_gateway(house: House) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A gateway process beside ``web``, and its address."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", str(port)],
        cwd=REPOSITORY,
        env=house.cluster.environment | {"BERTH_ROLE": "gateway"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        base = f"http://127.0.0.1:{port}"
        eventually(lambda: requests.get(f"{base}/readyz", timeout=2).ok, "the gateway is up")
        yield process, base
    finally:
        process.kill()
        process.wait()


def read(base: str, token: str, max_tokens: int, seen: list[int], index: int) -> None:
    """Counts the pieces of one stream into ``seen[index]``, to its end, whatever that is."""
    headers = {"Authorization": f"Bearer {token}"}
    with contextlib.suppress(requests.RequestException):
        url = f"{base}/v1/chat/completions"
        with requests.post(url, json=body(max_tokens), headers=headers, stream=True, timeout=300) as answer:
            for line in answer.iter_lines():
                seen[index] += line.startswith(b"data: {")


def gateway(house: House) -> dict[str, Any]:
    key_id, token = house.new_key()
    seen = [0] * STREAMS
    with own_gateway(house) as (process, base):
        readers = [
            threading.Thread(target=read, args=(base, token, 400, seen, index), daemon=True) for index in range(STREAMS)
        ]
        for reader in readers:
            reader.start()
        eventually(lambda: house.store.scard(names.OPEN_REQUESTS) == STREAMS, "all streams are open")
        eventually(lambda: sum(n > 0 for n in seen) >= STREAMS // 8, "some of them have tokens")
        process.send_signal(signal.SIGKILL)
        for reader in readers:
            reader.join(60)
    found = house.settled()
    rows = house.records(key_id)
    return {
        "streams": STREAMS,
        "with_tokens": sum(n > 0 for n in seen),
        "records": len({row["request_id"] for row in rows}),
        "outcomes": {name: sum(row["outcome"] == name for row in rows) for name in {row["outcome"] for row in rows}},
        **sums(found),
    }


def database(house: House) -> dict[str, Any]:
    """Its backends are killed and its postmaster is held, so that no connection lives and none can be made."""
    key_id, token = house.new_key()
    stop = threading.Event()
    done = [0] * 4

    def load(index: int) -> None:
        while not stop.is_set():
            read(house.cluster.base, token, 24, done, index)

    readers = [threading.Thread(target=load, args=(index,), daemon=True) for index in range(len(done))]
    for reader in readers:
        reader.start()
    time.sleep(2)
    before = sum(done)
    postmaster = house.cluster.process("postgres", "-D")
    postmaster.suspend()
    try:
        for backend in postmaster.children():
            with contextlib.suppress(psutil.Error):
                backend.send_signal(signal.SIGKILL)
        time.sleep(AWAY_S)
        during = sum(done) - before
    finally:
        postmaster.resume()
    time.sleep(5)
    stop.set()
    for reader in readers:
        reader.join(120)
    eventually(lambda: house.operator.status("GET", "me") == 200, "the database is back")
    found = house.settled()
    return {"away_s": AWAY_S, "tokens_while_away": during, "records": len(house.records(key_id)), **sums(found)}


def sums(found: dict[str, Any]) -> dict[str, Any]:
    alone: dict[str, int] = {}
    for row in found["rows"]:
        for one in row["gateway_only"]:
            name = f"{one['why']}:{one['outcome']}"
            alone[name] = alone.get(name, 0) + one["requests"]
    return {"counted": {side: found["total"][side] for side in SIDES}, "gateway_only": alone}


PARTS: dict[str, Callable[[House], dict[str, Any]]] = {
    "disconnects": disconnects, "gateway": gateway, "database": database,
}  # fmt: skip


def missed(name: str, found: dict[str, Any]) -> Iterator[str]:
    for what, value in found["counted"]["difference"].items():
        if value:
            yield f"{name}: difference of {value} {what}"
    for what, value in found.get("left", {}).items():
        if value:
            yield f"{name}: {value} {what} left"
    if name == "gateway" and found["records"] != STREAMS:
        yield f"{name}: {found['records']} records of {STREAMS} streams"


def main() -> int:
    parser = options_parser(__doc__)
    add_only(parser, PARTS)
    options = parser.parse_args()
    end_on_signals()
    result: dict[str, Any] = {}
    wrong: list[str] = []
    with running_cluster() as cluster:
        house = House(cluster)
        eventually(lambda: cluster.replicas(house.operator, house.deployment), "a replica serves", patience_s=SETTLE_S)
        for name in options.only:
            say(name)
            result[name] = PARTS[name](house)
            wrong += missed(name, result[name])
            print(f"{name}: {json.dumps(result[name])}", flush=True)
    return conclude(result, wrong, options)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "berth.settings")
    sys.exit(main())
