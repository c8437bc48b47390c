"""A supervisor over stand-in processes, stepped by hand in real time."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuruntime.protocol import Desired, EngineSettings, ObservedReplica, ReplicaSpec
from helpers.patience import PATIENCE_S
from scheduler.node.modelcache import ModelCache
from scheduler.node.paths import StateDir
from scheduler.node.replica import RuntimeSettings
from scheduler.node.slices.desk import SliceDesk
from scheduler.node.supervisor import Supervisor

MODEL = {"config.json": b"{}"}
DIGEST = "d1"
STAND_IN = Path(__file__).parents[1] / "scheduler" / "node" / "stand_in.py"


def make_spec(replica_id: str = "rep_1", *args: str, **changes: Any) -> ReplicaSpec:
    values: dict[str, Any] = {
        "replica_id": replica_id,
        "deployment": "dep",
        "served_model_name": "tiny",
        "run": True,
        "token": "secret",
        "model_digest": DIGEST,
        "model_files": {name: hashlib.sha256(data).hexdigest() for name, data in MODEL.items()},
        "model_bytes": sum(len(data) for data in MODEL.values()),
        "device_uuid": "dev",
        "memory_bytes": 1000,
        "engine": EngineSettings(extra_args=list(args)),
        "drain_timeout_s": 5.0,
    }
    return ReplicaSpec(**{**values, **changes})


class Bench:
    """A state folder with its model in place, and one supervisor after another over it."""

    def __init__(self, root: Path) -> None:
        self.state = StateDir(root)
        self.state.create()
        for name, data in MODEL.items():
            (self.state.models / DIGEST).mkdir(exist_ok=True)
            (self.state.models / DIGEST / name).write_bytes(data)
        self.command = [sys.executable, str(STAND_IN)]
        self.generation = 0
        self.supervisor = self.new_supervisor()

    def new_supervisor(self, slices: SliceDesk | None = None) -> Supervisor:
        """As after the agent's death: nothing is carried over but the folder."""
        cache = ModelCache(self.state.models, base_url="http://127.0.0.1:1", headers={})
        settings = RuntimeSettings(command=self.command, control_url="", host="127.0.0.1")
        self.supervisor = Supervisor(self.state, cache, settings, slices)
        return self.supervisor

    def want(self, *specs: ReplicaSpec) -> None:
        self.generation += 1
        assert self.supervisor.apply(Desired(generation=self.generation, replicas=list(specs)))

    def seen(self, replica_id: str = "rep_1") -> ObservedReplica | None:
        return next((found for found in self.supervisor.observed() if found.replica_id == replica_id), None)

    def log(self, replica_id: str = "rep_1") -> str:
        return self.state.log_file(replica_id).read_text()

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"not in time: {self.supervisor.observed()}"
            self.supervisor.step()
            time.sleep(0.02)

    def until_state(self, state: str, replica_id: str = "rep_1") -> ObservedReplica:
        def reached() -> bool:
            found = self.seen(replica_id)
            return found is not None and found.state == state

        self.until(reached)
        found = self.seen(replica_id)
        assert found is not None
        return found
