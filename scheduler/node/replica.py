"""One replica on this node: brought to what is desired in small repeatable steps.

    wanted:    fetch the model -> take its slice -> spawn -> (loading -> ready, by the runtime's run file)
               died -> wait, take, spawn again
    unwanted:  SIGTERM once, the runtime finishes its streams -> (too long: SIGKILL of its session) -> stopped

``step`` is called several times a second and never blocks; every state it leaves is on disk or read again from there.
"""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from gpuruntime.protocol import ObservedReplica, ReplicaSpec, RunFile, RuntimeConfig
from scheduler.node import process
from scheduler.node.modelcache import ModelCache, ModelError
from scheduler.node.paths import StateDir
from scheduler.node.process import ProcessRecord
from scheduler.node.slices.desk import SliceDesk
from scheduler.node.slices.model import Grant, SliceNotReady

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 60.0
# Ready for this long, a replica has recovered: the next crash counts as the first.
RECOVERED_S = 60.0
# A runtime bounds its own drain, then flushes what it counted; only one that overruns this much is killed.
DRAIN_SLACK_S = 8.0
# A second SIGTERM means "at once", so an agent that adopts a draining runtime first lets it act on the one it had.
SIGNAL_ACTS_WITHIN_S = 1.0


@dataclass(frozen=True)
class RuntimeSettings:
    """What all runtimes of a node share. ``command`` reads a ``RuntimeConfig`` from stdin."""

    command: list[str]
    control_url: str
    host: str


@dataclass
class Wait:
    """Why a wanted replica does not run yet, and when the next try is due. ``failures`` in a row set the pause."""

    reason: str = "Waiting for the agent"
    due: float = 0.0
    failures: int = 0

    def failed(self, reason: str, now: float) -> None:
        self.failures += 1
        pause = backoff_s(self.failures)
        self.reason, self.due = f"{reason}; next try {pause:g} s after it", now + pause


def backoff_s(failures: int) -> float:
    """0.5 s after the first failure, doubled by each further one in a row, at most 60 s."""
    return float(min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(failures - 1, 16)))


