"""The engine in a process of its own says what it says on a thread, and neither side outlives the other."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpuruntime.backend import Delta, EngineFailed, SamplingParams, TokenLogprob
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig, runs_apart
from gpuruntime.engine.process import EngineProcess
from gpuruntime.process import process_start_time
from helpers.engine import save_byte_model
from helpers.model import REPOSITORY
from helpers.patience import eventually, soon

REGEX = '{"grammars":[{"lark_grammar":"start: /[ab]{5}/"}]}'
ASKED = [
    SamplingParams(max_tokens=12, temperature=0, logprobs=2, prompt_logprobs=1),
    SamplingParams(max_tokens=9, temperature=1.0, seed=(1 << 63) - 1, top_k=20, top_p=0.9, ignore_eos=True),
    SamplingParams(max_tokens=9, temperature=1.0, seed=-4, presence_penalty=0.5, logit_bias=((7, 3.5),)),
    SamplingParams(max_tokens=30, temperature=0.8, seed=5, grammar=REGEX),
    SamplingParams(max_tokens=20, temperature=0, stop=("\u00e9", "e"), min_tokens=2),
]
# What a door does, told in a process that imports nothing else: its child's pid, whether torch is here, its memory.
DOOR = """
import asyncio, sys
from pathlib import Path
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig
from gpuruntime.process import resident_bytes

