"""What the gateway costs: time to first token and CPU, against the runtime alone and a bare proxy.

    python benchmarks/gateway.py [--seconds 5] [--rounds 3] [--only ours,peers] [--json FILE] [--check]

Four processes on this machine: a stub runtime that sends 10 tokens a second, a bare 60-line ASGI proxy, the gateway
with a real Redis, its snapshot and all three limits on, and this load generator. Levels of 1, 32, 200 and 500 open
streams (67 new requests a second at 200 and 500). At each level the targets take turns, so that a busy machine is busy
for all. ``peers``: the gateway beside LiteLLM's proxy and SGLang's router, which have environments of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import uvloop

from benchmarks.common.children import Turns
from benchmarks.common.report import Targets, add_only, conclude, end_on_signals, options_parser, percentile

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "platform"), str(Path(__file__).resolve().parents[1])]

RATE_HZ = 10
LEVELS = {1: 4, 32: 15, 200: 30, 500: 75}  # open streams: tokens of each
TARGET_LEVEL = 200
TARGETS = ("runtime", "proxy", "gateway")
ADDED_MS = 1.0
TAIL = 1.5
MODEL = "stub"
PROMPT = "Summarise the minutes of the meeting in three sentences. " * 8
FIRST_TOKEN = b'"content":"t0 '
LAST_BYTES = b"0\r\n\r\n"
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
Started = Mapping[str, tuple[int, psutil.Process]]


# --- The runtime ------------------------------------------------------------------------------------------------


class StubRuntime(asyncio.Protocol):
    """A door's frames, one every 100 ms, with as little work as can be."""

    _HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    _LOAD = b"x-berth-load: running=1, queued=0, capacity=1000, ttft_ms=1.0, kv_free=0.900\r\n\r\n"
    _CHUNK = 'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"stub"'

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.received = b""
        self.timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found:
            return
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if len(body) < (int(length[1]) if length else 0):
            return
        self.received = b""
        if not head.startswith(b"POST /v1/chat/completions"):  # what routers ask to know their workers
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
            return
        asked = json.loads(body)
        self.wanted = asked.get("max_tokens") or asked["max_completion_tokens"]  # SGLang's router renames it
        self.sent = 0
        role = self._frame('{"role":"assistant","content":""}')
        self.transport.write(self._HEAD + self._LOAD + role)
        self._token()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _usage(self) -> str:
        return f'"usage":{{"prompt_tokens":120,"completion_tokens":{self.sent},"total_tokens":{120 + self.sent}}}'

    def _frame(self, delta: str, finish: str = "null") -> bytes:
        choice = f'{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}'
        return self._chunked(f'{self._CHUNK},"choices":[{choice}],{self._usage()}}}\n\n')

    @staticmethod
    def _chunked(text: str) -> bytes:
        return f"{len(text):x}\r\n{text}\r\n".encode()

    def _token(self) -> None:
        text, self.sent = f"t{self.sent} ", self.sent + 1
        frame = self._frame(f'{{"content":"{text}"}}')
        if self.sent < self.wanted:
            self.transport.write(frame)
            self.timer = asyncio.get_running_loop().call_later(1 / RATE_HZ, self._token)
            return
        berth = '{"queue_ms":0.1,"prefill_ms":1.0,"decode_ms":2.0,"preemptions":0,"cached_tokens":0}'
        last = self._chunked(f'{self._CHUNK},"choices":[],{self._usage()},"berth":{berth}}}\n\ndata: [DONE]\n\n')
        self.transport.write(frame + self._frame("{}", '"length"') + last + LAST_BYTES)


async def serve_runtime(listener: socket.socket) -> None:
    server = await asyncio.get_running_loop().create_server(StubRuntime, sock=listener)
    await server.serve_forever()


# --- The bare proxy ---------------------------------------------------------------------------------------------


