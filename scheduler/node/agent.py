"""The agent's side of its one websocket: reports what is, receives what should be.

Four things run side by side and none waits for another: the supervisor's steps and the keeping of slices, which go on
while the control plane is away; the connection, renewed for ever; and on a live one the reports and the log lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

import gpuruntime.protocol as wire
from scheduler.node.paths import boot_id
from scheduler.node.providers.base import Provider
from scheduler.node.slices.keeper import SliceKeeper
from scheduler.node.supervisor import Supervisor

log = structlog.get_logger(__name__)

AGENT_VERSION = "0.1.0"
STEP_S = 0.2
REPORT_S = 1.0
REAPPLY_S = 5.0
LOG_BATCH_S = 0.3
RECONNECT_S = (0.2, 2.0)


@dataclass(frozen=True)
class Identity:
    """``join``: ``ws://HOST:PORT`` or ``wss://...``; ``address``: where gateways reach this node's runtimes."""

    join: str
    token: str
    node: str
    address: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}", "x-berth-node": self.node}

    @property
    def http_url(self) -> str:
        parts = urlsplit(self.join)
        return f"{'https' if parts.scheme == 'wss' else 'http'}://{parts.netloc}"


class Agent:
    def __init__(self, identity: Identity, provider: Provider, supervisor: Supervisor, keeper: SliceKeeper) -> None:
        self._identity = identity
        self._provider = provider
        self._supervisor = supervisor
        self._keeper = keeper
        self._changed = asyncio.Event()
        self._reported: Sequence[wire.ObservedReplica] = ()
        self._reported_slices: Sequence[wire.ObservedSlice] = ()
        self._desired: wire.Desired | None = None
        self.connected = False
        self.connections = 0

    async def run(self) -> None:
        """Until cancelled. The runtimes stay: the next agent adopts them."""
        self._keeper.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._supervise())
                group.create_task(self._stay_connected())
        finally:
            self._keeper.stop()

    async def _supervise(self) -> None:
        applied_at = time.monotonic()
        while True:
            if self._desired is not None and time.monotonic() - applied_at >= REAPPLY_S:
                self._supervisor.apply(self._desired)
                applied_at = time.monotonic()
            self._supervisor.step()
            if (self._supervisor.observed(), self._keeper.desk.observed()) != (self._reported, self._reported_slices):
                self._changed.set()
            await asyncio.sleep(STEP_S)

    async def _stay_connected(self) -> None:
        url = f"{self._identity.join.rstrip('/')}/ws/agent"
        said = ""
        while True:
            problem = "the connection ended"
            try:
                # No proxy: the control plane is inside the fleet's network, and a proxy set for downloads is not meant.
                async with connect(
                    url,
                    additional_headers=self._identity.headers,
                    proxy=None,
                    open_timeout=5,
                    ping_interval=5,
                    ping_timeout=10,
                    close_timeout=1,
                    max_size=16 << 20,
                ) as socket:
                    log.info("connected", url=url)
                    said = ""
                    self.connected, self.connections = True, self.connections + 1
                    await self._converse(socket)
            except InvalidStatus as error:
                status = error.response.status_code
                problem = "name and token are not those of a node" if status in (401, 403) else f"HTTP {status}"
            except (OSError, TimeoutError, WebSocketException) as error:
                problem = str(error) or type(error).__name__
            self.connected = False
            if problem != said:  # once, not each second of an outage
                log.warning("not connected", url=url, node=self._identity.node, reason=problem)
                said = problem
            await asyncio.sleep(random.uniform(*RECONNECT_S))  # noqa: S311 - spreads reconnects, keeps no secret

    async def _converse(self, socket: ClientConnection) -> None:
        """Until the connection ends; any of the three that ends takes the others with it."""
        await socket.send(wire.encode(self._hello()))
        tasks = [asyncio.create_task(work(socket)) for work in (self._receive, self._send_reports, self._send_logs)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with contextlib.suppress(ConnectionClosed):
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self, socket: ClientConnection) -> None:
        async for message in socket:
            try:
                desired = wire.decode_desired(message)
            except wire.ProtocolError as error:
                log.error("message ignored", reason=str(error))
                continue
            if self._supervisor.apply(desired):
                self._desired = desired
                self._supervisor.step()
                self._changed.set()

    async def _send_reports(self, socket: ClientConnection) -> None:
        while True:
            self._changed.clear()
            self._reported = self._supervisor.observed()
            self._reported_slices = self._keeper.desk.observed()
            await socket.send(
                wire.encode(
                    wire.Observed(
                        generation=self._supervisor.generation,
                        devices=self._devices(),
                        replicas=list(self._reported),
                        slices=list(self._reported_slices),
                    )
                )
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), REPORT_S)

    async def _send_logs(self, socket: ClientConnection) -> None:
        for lines in self._supervisor.log_snapshots():
            await socket.send(wire.encode(lines))
        while True:
            await asyncio.sleep(LOG_BATCH_S)
            for lines in self._supervisor.new_log_lines():
                await socket.send(wire.encode(lines))

    def _hello(self) -> wire.Hello:
        host = self._provider.host()
        return wire.Hello(
            node=self._identity.node,
            provider=self._provider.name,
            address=self._identity.address,
            agent_version=AGENT_VERSION,
            boot_id=boot_id(),
            cpu_count=host.cpu_count,
            memory_bytes=host.memory_bytes,
            devices=self._devices(),
        )

    def _devices(self) -> list[wire.Device]:
        return self._keeper.describe(self._provider.devices(self._supervisor.residents()))
