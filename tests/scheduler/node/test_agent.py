"""The agent as a process against a small control plane: a real websocket, real model files, the real runtime."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import gpuruntime.protocol as wire
from gpuruntime.process import process_start_time
from helpers.patience import PATIENCE_S
from helpers.tiny_llama import write_tiny_llama
from scheduler.geometry.boards import board
from scheduler.node.paths import StateDir
from scheduler.node.stopall import stop_all

TOKEN = "node-token"
REPOSITORY = Path(__file__).parents[3]
FLEET = """
[[node]]
name = "sim-b"
cpu_count = 32
[[node.gpu]]
name = "By hand"
memory_gb = 40
units = 8
[[node.gpu]]
board = "h100-sxm-80gb"
"""


class ControlPlane:
    """What /ws/agent, /ws/runtime and /internal/models of the control plane do, and no more."""

    def __init__(self, models: Path) -> None:
        self.models = models
        self.hellos: list[wire.Hello] = []
        self.observed: wire.Observed | None = None
        self.observed_at: list[float] = []
        self.lines: dict[str, list[str]] = {}
        self.log_messages: list[wire.LogLines] = []
        self.desired = wire.Desired(generation=1, replicas=[])
        self.headers: list[tuple[str | None, str | None]] = []
        self._sockets: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/ws/agent", self._agent)
        app.router.add_get("/ws/runtime", self._runtime)
        app.router.add_static("/internal/models/d1", self.models)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        for socket in list(self._sockets):
            await socket.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _agent(self, request: web.Request) -> web.WebSocketResponse:
        self.headers.append((request.headers.get("authorization"), request.headers.get("x-berth-node")))
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._sockets.add(socket)
        await socket.send_str(wire.encode(self.desired))
        async for message in socket:
            self._take(wire.decode_agent(message.data))
        self._sockets.discard(socket)
        return socket

    def _take(self, message: wire.AgentMessage) -> None:
        match message:
            case wire.Hello():
                self.hellos.append(message)
            case wire.Observed():
                self.observed = message
                self.observed_at.append(time.monotonic())
            case wire.LogLines():
                self.log_messages.append(message)
                kept = [] if message.reset else self.lines.get(message.replica_id, [])
                self.lines[message.replica_id] = kept + message.lines

    async def _runtime(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        return socket

    async def want(self, generation: int, *replicas: wire.ReplicaSpec, slices: Sequence[wire.SliceSpec] = ()) -> None:
        desired = wire.Desired(generation=generation, replicas=list(replicas), slices=list(slices))
        self.desired = max(self.desired, desired, key=lambda each: each.generation)
        for socket in self._sockets:
            await socket.send_str(wire.encode(desired))

    def seen(self, replica_id: str = "rep_1") -> wire.ObservedReplica | None:
        rows = self.observed.replicas if self.observed is not None else []
        return next((row for row in rows if row.replica_id == replica_id), None)

    async def until(self, check: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not (value := check()):
            assert time.monotonic() < deadline, f"not in time: {self.observed} {self.lines}"
            await asyncio.sleep(0.02)
        return value

    async def until_state(self, state: str, replica_id: str = "rep_1") -> wire.ObservedReplica:
        def reached() -> wire.ObservedReplica | None:
            row = self.seen(replica_id)
            return row if row is not None and row.state == state else None

        found = await self.until(reached)
        assert isinstance(found, wire.ObservedReplica)
        return found


class Node:
    def __init__(self, control: ControlPlane, state: Path) -> None:
        self.control, self.state = control, StateDir(state)
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, *more: str) -> asyncio.subprocess.Process:
        join = ["--join", f"ws://127.0.0.1:{self.control.port}", "--name", "node-a"]
        self.process = await self.command(*join, *more)
        return self.process

    async def command(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "scheduler.node", "--state-dir", str(self.state.root), *arguments),
            env={**os.environ, "BERTH_NODE_TOKEN": TOKEN},
            stderr=asyncio.subprocess.PIPE,
            cwd=REPOSITORY,
        )

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "d1"
    write_tiny_llama(folder)
    return folder


@pytest.fixture
async def control(model: Path) -> AsyncIterator[ControlPlane]:
    control = ControlPlane(model)
    await control.start()
    yield control
    await control.stop()


@pytest.fixture
async def node(control: ControlPlane, tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(control, tmp_path / "node")
    node.state.create()
    yield node
    if node.process is not None and node.process.returncode is None:
        await node.kill()
    await asyncio.to_thread(stop_all, node.state, grace_s=0)


def tiny(model: Path, **changes: Any) -> wire.ReplicaSpec:
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(model.iterdir())}
    values: dict[str, Any] = {
        "replica_id": "rep_1",
        "deployment": "dep",
        "served_model_name": "tiny",
        "run": True,
        "token": "door-token",
        "model_digest": "d1",
        "model_files": files,
        "model_bytes": sum(path.stat().st_size for path in model.iterdir()),
        "device_uuid": "dev",
        "memory_bytes": 1 << 28,
        "engine": wire.EngineSettings(dtype="fp32", kv_bytes=1 << 20, max_num_seqs=4, threads=1),
        "drain_timeout_s": 5.0,
    }
    return wire.ReplicaSpec(**{**values, **changes})


def environment_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_text().split("\0")


async def test_from_a_model_at_the_control_plane_to_an_answer(control: ControlPlane, node: Node, model: Path) -> None:
    await control.want(2, tiny(model))
    await node.start()
    ready = await control.until_state("ready")
    assert control.headers[0] == (f"Bearer {TOKEN}", "node-a")
    hello = control.hellos[0]
    assert (hello.node, hello.provider, hello.address, len(hello.devices)) == ("node-a", "cpu", "127.0.0.1", 1)
    assert control.observed is not None
    assert control.observed.generation == 2

    url = f"http://127.0.0.1:{ready.port}/v1/chat/completions"
    body = {"model": "tiny", "max_tokens": 3, "temperature": 0, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": "Bearer door-token"}
    async with aiohttp.ClientSession() as http, http.post(url, json=body, headers=headers) as response:
        assert response.status == 200, await response.text()
        assert (await response.json())["usage"]["completion_tokens"] >= 1

    # Killed, the agent leaves the runtime; the next one finds it, and the control plane sees the same process.
    await node.kill()
    assert process_start_time(ready.pid) is not None
    control.observed = None
    await node.start()
    again = await control.until_state("ready")
    assert (again.pid, again.epoch, again.port, again.restarts) == (ready.pid, ready.epoch, ready.port, 0)

    # A crash: a new process serves, and the log of both was sent.
    os.kill(ready.pid, signal.SIGKILL)
    second = await control.until(lambda: (row := control.seen()) and row.state == "ready" and row.restarts == 1 and row)
    assert second.epoch != ready.epoch
    await control.until(lambda: sum("port=" in line for line in control.lines["rep_1"]) == 2)
    assert all(len(message.lines) <= 200 for message in control.log_messages)

    # An older desired state changes nothing; the newer one ends it.
    await control.want(1)
    await asyncio.sleep(1)
    assert (await control.until_state("ready")).pid == second.pid
    await control.want(3, tiny(model, run=False))
    stopped = await control.until_state("stopped")
    assert not stopped.alive
    assert process_start_time(second.pid) is None
    await control.want(4)
    await control.until(lambda: control.observed is not None and control.observed.replicas == [])


async def test_reports_each_second_and_comes_back_when_the_control_plane_does(
    control: ControlPlane, node: Node
) -> None:
    await node.start()
    await control.until(lambda: len(control.observed_at) >= 4)
    gaps = [later - earlier for earlier, later in zip(control.observed_at, control.observed_at[1:], strict=False)]
    assert max(gaps) < 2
    await control.stop()
    count = len(control.hellos)
    await asyncio.sleep(0.5)
    await control.start()
    await control.until(lambda: len(control.hellos) > count)


async def test_sigterm_leaves_runtimes_and_stop_all_ends_them(control: ControlPlane, node: Node, model: Path) -> None:
    await control.want(2, tiny(model))
    agent = await node.start()
    pid = (await control.until_state("ready")).pid
    busy = await node.command("--stop-all", "--grace", "1")
    assert await busy.wait() == 2  # not under a living agent, which would start them again
    assert busy.stderr is not None
    assert b"another agent works in" in await busy.stderr.read()
    agent.terminate()
    assert await agent.wait() == 0
    assert process_start_time(pid) is not None
    assert await (await node.command("--stop-all", "--grace", "3")).wait() == 0
    assert process_start_time(pid) is None
    assert list(node.state.run.iterdir()) == []


async def test_damaged_model_is_a_reason_and_is_tried_again(control: ControlPlane, node: Node, model: Path) -> None:
    spec = tiny(model)
    await control.want(2, tiny(model, model_files={**spec.model_files, "config.json": "0" * 64}))
    await node.start()
    failed = await control.until_state("failed")
    assert "config.json arrived damaged" in failed.reason
    await control.want(3, spec)
    await control.until_state("ready")


async def test_simulated_node_runs_real_runtimes_on_their_slices(
    control: ControlPlane, node: Node, model: Path, tmp_path: Path
) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    arguments = ["--name", "sim-b", "--provider", "simulated", "--simulated-file", str(fleet)]
    await node.start(*arguments)
    await control.until(lambda: control.observed is not None)
    hello = control.hellos[0]
    assert (hello.node, hello.provider, hello.cpu_count) == ("sim-b", "simulated", 32)
    h100 = board("h100-sxm-80gb")
    assert [(d.index, d.kind, d.memory_bytes, d.units, d.board) for d in hello.devices] == [
        (0, "simulated", 40 << 30, 8, ""),
        (1, "simulated", h100.memory_bytes, h100.units, "h100-sxm-80gb"),
    ]
    profile = h100.mig.profile("3g.40gb")
    slice_ = wire.SliceSpec(
        slice_id="slc_1",
        device_uuid=hello.devices[1].uuid,
        kind="mig",
        profile=profile.name,
        profile_id=profile.id,
        start=4,
        size=profile.size,
        of_units=h100.mig.units,
        memory_bytes=profile.memory_bytes,
    )
    await control.want(2, tiny(model, device_uuid=slice_.device_uuid, slice_id="slc_1"), slices=[slice_])
    ready = await control.until_state("ready")
    assert control.observed is not None
    (seen,) = control.observed.slices
    assert (seen.slice_id, seen.state, seen.profile, seen.start) == ("slc_1", "ready", "3g.40gb", 4)
    assert f"CUDA_VISIBLE_DEVICES={seen.uuid}" in environment_of(ready.pid)
    used = await control.until(lambda: control.observed and [d.memory_used_bytes for d in control.observed.devices])
    assert used == [0, 1 << 28]

    # An error of its own on its slice, as the driver would tell of it.
    (node.state.root / "injections.json").write_text('{"xids": [{"device": 1, "code": 31, "gi_id": 2}]}')
    await control.until(lambda: (row := control.seen()) and row.restarts == 1 and "XID 31 on its slice" in row.reason)
    await control.want(3)
    await control.until(lambda: control.observed is not None and not control.observed.slices)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--join", "http://x", "--name", "a"], b"--join is 'http://x'; it must be ws://"),
        (["--join", "ws://x:1"], b"--name is missing"),
        (["--join", "ws://x:1", "--name", "a/b"], b"'a/b' cannot be the name of a file"),
        (["--join", "ws://x:1", "--name", "a", "--provider", "simulated"], b"needs --simulated-file"),
        (["--join", "ws://x:1", "--name", "a", "--token-file", "/nowhere"], b"/nowhere"),
    ],
)
async def test_wrong_arguments_stop_it_with_one_clear_line(node: Node, arguments: list[str], message: bytes) -> None:
    process = await node.command(*arguments)
    _, error = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 2
    assert message in error
    assert b"Traceback" not in error