@dataclass
class Replica:
    replica_id: str
    state: StateDir
    models: ModelCache
    settings: RuntimeSettings
    slices: SliceDesk
    spec: ReplicaSpec | None = None
    record: ProcessRecord | None = None
    child: subprocess.Popen[bytes] | None = None
    wait: Wait = field(default_factory=Wait)
    restarts: int = 0
    progress: float | None = None
    _fetch: asyncio.Task[Path] | None = None
    _ready_since: float | None = None
    _lost: bool = False
    _told_to_stop: bool = False
    _settled: bool = False
    # What its last process said at its end, where that was no clean one.
    _parting: str = ""
    # Why this agent killed its process, so that the restart says it.
    _struck: str = ""

    @property
    def wanted(self) -> bool:
        return self.spec is not None and self.spec.run

    @property
    def gone(self) -> bool:
        """Nothing runs and nothing is asked for: the supervisor may drop it."""
        return self.record is None and self.spec is None

    def adopt(self) -> None:
        """Takes up what an earlier agent left: a live process, or the note of one that died since."""
        self.record = process.read_record(self.state, self.replica_id)
        if self.record is None:
            process.forget(self.state, self.replica_id)
            return
        self.restarts = self.record.restarts
        if self.record.pid == 0:  # it crashed, and the agent died before it started it again
            self.record = None
        elif self.record.slice_id:
            self.slices.seated(self.record.slice_id, self.replica_id, self.record.pid)

    def strike(self, reason: str) -> None:
        """Ends its process, which has gone wrong though it may not know it; what follows is as after a crash."""
        if self.record is not None and self.record.alive():
            self._struck = reason
            process.kill(self.record)

    def step(self, now: float) -> None:
        self._notice_end(now)
        if self.record is not None:
            if self.wanted and self.record.drain_since is None:
                self._notice_recovery(now)
            else:
                self._drain(self.record, now)
        elif self.wanted and now >= self.wait.due:
            self._start(now)
        elif not self.wanted and not self._settled:
            self._settle()

    # --- ends -------------------------------------------------------------------------------------------------------

    def _notice_end(self, now: float) -> None:
        if self.record is None:
            return
        ending: str | None
        if self.child is not None:
            ending = process.exit_of(self.child)
        else:
            ending = None if self.record.alive() else "found dead"
        if ending is None:
            return
        process.sweep_session(self.record)
        ending, self._struck = self._struck or ending, ""
        self.slices.leave(self.record.slice_id, self.replica_id)
        if self.wanted and self.record.drain_since is None:
            self._crashed(self.record, ending, now)
        else:
            run = self._own_run_file()
            self._parting = run.reason if run is not None and run.state == "stopped" else ""
            process.forget(self.state, self.replica_id)
        self.record, self.child, self._ready_since, self._told_to_stop = None, None, None, False

    def _settle(self) -> None:
        """Nothing runs and nothing is wanted: no trace is left to adopt or to wait for."""
        if self._fetch is not None:
            self._fetch.cancel()
        process.forget(self.state, self.replica_id)
        self._fetch, self.progress, self.restarts, self.wait, self._settled = None, None, 0, Wait(), True

    def _crashed(self, record: ProcessRecord, ending: str, now: float) -> None:
        run = self._own_run_file()
        said = run.reason if run is not None and run.state == "failed" and run.reason else ""
        if not said and ending.startswith("exit code"):  # whatever else ended it, its last line does not say why
            said = process.last_log_line(self.state.log_file(self.replica_id))
        self._lost = self._ready_since is not None or (run is not None and run.state == "ready")
        self.restarts += 1
        pause = backoff_s(self.restarts)
        self.wait.due = now + pause
        reason = f"The runtime ended ({ending})" + (f": {said}" if said else "")
        self.wait.reason = f"{reason}; restart {self.restarts} follows {pause:g} s later"
        # One crash counts once, also for an agent that starts before the restart is due.
        record.pid, record.start_time, record.restarts = 0, 0.0, self.restarts
        process.write_record(self.state, record)

    def _notice_recovery(self, now: float) -> None:
        assert self.record is not None
        run = self._own_run_file()
        if run is None or run.state != "ready":
            self._ready_since = None
        elif self._ready_since is None:
            self._ready_since = now
        elif self.restarts and now - self._ready_since >= RECOVERED_S:
            self.restarts = self.record.restarts = 0
            process.write_record(self.state, self.record)

    def _drain(self, record: ProcessRecord, now: float) -> None:
        timeout_s = self.spec.drain_timeout_s if self.spec is not None else record.drain_timeout_s
        if record.drain_since is None:
            record.drain_since = now
            process.write_record(self.state, record)
            process.terminate(record)
            self._told_to_stop = True
        elif not self._told_to_stop and now - record.drain_since > SIGNAL_ACTS_WITHIN_S:
            # The agent before may have died between its note and the signal.
            self._told_to_stop = True
            run = self._own_run_file()
            if run is None or run.state in ("loading", "ready"):
                process.terminate(record)
        elif now - record.drain_since > timeout_s + DRAIN_SLACK_S:
            process.kill(record)

    # --- starts -----------------------------------------------------------------------------------------------------

    def _start(self, now: float) -> None:
        assert self.spec is not None
        self._settled, self._parting = False, ""
        try:
            model = self._model(self.spec)
            if model is None:
                return
            grant = self.slices.take(self.spec.slice_id, self.replica_id) if self.spec.slice_id else None
            self._spawn(self.spec, model, grant)
        except SliceNotReady as error:
            self.wait.reason = str(error)
        except ModelError as error:
            self.wait.failed(str(error), now)
        except (OSError, ValueError) as error:
            self.slices.leave(self.spec.slice_id, self.replica_id)
            self.wait.failed(f"The runtime could not be started: {error}", now)

    def _model(self, spec: ReplicaSpec) -> Path | None:
        """The model's folder; None while it is on its way. Raises ``ModelError``."""
        if self._fetch is not None:
            if not self._fetch.done():
                return None
            task, self._fetch, self.progress = self._fetch, None, None
            return task.result()
        found = self.models.find(spec.model_digest, spec.model_files)
        if found is None:
            self.progress = 0.0
            self._fetch = asyncio.create_task(
                self.models.fetch(spec.model_digest, spec.model_files, spec.model_bytes, self._set_progress)
            )
        return found

    def _spawn(self, spec: ReplicaSpec, model: Path, grant: Grant | None) -> None:
        spool = self.state.spool(self.replica_id)
        spool.mkdir(mode=0o700, exist_ok=True)
        config = RuntimeConfig(
            replica_id=spec.replica_id,
            deployment=spec.deployment,
            model_path=str(model),
            served_model_name=spec.served_model_name,
            token=spec.token,
            run_file=str(self.state.run_file(spec.replica_id)),
            control_url=self.settings.control_url,
            spool_dir=str(spool),
            cache_dir=str(self.state.cache),
            host=self.settings.host,
            drain_timeout_s=spec.drain_timeout_s,
            device_uuid=grant.device_uuid if grant is not None else spec.device_uuid,
            device_share=spec.device_share,
            device_memory_bytes=grant.memory_bytes if grant is not None else 0,
            engine=spec.engine,
        )
        record = ProcessRecord(
            replica_id=spec.replica_id,
            pid=0,
            start_time=0.0,
            boot_id="",
            restarts=self.restarts,
            drain_timeout_s=spec.drain_timeout_s,
            device_uuid=spec.device_uuid,
            slice_id=spec.slice_id,
            slice_uuid=grant.device_uuid if grant is not None and grant.device_uuid != spec.device_uuid else "",
            memory_bytes=spec.memory_bytes,
            model_digest=spec.model_digest,
        )
        environment = grant.environment if grant is not None else {}
        self.child = process.spawn(self.state, record, self.settings.command, msgspec.json.encode(config), environment)
        self.record = record
        if grant is not None:
            self.slices.seated(spec.slice_id, self.replica_id, record.pid)
        self._lost = False
        self.wait.failures = 0

    def _set_progress(self, value: float) -> None:
        self.progress = round(value, 3)

    # --- reports ----------------------------------------------------------------------------------------------------

    def _own_run_file(self) -> RunFile | None:
        """What this very process wrote; a file of an earlier one says nothing."""
        if self.record is None:
            return None
        run = process.read_run_file(self.state.run_file(self.replica_id))
        return run if run is not None and run.pid == self.record.pid else None

    def observed(self) -> ObservedReplica:
        if self.record is not None:
            return self._observed_process(self.record)
        # Stopped and draining by wish: who wished it knows the reason, and keeps it when none is given here. One is
        # given where the end was no clean one: which requests it cut off.
        found = ObservedReplica(
            replica_id=self.replica_id, state="stopped", restarts=self.restarts, reason=self._parting
        )
        if self._fetch is not None and self.progress is not None:
            found.state, found.progress = "placing", self.progress
            found.reason = f"Fetching the model: {self.progress:.0%}"
        elif self.wanted:
            failed = self.restarts > 0 or self.wait.failures > 0
            # What served and died is lost, until it is started again; what never came up has failed.
            broken: Literal["lost", "failed"] = "lost" if self._lost else "failed"
            found.state, found.reason = (broken if failed else "placing"), self.wait.reason
        return found

    def _observed_process(self, record: ProcessRecord) -> ObservedReplica:
        run = self._own_run_file()
        found = ObservedReplica(
            replica_id=self.replica_id,
            state="loading",
            reason="The runtime is starting",
            alive=record.alive(),
            pid=record.pid,
            restarts=self.restarts,
        )
        if run is not None:
            found.state, found.reason, found.port, found.epoch = run.state, run.reason, run.port, run.epoch
            found.memory_bytes = run.memory_bytes
        if found.state == "ready" and not found.alive:  # its file outlived it, and the next step takes it up
            found.state, found.reason, found.port = "lost", "The runtime was found dead", 0
        if record.drain_since is not None:
            found.state, found.reason = "draining", ""
        elif found.state == "stopped":
            found.state, found.reason = "draining", "The runtime is ending"
        return found
