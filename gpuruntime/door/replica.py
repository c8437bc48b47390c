"""What a replica's process is at this moment: its state, its engine, its queue; and the file that tells the agent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from gpuruntime import tracing
from gpuruntime.backend import Backend, BackendInfo, BackendStats
from gpuruntime.door.admission import Admission
from gpuruntime.door.counting import Counter
from gpuruntime.door.errors import ApiError
from gpuruntime.door.metrics import Metrics
from gpuruntime.door.seen import SeenBlocks
from gpuruntime.door.spool import Spool
from gpuruntime.process import process_start_time, resident_bytes
from gpuruntime.protocol import Load, ReplicaState, RunFile, RuntimeConfig

if TYPE_CHECKING:
    from gpuruntime.door.counting import Account

log = logging.getLogger("gpuruntime.replica")


class Active(Protocol):
    """A request that was let in: ``run.Run``, ``embeddings.EmbeddingRun``."""

    account: Account

    def fail(self, error: ApiError) -> None:
        """Ends it with an error."""
        ...


class Replica:
    """One model behind one door. ``backend`` and ``info`` are set while it is ready or draining."""

    def __init__(self, config: RuntimeConfig) -> None:
        self.config = config
        self.epoch = uuid.uuid4().hex[:12]
        self.state: ReplicaState = "loading"
        self.reason = "the model is being loaded"
        self.port = 0
        self.backend: Backend | None = None
        self.info: BackendInfo | None = None
        self.default_sampling: dict[str, float] = {}
        settings = config.engine
        self.admission = Admission(
            settings.max_num_seqs,
            settings.max_queue,
            settings.queue_timeout_s,
            step_ms=lambda: self.stats().step_ms_ewma,
            step_tokens=settings.max_num_batched_tokens if settings.engine == "native" else None,
        )
        self.seen = SeenBlocks()
        self.metrics = Metrics(config.served_model_name, lambda: (self.stats(), self.admission.queued))
        self.spool = Spool(config.spool_dir, config.replica_id, self.epoch)
        self.counter = Counter(config.deployment, config.replica_id, self.epoch, self.spool, self.metrics)
        self.tracing = tracing.start("berth-runtime", config.replica_id)
        self.active: set[Active] = set()
        self.idle = asyncio.Event()
        self.idle.set()

    def entered(self, run: Active) -> None:
        self.active.add(run)
        self.idle.clear()

    def left(self, run: Active) -> None:
        self.active.discard(run)
        if not self.active:
            self.idle.set()

    def become(self, state: ReplicaState, reason: str = "") -> None:
        self.state = state
        self.reason = reason
        log.info("state=%s%s", state, f" reason={reason!r}" if reason else "")
        self.write_run_file()

    def serve(self, backend: Backend, info: BackendInfo) -> None:
        """The engine is up: open the door."""
        self.backend = backend
        self.info = info
        self.default_sampling = backend.default_sampling()
        self.admission.capacity = min(self.config.engine.max_num_seqs, info.max_num_seqs)
        self.become("ready")

    def require_ready(self) -> tuple[Backend, BackendInfo]:
        """Raises ``ApiError`` 503 unless new requests are taken."""
        if self.state == "ready" and self.backend is not None and self.info is not None:
            return self.backend, self.info
        message = f"The replica takes no requests: {self.state}" + (f" ({self.reason})." if self.reason else ".")
        raise ApiError(503, message, code=f"replica_{self.state}", retry_after_s=1)

    def require_model(self, name: str) -> None:
        """Raises ``ApiError`` 404 for another model's name."""
        if name != self.config.served_model_name:
            raise ApiError(404, f"The model '{name[:100]}' is not served here.", code="model_not_found", param="model")

    def stats(self) -> BackendStats:
        return BackendStats() if self.backend is None else self.backend.stats()

    def kv_free(self, stats: BackendStats) -> float:
        """Free share of the KV blocks; 1 where the engine does not say."""
        if not stats.kv_blocks_total or stats.kv_blocks_free is None:
            return 1.0
        return stats.kv_blocks_free / stats.kv_blocks_total

    def load(self) -> Load:
        admission = self.admission
        return Load(
            running=admission.running,
            queued=admission.queued,
            capacity=admission.capacity,
            predicted_ttft_ms=admission.predicted_ttft_ms(),
            kv_free=self.kv_free(self.stats()),
        )

    def write_run_file(self) -> None:
        """Atomic: a reader sees the old file or the new one."""
        if not self.config.run_file:
            return
        run = RunFile(
            replica_id=self.config.replica_id,
            pid=os.getpid(),
            start_time=process_start_time(os.getpid()) or 0.0,
            epoch=self.epoch,
            state=self.state,
            port=self.port,
            reason=self.reason,
            model_path=self.config.model_path,
            memory_bytes=resident_bytes(),
        )
        path = Path(self.config.run_file)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(msgspec.json.encode(run))
            fresh.replace(path)
        except OSError as error:
            log.error("the run file %s cannot be written: %s", path, error)
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
