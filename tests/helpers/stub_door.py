"""A door whose every move a test decides: real sockets, frames as a real door writes them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from gpuruntime.protocol import RESUME

Behaviour = Callable[["Call"], Awaitable[None]]


@dataclass
class Call:
    """One request at the door. The helpers write parts of an answer; a behaviour puts them together.

    ``marks``: what the client has of the answer, where another door began it.
    """

    headers: dict[str, str]
    body: dict[str, Any]
    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader
    left: asyncio.Event = field(default_factory=asyncio.Event)
    marks: bytes = b""
    tokens: int = 0
    prompt_tokens: int = 12
    load: str = "running=1, queued=0, capacity=8, ttft_ms=5.0, kv_free=0.900"
    degraded: str = ""

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def open(self, *headers: str) -> None:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
        more = "".join(f"{header}\r\n" for header in headers)
        more += f"x-berth-degraded: {self.degraded}\r\n" if self.degraded else ""
        await self.write(f"{head}{more}x-berth-load: {self.load}\r\n\r\n".encode())

    async def start(self) -> None:
        await self.open()
        await self.chunk(self.frame('{"role":"assistant","content":""}'))

    async def chunk(self, data: bytes) -> None:
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _head(self) -> str:
        tier = f',"service_tier":"{self.body["service_tier"]}"' if "service_tier" in self.body else ""
        return (
            f'data: {{"id":"chatcmpl-{self.headers["x-request-id"]}","object":"chat.completion.chunk",'
            f'"created":1,"model":"{self.body["model"]}"{tier}'
        )

    def _usage(self) -> str:
        total = self.prompt_tokens + self.tokens
        return (
            f'"usage":{{"prompt_tokens":{self.prompt_tokens},"completion_tokens":{self.tokens},"total_tokens":{total}'
        )

    def frame(self, delta: str, finish: str = "null", index: int = 0) -> bytes:
        choice = f'{{"index":{index},"delta":{delta},"logprobs":null,"finish_reason":{finish}}}'
        return f'{self._head()},"choices":[{choice}],{self._usage()}}}}}\n\n'.encode()

    async def token(self, text: str = "tok ", count: int = 1) -> None:
        self.tokens += count
        await self.chunk(self.frame('{"content":' + json.dumps(text) + "}"))

    async def end(self, finish: str = "stop", **berth: Any) -> None:
        timings = {"queue_ms": 1.5, "prefill_ms": 4.0, "decode_ms": 9.0, "preemptions": 0, "cached_tokens": 0}
        timings |= {"new_prompt_tokens": self.prompt_tokens, "ideal_s": 0.25, "executed_ideal_s": 0.5} | berth
        await self.chunk(self.frame("{}", f'"{finish}"') + self.last(timings))
        await self.write(b"0\r\n\r\n")

    def last(self, timings: dict[str, Any]) -> bytes:
        usage = f'{self._head()},"choices":[],{self._usage()}}},"berth":{json.dumps(timings)}}}\n\n'
        return usage.encode() + b"data: [DONE]\n\n"

    async def answer(self, status: int, body: dict[str, Any], **headers: str) -> None:
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
        extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.write(f"{head}x-berth-load: {self.load}\r\n{extra}\r\n".encode() + data)

    async def refuse(self, status: int, code: str, **headers: str) -> None:
        await self.answer(status, {"error": {"message": code, "type": "x", "param": None, "code": code}}, **headers)

    def reset(self) -> None:
        """As a killed process: the connection is reset, not closed."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def good(call: Call) -> None:
    """Three tokens, 5 ms apart."""
    await call.start()
    for word in ("one ", "two ", "three"):
        await call.token(word)
        await asyncio.sleep(0.005)
    await call.end()


def tokens(count: int, gap_s: float = 0.005) -> Behaviour:
    async def behave(call: Call) -> None:
        await call.start()
        for number in range(count):
            await call.token(f"t{number} ")
            await asyncio.sleep(gap_s)
        await call.end("length")

    return behave


@dataclass
class StubDoor:
    behave: Behaviour = good
    healthy: bool = True
    calls: list[Call] = field(default_factory=list)
    probes: int = 0
    called: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    server: asyncio.Server | None = None
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def start(self) -> None:
        """On the same port when started again."""
        self.server = await asyncio.start_server(self._connection, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None
            for writer in self.writers:
                writer.transport.abort()
            self.writers.clear()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                originals = dict(line.split(": ", 1) for line in head[1:] if line)
                headers = {name.lower(): value for name, value in originals.items()}
                data = await reader.readexactly(int(headers.get("content-length", 0)))
                if head[0].startswith("GET /health"):
                    self.probes += 1
                    status = b"200 OK" if self.healthy else b"503 No"
                    writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")
                    continue
                size = int(headers.get(RESUME, str(len(data))).split()[0])
                call = Call(headers, json.loads(data[:size]), writer, reader, marks=data[size:])
                self.calls.append(call)
                self.called.set()
                await self._serve(call)
        writer.close()

    async def _serve(self, call: Call) -> None:
        """The behaviour, ended when the other side closes the connection."""
        work = asyncio.ensure_future(self.behave(call))
        gone = asyncio.ensure_future(call.reader.read(1))
        done, _ = await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if work in done:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):  # reset: the write may tell it first
                await gone
            try:
                await work
            except ConnectionError:  # the write noticed before the read that the other side closed
                call.left.set()
                raise
        else:
            call.left.set()
            gone.exception()  # a reset is a way to leave
            work.cancel()
            raise ConnectionResetError


@contextlib.asynccontextmanager
async def stub_doors(count: int) -> AsyncIterator[list[StubDoor]]:
    doors = [StubDoor() for _ in range(count)]
    for door in doors:
        await door.start()
    try:
        yield doors
    finally:
        for door in doors:
            await door.stop()