class BareProxy:
    """What any HTTP proxy in Python has to do: read the request, pass it on, pass each chunk back."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.session: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        import aiohttp

        if self.session is None:
            self.session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {"content-type": "application/json"}
        async with self.session.post(self.upstream + scope["path"], data=body, headers=headers) as answer:
            start = [(b"content-type", answer.headers["content-type"].encode())]
            await send({"type": "http.response.start", "status": answer.status, "headers": start})
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


# --- The gateway ------------------------------------------------------------------------------------------------


class FixedSnapshot:
    """One tenant, one key, one model with every limit on, one replica."""

    def __init__(self, upstream: str, token: str, on_change: Any) -> None:
        from berth.gateway.snapshot import Key, Limits, Replica, Route, Snapshot
        from berth.tenants import keys
        from gpuruntime.goodput import ServiceLevel

        key_id, secret = token.split(".", 1)
        digest, pepper = keys.digest_of(secret)
        limits = Limits(requests_per_min=10**7, tokens_per_min=10**9, max_concurrency=10**4)
        level = ServiceLevel(base_ms=1000, tpot_ms=200)
        route = Route("ten_1", MODEL, "dep_1", "chat", level, contract_id="con_1", limits=limits)
        replica = Replica("rep_1", upstream, "token", 1000, ready=True)
        self.current = Snapshot(
            1, {key_id: Key(key_id, "ten_1", digest, pepper, None)}, {("ten_1", MODEL): route}, {"dep_1": (replica,)}
        )
        self.on_change = on_change

    def start(self) -> None:
        self.on_change(self.current)

    def stop(self) -> None:
        pass


async def serve_gateway(listener: socket.socket, upstream: str, redis_url: str, token: str) -> None:
    from berth.gateway.app import Gateway

    gateway = Gateway(redis_url, lambda _, on_change: FixedSnapshot(upstream, token, on_change))
    await gateway.start()
    gc.freeze()  # as the server does
    await serve_asgi(listener, gateway)


async def serve_asgi(listener: socket.socket, app: Any) -> None:
    import uvicorn

    config = uvicorn.Config(app, http="httptools", lifespan="off", access_log=False, log_config=None)
    await uvicorn.Server(config).serve(sockets=[listener])


def child(role: str, port_file: str, upstream: str, redis_url: str, token: str) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    Path(port_file).write_text(str(listener.getsockname()[1]))
    work = {
        "runtime": lambda: serve_runtime(listener),
        "proxy": lambda: serve_asgi(listener, BareProxy(upstream)),
        "gateway": lambda: serve_gateway(listener, upstream, redis_url, token),
    }[role]
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(work())


# --- The load ---------------------------------------------------------------------------------------------------


@dataclass
class Slice:
    """What one target did in one turn."""

    ttft_s: list[float] = field(default_factory=list)
    frames: int = 0
    failed: int = 0
    cpu_s: float = 0.0
    threads: int = 0


class Client(asyncio.Protocol):
    """One connection, one stream at a time."""

    def __init__(self, result: Slice) -> None:
        self.result = result
        self.transport: Any = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def ask(self, request: bytes) -> asyncio.Future[None]:
        self.done = asyncio.get_running_loop().create_future()
        self.tail = b""
        self.first = True
        self.started = time.perf_counter()
        self.transport.write(request)
        return self.done

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self.result.frames += data.count(b"data: ")
        text = self.tail + data
        if self.first and FIRST_TOKEN in text:
            self.first = False
            self.result.ttft_s.append(now - self.started)
        self.tail = text[-64:]
        if text.endswith(LAST_BYTES) and not self.done.done():
            self.result.failed += self.first
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.result.failed += 1
            self.done.set_result(None)


async def drive(port: int, process: psutil.Process, *, streams: int, tokens: int, seconds: float, token: str) -> Slice:
    """``streams`` clients, their starts spread over one stream's length, each asking again when it is done."""
    result = Slice()
    messages = [{"role": "user", "content": PROMPT}]
    body = json.dumps({"model": MODEL, "stream": True, "max_tokens": tokens, "messages": messages}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n"
    request = f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    length_s = (tokens - 1) / RATE_HZ
    before = cpu_s(process)
    deadline = time.perf_counter() + seconds

    async def one(number: int) -> None:
        await asyncio.sleep(length_s * number / streams)
        loop = asyncio.get_running_loop()
        transport, client = await loop.create_connection(lambda: Client(result), "127.0.0.1", port)
        while time.perf_counter() < deadline:
            await client.ask(request)
        transport.close()

    await asyncio.gather(*(one(number) for number in range(streams)))
    result.cpu_s = cpu_s(process) - before
    result.threads = process.num_threads()
    return result


def cpu_s(process: psutil.Process) -> float:
    """Of the process and of what it started."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


@contextlib.contextmanager
def processes(
    home: Path, token: str, roles: Sequence[str] = TARGETS, script: str = __file__
) -> Iterator[dict[str, tuple[int, psutil.Process]]]:
    """By role its port and process; the first is the runtime, and ``script --child ROLE ...`` is each."""
    from berth.embedded.redis import EmbeddedRedis

    redis = EmbeddedRedis(home / "redis", append_only=True)
    started: dict[str, tuple[int, psutil.Process]] = {}
    children: list[subprocess.Popen[bytes]] = []
    upstream = ""
    environment = {**os.environ, "BERTH_HOME": str(home), "DJANGO_SETTINGS_MODULE": "berth.settings"}
    try:
        for role in roles:
            port_file = home / f"{role}.port"
            command = [sys.executable, script, "--child", role, str(port_file), upstream, redis.url, token]
            children.append(subprocess.Popen(command, env=environment))
            port = _port(port_file, children[-1])
            upstream = upstream or f"http://127.0.0.1:{port}"
            started[role] = (port, psutil.Process(children[-1].pid))
        yield started
    finally:
        for process in children:
            process.terminate()
        for process in children:
            process.wait(10)
        redis.stop()


def _port(port_file: Path, process: subprocess.Popen[bytes]) -> int:
    for _ in range(500):
        if port_file.exists() and (text := port_file.read_text()):
            return int(text)
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise SystemExit(f"a process did not start: {process.args!r}")


# --- The figures ------------------------------------------------------------------------------------------------


def measure(parts: Sequence[str], seconds: float, rounds: int) -> dict[str, Any]:
    from berth.tenants import keys

    token = f"key_{'0' * 26}.{keys.new_secret()}"
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as home:
        os.environ["BERTH_HOME"] = home
        with processes(Path(home), token) as started:
            found = {}
            if "ours" in parts:
                found["levels"] = uvloop.run(_measure(started, LEVELS, token, seconds, rounds))
            if "peers" in parts:
                found["peers"] = _beside_peers(started, Path(home), token, seconds, rounds)
            return found


def _beside_peers(started: Started, home: Path, token: str, seconds: float, rounds: int) -> dict[str, Any]:
    from benchmarks.common.gateway_peers import litellm, sglang_router

    upstream = f"http://127.0.0.1:{started['runtime'][0]}"
    with Turns() as turns:
        servers = [sglang_router(upstream), litellm(upstream, MODEL, token, home)]
        for server in servers:
            turns.start(server)
        for server in servers:
            server.resume()
        every = {"gateway": started["gateway"]}
        every |= {server.name: (server.port, psutil.Process(server.process.pid)) for server in servers}
        level = {TARGET_LEVEL: LEVELS[TARGET_LEVEL]}
        return uvloop.run(_measure(every, level, token, seconds, rounds))


async def _measure(
    started: Started, levels: Mapping[int, int], token: str, seconds: float, rounds: int
) -> dict[str, Any]:
    """By open streams, what each target did in its turns."""
    await asyncio.sleep(1)
    for port, process in started.values():  # connections, scripts and caches are warm
        await drive(port, process, streams=8, tokens=3, seconds=1.0, token=token)
    found: dict[str, Any] = {}
    for streams, tokens in levels.items():
        slices: dict[str, list[Slice]] = {name: [] for name in started}
        for _ in range(rounds):
            for name, (port, process) in started.items():
                turn = await drive(port, process, streams=streams, tokens=tokens, seconds=seconds, token=token)
                slices[name].append(turn)
        found[str(streams)] = {name: _figures(turns) for name, turns in slices.items()}
    return found


def _figures(turns: list[Slice]) -> dict[str, Any]:
    ttft = [value for turn in turns for value in turn.ttft_s]
    return {
        "requests": len(ttft),
        "frames": sum(turn.frames for turn in turns),
        "failed": sum(turn.failed for turn in turns),
        "ttft_ms": {name: 1000 * percentile(ttft, share) for name, share in PERCENTILES.items()},
        "cpu_s": sum(turn.cpu_s for turn in turns),
        "threads": max(turn.threads for turn in turns),
    }


def report(result: dict[str, Any]) -> None:
    """CPU of the target's own process, over all its requests and over all frames its clients got."""
    print(
        "streams        target requests  TTFT p50       p95       p99  CPU a request  frames/s a core  threads  failed"
    )
    for part in ("levels", "peers"):
        for streams, targets in result.get(part, {}).items():
            for name, at in targets.items():
                ttft = " ".join(f"{at['ttft_ms'][share]:>6.2f} ms" for share in PERCENTILES)
                request_us, frames = 1e6 * at["cpu_s"] / max(1, at["requests"]), at["frames"] / at["cpu_s"]
                print(
                    f"{streams:>7} {name:>13} {at['requests']:>8} {ttft} {request_us:>11.0f} us {frames:>16,.0f}"
                    f" {at['threads']:>8} {at['failed']:>7}"
                )


def failures(result: dict[str, Any]) -> list[str]:
    """Which figure misses its target, and by how much."""
    targets = Targets()
    levels = result.get("levels", {})
    for streams, at in levels.items():
        targets.at_most(f"failed at {streams} streams", at["gateway"]["failed"], 0)
        if streams == str(TARGET_LEVEL):
            ours, bare = at["gateway"]["ttft_ms"], at["proxy"]["ttft_ms"]
            targets.at_most(
                f"ms over the bare proxy's TTFT p50 at {streams} streams", ours["p50"] - bare["p50"], ADDED_MS
            )
            targets.at_most(f"times the bare proxy's TTFT p99 at {streams} streams", ours["p99"] / bare["p99"], TAIL)
    if levels:
        threads = [at["gateway"]["threads"] for at in levels.values()]
        targets.at_most("threads more at one level than at another", max(threads) - min(threads), 0)
    return targets.missed


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each target at each level")
    add_only(parser, ("ours", "peers"))
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    end_on_signals()
    result = measure(options.only, options.seconds, options.rounds)
    report(result)
    return conclude(result, failures(result), options)


if __name__ == "__main__":
    sys.exit(main())
