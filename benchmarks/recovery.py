"""How soon a whole Berth on this machine is ready, and whole again after something in it died.

    python benchmarks/recovery.py [--only ready,cold,revoked,replaced,outage] [--json FILE] [--check]

ready     seconds from ``manage.py up`` to "ready", of a home that was started before
cold      seconds from a runtime's start to its first token, in a process that has read nothing yet
revoked   seconds for which a key still opens after it was revoked
replaced  seconds from ``kill -9`` of one of two runtimes to two ready ones, and the slowest first token meanwhile
outage    seconds until everything answers again after ``kill -9`` of the scheduler, the agent and web in turns

The real house, database, Redis and model, as ``make run`` starts them; each is done three times and the median counts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.common.report import (
    REPOSITORY,
    Targets,
    add_only,
    conclude,
    end_on_signals,
    median,
    options_parser,
    say,
)

sys.path.insert(0, str(REPOSITORY / "tests"))

import requests

from helpers.cluster import DEPLOYMENT, Cluster, Person, is_refused, messages, running_cluster
from helpers.model import smollm2_path
from helpers.patience import eventually

ROUNDS = 3
TARGETS = {"ready": 15.0, "cold": 3.0, "revoked": 1.0, "replaced": 10.0, "outage": 10.0}
VICTIMS = {"scheduler": ("celery", "worker"), "agent": ("scheduler.node",), "web": ("manage.py", "serve")}
FIRST_TOKEN = """
import asyncio, sys
from pathlib import Path
from gpuruntime.backend import SamplingParams
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig

async def main():
    backend = NativeBackend(EngineConfig(Path(sys.argv[1])))
    await backend.start()
    prompt = await backend.prepare([{"role": "user", "content": "What is the capital of France?"}], b"")
    async for delta in backend.generate("a", prompt, SamplingParams(max_tokens=1, temperature=0)):
        print("first", flush=True)
    await backend.stop()

asyncio.run(main())
"""


class House:
    """A running cluster, its operator and the deployment that the first start made."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.operator: Person = cluster.operator()
        self.tenant = next(t["id"] for t in self.operator.get("tenants")["results"] if t["slug"] == "demo")
        rows = self.operator.get(f"deployments?tenant={self.tenant}")["results"]
        self.deployment = next(row["id"] for row in rows if row["name"] == DEPLOYMENT)
        self.key = self.new_key()["token"]

    def new_key(self) -> Any:
        return self.operator.post("keys", {"tenant": self.tenant, "name": "recovery"})

    def scale(self, replicas: int) -> None:
        self.operator.post(f"deployments/{self.deployment}/scale", {"replicas": replicas})
        eventually(lambda: len(self.ready()) == replicas, f"{replicas} replicas")

    def ready(self) -> list[dict[str, Any]]:
        return self.cluster.replicas(self.operator, self.deployment)

    def first_token_s(self) -> float:
        began = time.monotonic()
        text: Any = messages("Write a story about the sea.")
        client = self.cluster.client(self.key)
        with client.chat.completions.create(model=DEPLOYMENT, messages=text, max_tokens=8, stream=True) as stream:
            next(iter(stream))
            return time.monotonic() - began

    def answers(self) -> bool:
        return requests.get(f"{self.cluster.base}/readyz", timeout=2).ok and len(self.ready()) == 2


def since(began: float, check: Callable[[], Any], what: str) -> float:
    eventually(check, what)
    return time.monotonic() - began


def ready(house: House) -> dict[str, Any]:
    house.cluster.stop()
    (house.cluster.home.parent / "up.log").write_bytes(b"")
    seconds = house.cluster.start()
    house.operator = house.cluster.operator()
    return {"s": seconds}


def cold(_: House) -> dict[str, Any]:
    began = time.monotonic()
    command = [sys.executable, "-c", FIRST_TOKEN, str(smollm2_path())]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "first":
            raise RuntimeError("the runtime gave no token")
        return {"s": time.monotonic() - began}


def revoked(house: House) -> dict[str, Any]:
    made = house.new_key()
    client = house.cluster.client(made["token"])
    eventually(lambda: client.models.list().data, "the new key works")
    house.operator.post(f"keys/{made['key']['id']}/revoke")
    return {"s": since(time.monotonic(), lambda: is_refused(client), "the key is refused")}


def replaced(house: House) -> dict[str, Any]:
    house.scale(2)
    victim = house.ready()[0]
    os.kill(victim["pid"], signal.SIGKILL)
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        first = max(pool.map(lambda _: house.first_token_s(), range(8)))

    def whole() -> bool:
        rows = house.ready()
        return len(rows) == 2 and victim["pid"] not in [row["pid"] for row in rows]

    return {"s": since(began, whole, "a replacement serves"), "slowest_first_token_s": first}


def outage(house: House) -> dict[str, Any]:
    house.scale(2)
    took = {}
    for name, words in VICTIMS.items():
        house.cluster.process(*words).kill()
        began = time.monotonic()
        time.sleep(0.5)  # its own death is not yet seen by who asks at once
        took[name] = since(began, house.answers, f"all is as it was after the {name}")
        time.sleep(2)
    return {"s": max(took.values()), **took}


PARTS: dict[str, Callable[[House], dict[str, Any]]] = {
    "ready": ready, "cold": cold, "revoked": revoked, "replaced": replaced, "outage": outage,
}  # fmt: skip


def main() -> int:
    parser = options_parser(__doc__)
    add_only(parser, PARTS)
    options = parser.parse_args()
    end_on_signals()
    result: dict[str, Any] = {}
    targets = Targets()
    with running_cluster() as cluster:
        house = House(cluster)
        for name in options.only:
            say(name)
            runs = [PARTS[name](house) for _ in range(ROUNDS)]
            result[name] = {figure: median([run[figure] for run in runs]) for figure in runs[0]}
            targets.at_most(f"{name}, s", result[name]["s"], TARGETS[name])
            print(
                f"{name:10}" + "  ".join(f"{figure} {value:.2f}" for figure, value in result[name].items()), flush=True
            )
    return conclude(result, targets.missed, options)


if __name__ == "__main__":
    sys.exit(main())
