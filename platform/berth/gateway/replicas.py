"""What this gateway knows of each door at this moment: does it answer, how loaded is it. Not shared, not stored.

up   -- refused or reset connection, or it says it is loading or draining --> down
down -- its /health answers 200 (asked every 500 ms) --> up
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp

from berth.gateway.routing import Candidate, affinity_key, order
from berth.gateway.snapshot import Replica, Route, Snapshot
from gpuruntime.protocol import Load

PROBE_S = 0.5
PROBE_TIMEOUT_S = 1.0
LOAD_FRESH_S = 2.0


@dataclass(slots=True)
class _State:
    replica: Replica
    up: bool
    in_flight: int = 0
    load: Load | None = None
    load_at: float = 0.0

    def candidate(self, now: float) -> Candidate:
        replica, load = self.replica, self.load
        if load is None or now - self.load_at > LOAD_FRESH_S:
            return Candidate(replica.id, self.in_flight, replica.capacity)
        return Candidate(
            replica.id,
            max(self.in_flight, load.running + load.queued),
            load.capacity or replica.capacity,
            load.kv_free,
            load.predicted_ttft_ms,
        )


class Replicas:
    """All methods run on the event loop."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._states: dict[str, _State] = {}
        self._by_deployment: dict[str, tuple[str, ...]] = {}

    def sync(self, snapshot: Snapshot) -> None:
        """Takes over a new snapshot. A door keeps its state while its address is the same."""
        states: dict[str, _State] = {}
        for replicas in snapshot.replicas.values():
            for replica in replicas:
                old = self._states.get(replica.id)
                if old is None or old.replica.url != replica.url:
                    states[replica.id] = _State(replica, up=replica.ready)
                    continue
                if replica.ready and not old.replica.ready:
                    old.up = True
                old.replica = replica
                states[replica.id] = old
        self._states = states
        self._by_deployment = {d: tuple(r.id for r in rs) for d, rs in snapshot.replicas.items()}

    def counts(self) -> tuple[int, int]:
        """How many doors answer, and how many do not."""
        ups = sum(state.up for state in self._states.values())
        return ups, len(self._states) - ups

    def any_up(self, deployment_id: str) -> bool:
        return any(self._states[i].up for i in self._by_deployment.get(deployment_id, ()))

    def has_room(self, deployment_id: str) -> bool:
        """Whether some door, as last heard of, would start another request at once."""
        now = time.monotonic()
        states = (self._states[i] for i in self._by_deployment.get(deployment_id, ()))
        ups = (state.candidate(now) for state in states if state.up)
        return any(door.load < door.capacity for door in ups)

    def choose(self, route: Route, affinity: bytes, tried: set[str]) -> Replica | None:
        """The best door that answers and was not tried."""
        now = time.monotonic()
        states = [self._states[i] for i in self._by_deployment.get(route.deployment_id, ()) if i not in tried]
        ups = [state for state in states if state.up]
        if len(ups) == 1:
            return ups[0].replica
        key = affinity_key(route.tenant_id, affinity)
        ranked = order(key, [state.candidate(now) for state in ups], route.level.base_ms)
        return self._states[ranked[0]].replica if ranked else None

    @contextlib.contextmanager
    def carrying(self, replica: Replica) -> Iterator[None]:
        """Counts one request towards the replica's load."""
        state = self._states.get(replica.id)
        if state is not None:
            state.in_flight += 1
        try:
            yield
        finally:
            if state is not None:
                state.in_flight -= 1

    def saw_load(self, replica: Replica, header: str | None) -> None:
        state = self._states.get(replica.id)
        if state is not None and header and (load := Load.parse(header)) is not None:
            state.load, state.load_at = load, time.monotonic()

    def eject(self, replica: Replica) -> None:
        """It refused or broke a connection, or said it takes none: out until it answers a probe."""
        state = self._states.get(replica.id)
        if state is not None and state.replica.url == replica.url:
            state.up = False
            state.load = None

    async def probe_forever(self) -> None:
        while True:
            await asyncio.sleep(PROBE_S)
            down = [state for state in self._states.values() if not state.up]
            await asyncio.gather(*(self.probe(state.replica) for state in down))

    async def probe(self, replica: Replica) -> bool:
        """Whether the door is ready; brings it back when it is."""
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
        try:
            async with self._session.get(f"{replica.url}/health", timeout=timeout) as answer:
                ready = answer.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        state = self._states.get(replica.id)
        if ready and state is not None and state.replica.url == replica.url:
            state.up = True
        return ready