async def main():
    config = EngineConfig(Path(sys.argv[1]), dtype="fp32", kv_bytes=1 << 20, threads=1, engine_process=True)
    backend = NativeBackend(config)
    await backend.start()
    own = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    print(backend._engine._process.pid, "torch" in sys.modules, own, resident_bytes(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_byte_model(tmp_path_factory.mktemp("bytes"), context=2048)


@asynccontextmanager
async def running(model: Path, *, apart: bool, **settings: Any) -> AsyncIterator[NativeBackend]:
    given = {"dtype": "fp32", "kv_bytes": 8 << 20, "threads": 1, "engine_process": apart, **settings}
    backend = NativeBackend(EngineConfig(model, **given))
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()


async def said(backend: NativeBackend, number: int, params: SamplingParams) -> list[Delta]:
    prompt = await backend.prepare_text(f"request {number} of these", b"salt")
    return [delta async for delta in backend.generate(f"req_{number}", prompt, params)]


async def read(stream: AsyncIterator[Delta]) -> list[Delta]:
    return [delta async for delta in stream]


def without_figures(delta: Delta) -> Delta:
    """All but what was measured or computed in floating point."""
    scored = tuple(entry and TokenLogprob(entry.token, 0.0, ()) for entry in delta.logprobs)
    prompt = tuple(entry and TokenLogprob(entry.token, 0.0, ()) for entry in delta.prompt_logprobs)
    return replace(delta, timings=None, logprobs=scored, prompt_logprobs=prompt)


def figures(deltas: list[Delta]) -> list[float]:
    entries = [entry for delta in deltas for entry in (*delta.logprobs, *delta.prompt_logprobs) if entry is not None]
    return [figure for entry in entries for figure in (entry.logprob, *(found for _, found in entry.top))]


def pid_of(backend: NativeBackend) -> int:
    assert isinstance(backend._engine, EngineProcess)
    assert backend._engine._process is not None
    return backend._engine._process.pid


async def all_said(model: Path, *, apart: bool) -> tuple[list[list[Delta]], dict[str, float]]:
    async with running(model, apart=apart) as backend:
        found = await asyncio.gather(*(said(backend, number, one) for number, one in enumerate(ASKED)))
        await soon(lambda: not backend.stats().running, "nothing runs")
        backend.audit()
        stats = backend.stats()
        counts = {name: getattr(stats, name) for name in ("prompt_tokens_total", "completion_tokens_total")}
        return found, counts | {"kv": (stats.kv_blocks_free or 0) + (stats.kv_blocks_cached or 0)}


async def test_it_says_what_a_thread_says(model: Path) -> None:
    (apart, apart_counts), (beside, beside_counts) = (
        await all_said(model, apart=True),
        await all_said(model, apart=False),
    )
    for one, other in zip(apart, beside, strict=True):
        # Who shares a step is chance, and PyTorch's products differ in their last bits by its size.
        assert list(map(without_figures, one)) == list(map(without_figures, other))
        assert figures(one) == pytest.approx(figures(other), abs=1e-4)
        timings = one[-1].timings
        assert timings is not None
        assert timings.queue_ms is not None
        assert timings.queue_ms >= 0
    assert apart_counts == beside_counts
    assert apart[3][-1].finish_reason == "stop"


async def test_a_reader_that_leaves_and_an_abort_free_what_they_held(model: Path) -> None:
    long = SamplingParams(max_tokens=1500, temperature=0, ignore_eos=True)
    async with running(model, apart=True) as backend:
        prompt = await backend.prepare_text("left alone", b"")
        left = backend.generate("left", prompt, long)
        async for _ in left:
            break
        await left.aclose()
        aborted = backend.generate("aborted", prompt, replace(long, timeout_s=600))
        deltas = []
        async for delta in aborted:
            deltas.append(delta)
            if len(deltas) == 3:
                assert backend.abort("aborted")
        assert deltas[-1].finish_reason == "abort"
        assert deltas[-1].timings is not None
        late = [delta async for delta in backend.generate("late", prompt, replace(long, timeout_s=0.0))]
        assert late[-1].finish_reason == "abort"
        await soon(lambda: backend.stats().running == 0, "nothing runs")
        backend.audit()


async def test_a_model_that_does_not_load_says_why_in_the_same_words(model: Path) -> None:
    words = []
    for apart in (True, False):
        with pytest.raises(ValueError, match="kv_bytes 1: one block of 16 tokens takes") as caught:
            await running(model, apart=apart, kv_bytes=1).__aenter__()
        words.append(str(caught.value))
    assert words[0] == words[1]


async def test_a_killed_engine_fails_its_streams_and_says_how(model: Path) -> None:
    async with running(model, apart=True) as backend:
        pid = pid_of(backend)
        prompt = await backend.prepare_text("x", b"")
        stream = backend.generate("a", prompt, SamplingParams(max_tokens=1500, temperature=0, ignore_eos=True))
        assert (await anext(stream)).new_tokens
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EngineFailed, match="SIGKILL"):
            await read(stream)
        assert not backend.alive()
        with pytest.raises(EngineFailed, match="SIGKILL"):
            backend.generate("b", prompt, SamplingParams(max_tokens=1))
    assert not psutil.pid_exists(pid)  # nor is there a zombie


async def test_an_output_that_cannot_be_taken_fails_the_streams(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(model, apart=True) as backend:
        engine = backend._engine
        assert isinstance(engine, EngineProcess)
        monkeypatch.setattr(engine, "_deliver", lambda outputs: 1 / 0)
        prompt = await backend.prepare_text("x", b"")
        with pytest.raises(EngineFailed, match="ZeroDivisionError"):
            await read(backend.generate("a", prompt, SamplingParams(max_tokens=3, temperature=0)))
        assert not backend.alive()


async def test_a_request_that_cannot_travel_leaves_nothing_behind(model: Path) -> None:
    async with running(model, apart=True) as backend:
        prompt = await backend.prepare_text("x", b"")
        with pytest.raises(UnicodeEncodeError):
            backend.generate("a", prompt, SamplingParams(max_tokens=3, grammar="\ud800"))
        assert not backend._streams
        assert (await said(backend, 1, SamplingParams(max_tokens=3, temperature=0)))[-1].finish_reason


async def test_a_start_that_is_given_up_ends_the_process_at_once(model: Path) -> None:
    engine = EngineProcess(EngineConfig(model, dtype="fp32", kv_bytes=1 << 20), print, print)
    starting = asyncio.create_task(engine.start())
    await soon(lambda: engine.alive, "the process started")
    assert engine._process is not None
    os.kill(engine._process.pid, signal.SIGSTOP)  # as one that loads for long hears nothing
    starting.cancel()
    await engine.stop()
    assert not psutil.pid_exists(engine._process.pid)
    assert engine._process.returncode == -signal.SIGKILL


async def test_a_folder_too_deep_for_sockets_is_refused(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(ValueError, match="shorten TMPDIR"):
        await running(model, apart=True).__aenter__()


async def test_it_ends_when_told_and_ignores_what_a_terminal_sends_to_all(model: Path) -> None:
    async with running(model, apart=True) as backend:
        pid = pid_of(backend)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
        assert (await said(backend, 1, SamplingParams(max_tokens=3, temperature=0, ignore_eos=True)))[-1].finish_reason
    assert not psutil.pid_exists(pid)


def test_the_door_needs_no_torch_counts_its_engine_and_takes_it_along(model: Path) -> None:
    command = [sys.executable, "-c", DOOR, str(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as door:
        assert door.stdout is not None
        pid, torch, own, counted = door.stdout.readline().split()
        assert torch == "False"
        assert int(counted) > int(own) + (100 << 20)  # torch alone takes more
        door.kill()
    eventually(lambda: process_start_time(int(pid)) is None, "the engine ended with its door")


def test_who_decides(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = EngineConfig(model)
    assert runs_apart(replace(config, engine_process=True))
    assert not runs_apart(config)
    monkeypatch.setattr("gpuruntime.engine.config._NVIDIA", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert runs_apart(config)
    assert not runs_apart(replace(config, backend="cpu"))
    assert not runs_apart(replace(config, engine_process=False))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not runs_apart(config)
