"""kill -9 and outages: open streams finish, no live runtime is replaced, all converges after.

The streams run through a gateway of its own (BERTH_ROLE=gateway), as in production, so that `web` may die beneath them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import openai
import psutil
import pytest
import requests

from helpers.cluster import DEPLOYMENT, REPOSITORY, Cluster, Person, free_port, messages
from helpers.patience import PATIENCE_S, eventually

from .conftest import Demo


@pytest.fixture(scope="module")
def gateway(cluster: Cluster) -> Iterator[str]:
    """The base URL of a gateway process beside `web`."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", str(port)],
        cwd=REPOSITORY,
        env=cluster.environment | {"BERTH_ROLE": "gateway"},
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    eventually(lambda: requests.get(f"{url}/readyz", timeout=2).status_code == 200, "the gateway is up")
    yield url
    process.terminate()
    process.wait(20)


@pytest.fixture(scope="module")
def two_replicas(cluster: Cluster, operator: Person, demo: Demo) -> Iterator[None]:
    operator.post(f"deployments/{demo.deployment_id}/scale", {"replicas": 2})
    eventually(lambda: len(cluster.replicas(operator, demo.deployment_id)) == 2, "two replicas are ready")
    yield
    operator.post(f"deployments/{demo.deployment_id}/scale", {"replicas": 1})
    eventually(lambda: len(cluster.replicas(operator, demo.deployment_id)) == 1, "one replica is left", every_s=0.5)


@dataclass
class Call:
    """One streamed request on a thread of its own."""

    url: str
    key: str
    max_tokens: int
    text: str = "Write a very long story about a lighthouse keeper and the sea."
    temperature: float = 0.7
    said: str = ""
    tokens: int = 0
    finish: str | None = None
    error: Exception | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.key, max_retries=0, timeout=120)
        try:
            for chunk in client.chat.completions.create(
                model=DEPLOYMENT,
                messages=messages(self.text),  # type: ignore[arg-type]
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                stream=True,
                extra_body={"ignore_eos": True},
            ):
                for choice in chunk.choices:
                    self.said += choice.delta.content or ""
                    self.tokens += bool(choice.delta.content)
                    self.finish = choice.finish_reason or self.finish
        except Exception as error:
            self.error = error

    def result(self, timeout_s: float = PATIENCE_S) -> str | None:
        self.thread.join(timeout_s)
        assert not self.thread.is_alive(), "the stream hangs"
        return self.finish


def runtime_pids(cluster: Cluster) -> dict[int, float]:
    return {p.pid: p.create_time() for p in cluster.processes() if p.cmdline()[1:4] == ["-m", "gpuruntime", "serve"]}


def open_streams(url: str, demo: Demo, count: int, max_tokens: int) -> list[Call]:
    calls = [Call(url, demo.key, max_tokens) for _ in range(count)]
    eventually(lambda: all(call.tokens > 2 for call in calls), "all streams have tokens")
    return calls


def test_a_killed_runtime_with_a_second_alive(
    cluster: Cluster, operator: Person, demo: Demo, gateway: str, two_replicas: None
) -> None:
    ready = cluster.replicas(operator, demo.deployment_id)
    victim = ready[0]
    made = operator.post("keys", {"tenant": demo.tenant_id, "name": "crashed"})
    # Different first words, so that both replicas have some of them.
    begun = [Call(gateway, made["token"], 120, f"Chapter {i}: the sea.", temperature=0) for i in range(8)]
    eventually(lambda: all(call.tokens > 2 for call in begun), "all streams have tokens")
    states: list[str] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            row = operator.get(f"replicas/{victim['id']}")
            if not states or states[-1] != row["state"]:
                states.append(row["state"])
            stop.wait(0.1)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    os.kill(victim["pid"], signal.SIGKILL)

    calls = [Call(gateway, demo.key, 8) for _ in range(12)]
    assert [call.result() for call in calls] == ["length"] * 12
    assert [call.error for call in calls] == [None] * 12

    eventually(lambda: len(cluster.replicas(operator, demo.deployment_id)) == 2, "a replacement serves")
    stop.set()
    watcher.join(PATIENCE_S)
    assert states[0] == "ready"
    assert "lost" in states, states

    assert [call.result() for call in begun] == ["length"] * 8, [call.error for call in begun]
    path = f"usage?tenant={demo.tenant_id}&key={made['key']['id']}"
    rows = eventually(lambda: len(r := operator.get(path)["results"]) == 8 and r, "all eight are posted")
    assert [(row["outcome"], row["completion_tokens"]) for row in rows] == [("completed", 120)] * 8
    explained = [operator.get(f"requests/{row['request_id']}")["sentence"] for row in rows]
    assert any("another went on with the answer" in said for said in explained), explained
    # Nobody can tell from the text which of them had lost their replica.
    again = [Call(gateway, demo.key, 120, call.text, temperature=0) for call in begun]
    assert [call.result() for call in again] == ["length"] * 8
    assert [call.said for call in begun] == [call.said for call in again]


