"""The runtime's one outbound websocket: who it is, what it did each second, and which requests ended.

It never blocks serving and never gives up: a closed socket means "connect again, with jitter". Work since the last
``Stats`` that was sent goes into the next one, and ended requests are repeated until acknowledged, so a control plane
that was away for an hour misses nothing but liveness.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from gpuruntime.backend import BackendStats
from gpuruntime.door.replica import Replica
from gpuruntime.process import resident_bytes
from gpuruntime.protocol import Ended, ProtocolError, RuntimeHello, Stats, Work, decode_ended_ack, encode

STATS_S = 1.0
BATCH_S = 0.05
RESEND_S = 10.0

log = logging.getLogger("gpuruntime.report")


class Reporter:
    """``run`` until cancelled; ``flush`` at the end of the process."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._url = replica.config.control_url.rstrip("/") + "/ws/runtime"
        self._base = BackendStats()
        self._base_tenants: dict[str, float] = {}
        self._base_s = time.monotonic()
        self._ended_sent_s = 0.0
        self._flushed = asyncio.Event()
        self._last = False

    async def run(self) -> None:
        headers = {
            "Authorization": f"Bearer {self._replica.config.token}",
            "x-berth-replica": self._replica.config.replica_id,
        }
        refused = ""
        while True:
            try:
                async with connect(self._url, additional_headers=headers, proxy=None, open_timeout=5) as socket:
                    log.info("connected to the control plane")
                    refused = ""
                    await self._session(socket)
            except (OSError, WebSocketException, TimeoutError) as error:
                if str(error) != refused:  # once, not twice a second for an hour
                    refused = str(error)
                    log.warning("no connection to the control plane: %s", error)
            except Exception:
                log.exception("the report to the control plane broke; it is started again")
            await asyncio.sleep(random.uniform(0.2, 2.0))  # noqa: S311

    async def flush(self, timeout_s: float) -> None:
        """Says goodbye (a last ``Stats``) and waits until every ended request is acknowledged."""
        self._last = True
        self._replica.spool.filled.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._flushed.wait()

    async def _session(self, socket: ClientConnection) -> None:
        self._replica.spool.forget_sent()
        await socket.send(encode(self._hello()))
        tasks = {asyncio.create_task(self._read(socket)), asyncio.create_task(self._write(socket))}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, socket: ClientConnection) -> None:
        async for data in socket:
            try:
                self._replica.spool.acknowledge(decode_ended_ack(data).request_ids)
            except ProtocolError as error:
                log.warning("ignored: %s", error)
            self._check_flushed()

    async def _write(self, socket: ClientConnection) -> None:
        spool = self._replica.spool
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= due or self._last:
                await self._send_stats(socket)
                due = max(due + STATS_S, now)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - time.monotonic())):
                    await spool.filled.wait()
                    await asyncio.sleep(BATCH_S)  # let a burst gather
            if spool.filled.is_set() and (batch := spool.unsent()):
                await socket.send(encode(Ended(replica_id=self._replica.config.replica_id, requests=batch)))
                self._ended_sent_s = time.monotonic()
            elif len(spool) and time.monotonic() - self._ended_sent_s > RESEND_S:
                spool.forget_sent()
            self._check_flushed()

    def _check_flushed(self) -> None:
        if self._last and not len(self._replica.spool):
            self._flushed.set()

    def _hello(self) -> RuntimeHello:
        config, info = self._replica.config, self._replica.info
        if info is None:
            raise RuntimeError("a replica reports only once its engine is up")
        extra = self._replica.stats().extra
        return RuntimeHello(
            replica_id=config.replica_id,
            epoch=self._replica.epoch,
            engine=info.engine,
            model=info.model,
            max_model_len=info.max_model_len,
            max_num_seqs=self._replica.admission.capacity,
            kv_capacity_tokens=info.kv_capacity_tokens,
            weights_bytes=info.weights_bytes,
            predicted_weights_bytes=info.predicted_weights_bytes,
            predicted_bytes=info.predicted_bytes,
            flops_per_s=extra.get("flops_per_s"),
            bytes_per_s=extra.get("bytes_per_s"),
        )

    async def _send_stats(self, socket: ClientConnection) -> None:
        """The base moves only after the send, so a broken connection costs no work."""
        replica, now = self._replica, time.monotonic()
        stats = replica.stats()
        tenants = dict(replica.counter.work.ideal_s_by_tenant)
        message = Stats(
            replica_id=replica.config.replica_id,
            epoch=replica.epoch,
            state=replica.state,
            running=replica.admission.running,
            queued=replica.admission.queued,
            kv_free_blocks=stats.kv_blocks_free,
            kv_total_blocks=stats.kv_blocks_total,
            predicted_ttft_ms=replica.admission.predicted_ttft_ms(),
            memory_bytes=resident_bytes(),
            paces=list(stats.paces),
            work=self._work(stats, tenants, now),
        )
        await socket.send(encode(message))
        self._base, self._base_tenants, self._base_s = stats, tenants, now

    def _work(self, stats: BackendStats, tenants: dict[str, float], now: float) -> Work:
        base = self._base
        rises = {name: total - self._base_tenants.get(name, 0.0) for name, total in tenants.items()}
        return Work(
            seconds=now - self._base_s,
            busy_s=stats.busy_s_total - base.busy_s_total,
            executed_ideal_s=stats.ideal_s_total - base.ideal_s_total,
            prompt_tokens=stats.prompt_tokens_total - base.prompt_tokens_total,
            cached_tokens=stats.cached_tokens_total - base.cached_tokens_total,
            completion_tokens=stats.completion_tokens_total - base.completion_tokens_total,
            steps=stats.steps_total - base.steps_total,
            preemptions=stats.preemptions_total - base.preemptions_total,
            ideal_s_by_tenant={name: rise for name, rise in rises.items() if rise > 0},
        )
