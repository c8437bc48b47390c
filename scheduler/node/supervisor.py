"""All replicas of this node: what is desired against what runs, again and again."""

from __future__ import annotations

import time

import structlog

from gpuruntime.protocol import Desired, LogLines, ObservedReplica
from scheduler.node.logs import LogFollower
from scheduler.node.modelcache import ModelCache
from scheduler.node.paths import StateDir, UnsafeName, safe_name
from scheduler.node.process import known_replicas
from scheduler.node.providers.base import Resident
from scheduler.node.replica import Replica, RuntimeSettings
from scheduler.node.slices.desk import SliceDesk

log = structlog.get_logger(__name__)


class Supervisor:
    """Adopts what lives when constructed. Until the first ``Desired`` it starts nothing and stops nothing.

    ``slices``: where replicas take theirs; without it a replica that needs one waits for ever.
    """

    def __init__(
        self, state: StateDir, models: ModelCache, settings: RuntimeSettings, slices: SliceDesk | None = None
    ) -> None:
        self._state = state
        self._models = models
        models.in_use = self.digests_in_use
        self._settings = settings
        self._slices = slices if slices is not None else SliceDesk()
        self._replicas: dict[str, Replica] = {}
        self._logs: dict[str, LogFollower] = {}
        self._told = False
        self.generation = 0
        for replica_id in known_replicas(state):
            replica = self._add(replica_id)
            replica.adopt()
            if replica.record is not None and replica.record.alive():
                log.info("replica adopted", replica=replica_id, pid=replica.record.pid)

    def apply(self, desired: Desired) -> bool:
        """Takes a node's desired state; False (and nothing changed) when a newer one was applied before."""
        if desired.generation < self.generation:
            log.info("older desired state ignored", generation=desired.generation, applied=self.generation)
            return False
        self.generation = desired.generation
        self._told = True
        self._slices.apply(desired.slices)
        specs = {}
        for spec in desired.replicas:
            try:
                specs[safe_name(spec.replica_id)] = spec
            except UnsafeName as error:
                log.error("replica refused", reason=str(error))
        for replica_id in specs.keys() - self._replicas.keys():
            self._add(replica_id)
        for replica_id, replica in self._replicas.items():
            replica.spec = specs.get(replica_id)
        return True

    def step(self) -> None:
        """Moves every replica on by what is possible at this moment; one that errs does not hold up the others."""
        if not self._told:
            return
        for replica_id, reason in self._slices.struck():
            if replica_id in self._replicas:
                log.warning("runtime ended", replica=replica_id, reason=reason)
                self._replicas[replica_id].strike(reason)
        now = time.monotonic()
        for replica in list(self._replicas.values()):
            try:
                replica.step(now)
            except Exception:
                log.exception("step failed", replica=replica.replica_id)
            if replica.gone:
                del self._replicas[replica.replica_id]
                del self._logs[replica.replica_id]

    def observed(self) -> list[ObservedReplica]:
        return [replica.observed() for _, replica in sorted(self._replicas.items())]

    def residents(self) -> list[Resident]:
        return [
            Resident(
                device_uuid=record.device_uuid,
                pid=record.pid,
                memory_bytes=record.memory_bytes,
                slice_uuid=record.slice_uuid,
            )
            for record in (replica.record for replica in self._replicas.values())
            if record is not None
        ]

    def digests_in_use(self) -> set[str]:
        """Models that a process reads, or that a wanted replica waits for."""
        used = {replica.record.model_digest for replica in self._replicas.values() if replica.record is not None}
        return used | {r.spec.model_digest for r in self._replicas.values() if r.spec is not None and r.spec.run}

    def log_snapshots(self) -> list[LogLines]:
        return [follower.snapshot() for follower in self._logs.values()]

    def new_log_lines(self) -> list[LogLines]:
        return [lines for lines in (follower.poll() for follower in self._logs.values()) if lines is not None]

    def _add(self, replica_id: str) -> Replica:
        replica = Replica(replica_id, self._state, self._models, self._settings, self._slices)
        self._replicas[replica_id] = replica
        self._logs[replica_id] = LogFollower(replica_id, self._state.log_file(replica_id))
        return replica
