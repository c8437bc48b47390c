"""Doors for tests: one in this process around a scripted backend, on a real socket; and whole runtime processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvicorn

from gpuruntime.backend import (
    Backend,
    BackendInfo,
    BackendStats,
    BadPrompt,
    Delta,
    EngineFailed,
    Pooling,
    Prompt,
    SamplingParams,
    Timings,
    TokenLogprob,
)
from gpuruntime.door.app import build_app
from gpuruntime.door.replica import Replica
from gpuruntime.door.serve import listen
from gpuruntime.protocol import EndedRequest, EngineSettings, RunFile, RuntimeConfig
from gpuruntime.tools.formats import ToolFormat

REPOSITORY = Path(__file__).resolve().parents[2]
TOKEN = "door-token"
AUTH = {"Authorization": f"Bearer {TOKEN}"}


def embedding_of(ids: Sequence[int]) -> list[float]:
    """What the scripted backend makes of a prompt; exact in fp32."""
    return [float(len(ids)), float(sum(ids)), -0.5]


@dataclass
class ScriptedBackend:
    """Answers with "w0 w1 ..." one word a step; one prompt token a byte of the last message or the text.

    The token of word i is 1000 + i, with a log probability of -i / 8 and alternatives 1001 + i, 1002 + i, ...
    ``deaf``: it takes an abort and never acts on it, like an engine in a step without end. ``says``: the answer's
    pieces, one a step, in place of the words; with the last one it stops.
    """

    step_s: float = 0.0
    fail_after: int | None = None
    gate: asyncio.Event | None = None
    order: list[str] = field(default_factory=list)
    params: list[SamplingParams] = field(default_factory=list)
    generated: dict[str, int] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    defaults: dict[str, float] = field(default_factory=dict)
    context: int = 1000
    deaf: bool = False
    aborted: set[str] = field(default_factory=set)
    refuses: tuple[str, ...] = ()
    fail_only: str = ""
    says: tuple[str, ...] = ()
    tool_format: ToolFormat | None = None
    thinks: bool = False
    pooling: Pooling | None = "last"
    tools: Sequence[dict[str, Any]] = ()

    def info(self, max_num_seqs: int) -> BackendInfo:
        refuses = frozenset(self.refuses)
        return BackendInfo(
            "scripted",
            "m",
            self.context,
            max_num_seqs,
            None,
            None,
            "none",
            vocab_size=3000,
            refuses=refuses,
            tool_format=self.tool_format,
            thinks=self.thinks,
            pooling=self.pooling,
            resumes=True,
        )

    async def start(self) -> BackendInfo:
        return self.info(64)

    async def stop(self) -> None: ...

    async def prepare(
        self, messages: list[dict[str, Any]], salt: bytes, tools: Sequence[dict[str, Any]] = ()
    ) -> Prompt:
        text = messages[-1]["content"]
        if text == "unrenderable":
            raise BadPrompt("the template refuses this", "messages")
        self.tools = tools
        return Prompt(tuple(messages), tuple(text.encode()), salt)

    async def prepare_text(self, text: str | tuple[int, ...], salt: bytes, *, special_tokens: bool = True) -> Prompt:
        ids = await self.tokenize(text, special_tokens=special_tokens) if isinstance(text, str) else text
        return Prompt((), ids, salt, text if isinstance(text, str) else None)

    async def tokenize(self, source: str | list[dict[str, Any]], *, special_tokens: bool = True) -> tuple[int, ...]:
        return tuple((source if isinstance(source, str) else source[-1]["content"]).encode())

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        return b"".join(self.token_bytes(token) for token in token_ids).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else f"w{token - 1000} ".encode()

    def scored(self, token: int, logprob: float, count: int | None) -> TokenLogprob:
        """The token itself first, then the next ids, each half a nat less likely."""
        top = tuple((token + rank, logprob - rank / 2) for rank in range(count or 0))
        return TokenLogprob(token, logprob, top)

    async def generate(self, request_id: str, prompt: Prompt, params: SamplingParams) -> AsyncGenerator[Delta]:
        assert prompt.token_ids is not None
        length = len(prompt.token_ids)
        self.order.append(request_id)
        self.params.append(params)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if params.pooling is not None:
                yield await self._embedded(request_id, prompt.token_ids)
                return
            most = min(params.max_tokens, len(self.says) or params.max_tokens)
            have = len(prompt.answered)
            if have:
                text = "".join(self.says[:have] or [f"w{at} " for at in range(have)])
                yield Delta(text, 0, have, length, token_ids=prompt.answered)
            for count in range(have + 1, most + 1):
                if self.step_s:
                    await asyncio.sleep(self.step_s)
                if request_id in self.aborted:
                    yield Delta("", 0, count - 1, length, "abort", Timings(1.0, 2.0, 3.0, 0, 0, length, 0.5, 0.75))
                    return
                chosen = not self.fail_only or request_id == self.fail_only
                if chosen and self.fail_after is not None and count > self.fail_after:
                    raise EngineFailed("scripted failure")
                self.generated[request_id] = count
                last = count == most
                timings = Timings(1.0, 2.0, 3.0, 0, 0, length, 0.5, 0.75) if last else None
                yield Delta(
                    self.says[count - 1] if self.says else f"w{count - 1} ",
                    1,
                    count,
                    length,
                    ("stop" if count == len(self.says) else "length") if last else None,
                    timings,
                    token_ids=(999 + count,),
                    logprobs=self._scores(count, params),
                    prompt_logprobs=self._prompt_scores(prompt.token_ids, params) if count == 1 else (),
                )
        finally:
            self.closed.append(request_id)

    async def _embedded(self, request_id: str, ids: tuple[int, ...]) -> Delta:
        if self.step_s:
            await asyncio.sleep(self.step_s)
        if self.fail_only == request_id:
            raise EngineFailed("scripted failure")
        self.generated[request_id] = 0
        timings = Timings(1.0, 2.0, 0.0, 0, 1, len(ids), 0.5, 0.75)
        return Delta("", 0, 0, len(ids), "stop", timings, embedding=array("f", embedding_of(ids)).tobytes())

    def _scores(self, count: int, params: SamplingParams) -> tuple[TokenLogprob, ...]:
        if params.logprobs is None:
            return ()
        return (self.scored(999 + count, -(count - 1) / 8, params.logprobs),)

    def _prompt_scores(self, ids: tuple[int, ...], params: SamplingParams) -> tuple[TokenLogprob | None, ...]:
        if params.prompt_logprobs is None:
            return ()
        return (None, *(self.scored(token, -at / 4, params.prompt_logprobs) for at, token in enumerate(ids[1:], 1)))

    def abort(self, request_id: str) -> bool:
        if not self.deaf:
            self.aborted.add(request_id)
        return request_id in self.order

    def stats(self) -> BackendStats:
        return BackendStats(completion_tokens_total=sum(self.generated.values()))

    def default_sampling(self) -> dict[str, float]:
        return self.defaults

    def alive(self) -> bool:
        return True


@dataclass
class OpenDoor:
    replica: Replica
    url: str
    http: aiohttp.ClientSession

    def chat(self, content: str = "hello", headers: dict[str, str] | None = None, **body: Any) -> Any:
        """The context manager of one POST."""
        payload = {"model": "m", "messages": [{"role": "user", "content": content}], **body}
        return self.http.post(f"{self.url}/v1/chat/completions", json=payload, headers={**AUTH, **(headers or {})})

    def ended(self) -> list[EndedRequest]:
        return self.replica.spool.unsent()


class _Server(uvicorn.Server):
    @asynccontextmanager
    async def running(self, listener: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(self._serve(sockets=[listener]))
        while not self.started:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        try:
            yield
        finally:
            self.should_exit = True
            await task


@asynccontextmanager
async def open_door(
    backend: Backend,
    *,
    info: BackendInfo | None = None,
    replica_id: str = "rep_1",
    spool_dir: str = "",
    control_url: str = "",
    ready: bool = True,
    **settings: Any,
) -> AsyncIterator[OpenDoor]:
    """The real application on a real socket. ``settings`` are of ``EngineSettings``; ``info``: of a real engine."""
    config = RuntimeConfig(
        replica_id=replica_id,
        deployment="dep_1",
        model_path="",
        served_model_name="m",
        token=TOKEN,
        run_file="",
        spool_dir=spool_dir,
        control_url=control_url,
        engine=EngineSettings(**settings),
    )
    replica = Replica(config)
    if isinstance(backend, ScriptedBackend):
        info = backend.info(config.engine.max_num_seqs)
    if ready and info is not None:
        replica.serve(backend, info)
    listener = listen("127.0.0.1", 0)
    server = _Server(
        uvicorn.Config(build_app(replica), lifespan="off", log_config=None, timeout_graceful_shutdown=1, ws="none")
    )
    async with server.running(listener), aiohttp.ClientSession() as http:
        yield OpenDoor(replica, f"http://127.0.0.1:{listener.getsockname()[1]}", http)
    await replica.spool.close()


def sse(raw: bytes) -> list[Any]:
    """The frames of a stream; ``[DONE]`` as that string."""
    data = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


class RuntimeProcess:
    """``python -m gpuruntime serve`` as the agent starts it: configuration on stdin, a run file to watch."""

    def __init__(self, folder: Path, model: Path, *, replica_id: str = "rep_p", **over: Any) -> None:
        self.folder = folder
        self.run_file = folder / f"{replica_id}.run"
        self.run_file.unlink(missing_ok=True)
        settings = {"kv_bytes": 64 << 20, **over.pop("engine", {})}
        self.config = RuntimeConfig(
            replica_id=replica_id,
            deployment="dep_1",
            model_path=str(model),
            served_model_name="m",
            token=TOKEN,
            run_file=str(self.run_file),
            spool_dir=str(folder / "spool"),
            cache_dir=str(folder / "cache"),
            engine=EngineSettings(**settings),
            **over,
        )
        self.log = (folder / f"{replica_id}.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpuruntime", "serve"],
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=self.log,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(self.config))
        self.process.stdin.close()

    def state(self) -> RunFile | None:
        try:
            return msgspec.json.decode(self.run_file.read_bytes(), type=RunFile)
        except FileNotFoundError:
            return None

    def wait_for(self, *states: str, timeout_s: float = 60) -> RunFile:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            run = self.state()
            if run is not None and run.state in states:
                return run
            time.sleep(0.02)
        raise AssertionError(f"not {states} within {timeout_s} s: {self.state()}\n{self.logged()}")

    @property
    def url(self) -> str:
        run = self.state()
        assert run is not None
        return f"http://127.0.0.1:{run.port}"

    def logged(self) -> str:
        return Path(self.log.name).read_text()

    def spooled(self) -> list[dict[str, Any]]:
        files = (self.folder / "spool").glob("*.spool")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()