@contextmanager
def killed(process: psutil.Process) -> Iterator[None]:
    process.kill()
    yield


@contextmanager
def stopped_for(process: psutil.Process, seconds: float) -> Iterator[None]:
    """SIGSTOP: the peer neither answers nor refuses, the worst kind of outage."""
    group = [process, *process.children(recursive=True)]
    for member in group:
        member.suspend()
    try:
        yield
        time.sleep(seconds)
    finally:
        for member in group:
            member.resume()


@dataclass(frozen=True)
class Outage:
    """``tokens``: enough for a stream to outlast it on this machine."""

    of: Callable[[Cluster], Any]
    tokens: int


OUTAGES = {
    "scheduler": Outage(lambda c: killed(c.process("celery", "worker")), 100),
    "agent": Outage(lambda c: killed(c.process("scheduler.node")), 100),
    "web": Outage(lambda c: killed(c.process("manage.py", "serve", str(c.port))), 100),
    "redis": Outage(lambda c: stopped_for(c.process("redis-server"), 20), 300),
    "postgres": Outage(lambda c: stopped_for(c.process("postgres", "-D"), 20), 300),
}


@pytest.mark.parametrize("part", list(OUTAGES))
def test_an_outage_is_survived(
    cluster: Cluster, operator: Person, demo: Demo, gateway: str, two_replicas: None, part: str
) -> None:
    before = runtime_pids(cluster)
    assert len(before) == 2
    calls = open_streams(gateway, demo, 4, max_tokens=OUTAGES[part].tokens)
    with OUTAGES[part].of(cluster):
        pass
    assert [call.result() for call in calls] == ["length"] * 4, [call.error for call in calls]

    def converged() -> bool:
        answers = requests.get(f"{cluster.base}/readyz", timeout=2).status_code == 200
        return answers and len(cluster.replicas(operator, demo.deployment_id)) == 2

    eventually(converged, "all is as it was")
    made = operator.post("keys", {"tenant": demo.tenant_id, "name": f"after {part}"})
    eventually(lambda: Call(cluster.base, made["token"], 4).result() == "length", "a new key is served by web")
    time.sleep(3)
    assert runtime_pids(cluster) == before, "no live runtime was replaced"


def test_scale_down_truncates_no_stream(
    cluster: Cluster, operator: Person, demo: Demo, gateway: str, two_replicas: None
) -> None:
    calls = open_streams(gateway, demo, 6, max_tokens=100)
    operator.post(f"deployments/{demo.deployment_id}/scale", {"replicas": 1})
    assert [call.result() for call in calls] == ["length"] * 6, [call.error for call in calls]
    eventually(lambda: len(runtime_pids(cluster)) == 1, "the drained runtime is gone")
    operator.post(f"deployments/{demo.deployment_id}/scale", {"replicas": 2})
    eventually(lambda: len(cluster.replicas(operator, demo.deployment_id)) == 2, "two replicas again")


def test_a_killed_up_is_taken_over_and_ctrl_c_leaves_nothing(
    cluster: Cluster, operator: Person, demo: Demo, gateway: str, two_replicas: None
) -> None:
    before = runtime_pids(cluster)
    calls = open_streams(gateway, demo, 3, max_tokens=120)
    assert cluster.up is not None
    cluster.up.kill()
    cluster.up.wait()
    assert [call.result() for call in calls] == ["length"] * 3, [call.error for call in calls]
    assert runtime_pids(cluster) == before

    (cluster.home.parent / "up.log").write_bytes(b"")
    cluster.start()
    assert runtime_pids(cluster) == before, "the next run adopts what lives"

    second = subprocess.run(
        [sys.executable, "manage.py", "up", "--port", str(free_port())],
        cwd=REPOSITORY,
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert second.returncode != 0
    assert str(cluster.up.pid) in second.stdout + second.stderr
    assert runtime_pids(cluster) == before, "a second run harms nothing"


def test_restart_keeps_all_state(cluster: Cluster, operator: Person, demo: Demo) -> None:
    tenants = {t["id"] for t in operator.get("tenants")["results"]}
    usage = {u["request_id"] for u in operator.get(f"usage?tenant={demo.tenant_id}")["results"]}
    gateway_children = {p.pid for p in cluster.processes() if p.environ().get("BERTH_ROLE") == "gateway"}
    cluster.stop()
    left = [p.cmdline() for p in cluster.processes() if p.pid not in gateway_children]
    assert left == [], "Ctrl-C leaves no process behind"

    (cluster.home.parent / "up.log").write_bytes(b"")
    cluster.start()
    again = cluster.operator()
    assert {t["id"] for t in again.get("tenants")["results"]} == tenants
    assert {u["request_id"] for u in again.get(f"usage?tenant={demo.tenant_id}")["results"]} == usage
    assert Call(cluster.base, demo.key, 4).result() == "length"
