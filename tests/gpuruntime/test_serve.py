"""The replica's process with the native engine and the real model: start, serve, drain, crash, failure."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest
from websockets.asyncio.server import ServerConnection, serve

from gpuruntime.modelinfo import LIBRARY_BYTES, memory_needs, read_model
from gpuruntime.process import is_process, process_start_time
from gpuruntime.protocol import Ended, EndedAck, RuntimeHello, Stats, decode_runtime, encode
from helpers.door import AUTH, REPOSITORY, TOKEN, RuntimeProcess
from helpers.model import smollm2_dir, smollm2_gguf

__all__ = ["smollm2_dir", "smollm2_gguf"]
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def runtime(smollm2_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeProcess]:
    process = RuntimeProcess(tmp_path_factory.mktemp("runtime"), smollm2_dir)
    process.wait_for("ready", "failed")
    yield process
    process.end()


def client(runtime: RuntimeProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{runtime.url}/v1", api_key=TOKEN, max_retries=0)


def chat(runtime: RuntimeProcess, **fields: Any) -> Any:
    body = {"model": "m", "messages": QUESTION, "temperature": 0, **fields}
    request = urllib.request.Request(f"{runtime.url}/v1/chat/completions", json.dumps(body).encode(), AUTH)
    return urllib.request.urlopen(request, timeout=60)


def wait(condition: Any, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def test_the_official_client_streams_the_answer(runtime: RuntimeProcess) -> None:
    stream = client(runtime).chat.completions.create(
        model="m", messages=QUESTION, temperature=0, stream=True, stream_options={"include_usage": True}  # type: ignore[arg-type]
    )  # fmt: skip
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "The capital of France is Paris."
    assert chunks[-1].usage is not None
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert sum(1 for chunk in chunks if chunk.choices and chunk.choices[0].delta.content) >= 6


def test_the_official_client_understands_a_refusal(runtime: RuntimeProcess) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client(runtime).chat.completions.create(model="m", messages=QUESTION, temperature=9)  # type: ignore[arg-type]
    assert caught.value.param == "temperature"


def test_a_head_without_end_is_cut_off_at_a_door_too(runtime: RuntimeProcess) -> None:
    def send(plug: socket.socket) -> None:
        plug.sendall(b"GET /health HTTP/1.1\r\n")
        for _ in range(10_000):
            plug.sendall(b"x-filler: " + b"a" * 8000 + b"\r\n")
            time.sleep(0.001)

    address = ("127.0.0.1", int(runtime.url.rpartition(":")[2]))
    with socket.create_connection(address, 20) as plug, pytest.raises(ConnectionError):
        send(plug)


def test_the_run_file_identifies_the_process(runtime: RuntimeProcess) -> None:
    run = runtime.state()
    assert run is not None
    assert run.pid == runtime.process.pid
    assert is_process(run.pid, run.start_time)
    assert run.start_time == pytest.approx(psutil.Process(run.pid).create_time() - psutil.boot_time(), abs=1.1)
    assert os.getsid(run.pid) == run.pid
    assert run.memory_bytes > 200 << 20


def test_memory_is_what_was_predicted_and_no_weight_file_stays_mapped(tmp_path: Path, smollm2_dir: Path) -> None:
    """With all KV blocks in use; another neighbour of the machine changes neither number."""
    needs = memory_needs(read_model(smollm2_dir), kv_bytes=64 << 20)
    runtime = RuntimeProcess(tmp_path, smollm2_dir, engine={"kv_bytes": 64 << 20})
    try:
        ready = runtime.wait_for("ready", "failed")
        assert ".safetensors" not in Path(f"/proc/{ready.pid}/maps").read_text()

        def fill(index: int) -> None:
            question = [{"role": "user", "content": f"{index} " * 200}]
            with chat(runtime, messages=question, max_tokens=2) as response:
                response.read()

        threads = [threading.Thread(target=fill, args=(index,)) for index in range(11, 11 + 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert needs.kv_capacity_tokens < 20 * 200
        memory = psutil.Process(ready.pid).memory_info()
        assert memory.rss - memory.shared == pytest.approx(needs.total_bytes - LIBRARY_BYTES, rel=0.05)
    finally:
        runtime.end()


def test_a_client_that_leaves_frees_the_engine(runtime: RuntimeProcess) -> None:
    before = len(runtime.spooled())
    with chat(runtime, stream=True, max_tokens=1500, ignore_eos=True) as response:
        response.readline()
    wait(lambda: len(runtime.spooled()) == before + 1)
    ended = runtime.spooled()[-1]
    assert ended["outcome"] == "client_left"
    assert 0 < ended["completion_tokens"] < 1000
    assert ended["prefill_ms"] > 0
    assert ended["cached_tokens"] % 16 == 0


def test_a_zombie_and_a_stranger_are_no_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    wait(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert process_start_time(child.pid) is None
    child.wait()
    assert process_start_time(child.pid) is None
    own = process_start_time(os.getpid())
    assert own is not None
    assert not is_process(os.getpid(), own + 1)


def test_a_killed_runtime_loses_no_count_and_its_successor_keeps_it(tmp_path: Path, smollm2_dir: Path) -> None:
    first = RuntimeProcess(tmp_path, smollm2_dir)
    try:
        first.wait_for("ready")
        with chat(first, max_tokens=3) as response:
            answer = json.load(response)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        assert [ended["completion_tokens"] for ended in first.spooled()] == [answer["usage"]["completion_tokens"]]
    finally:
        first.end()
    second = RuntimeProcess(tmp_path, smollm2_dir)
    try:
        second.wait_for("loading")
        kept = second.spooled()
        assert [ended["request_id"] for ended in kept] == [answer["id"].removeprefix("chatcmpl-")]
        # while it loads: health says so, chat asks to come back, and SIGTERM stops at once
        with pytest.raises(urllib.error.HTTPError) as refused:
            chat(second)
        assert (refused.value.code, refused.value.headers["retry-after"]) == (503, "1")
        second.process.terminate()
        assert second.process.wait(timeout=10) == 0
        assert second.state().state == "stopped"  # type: ignore[union-attr]
        assert second.spooled() == kept
    finally:
        second.end()


def test_a_drain_finishes_what_runs_and_takes_nothing_new(tmp_path: Path, smollm2_dir: Path) -> None:
    runtime = RuntimeProcess(tmp_path, smollm2_dir)
    try:
        runtime.wait_for("ready")
        answers: list[Any] = []
        with chat(runtime, stream=True, max_tokens=60, ignore_eos=True) as response:
            response.readline()
            runtime.process.terminate()
            runtime.wait_for("draining")
            with pytest.raises(urllib.error.HTTPError) as refused:
                chat(runtime)
            assert refused.value.code == 503
            answers.append(response.read())
        assert answers[0].rstrip().endswith(b"data: [DONE]")
        assert runtime.process.wait(timeout=15) == 0
        run = runtime.state()
        assert run is not None
        assert (run.state, runtime.spooled()[0]["completion_tokens"]) == ("stopped", 60)
    finally:
        runtime.end()


async def test_a_drained_runtime_leaves_when_all_it_counted_was_acknowledged(tmp_path: Path, smollm2_dir: Path) -> None:
    received: list[Any] = []

    async def control_plane(ws: ServerConnection) -> None:
        async for data in ws:
            received.append(decode_runtime(data))
            if isinstance(received[-1], Ended):
                await asyncio.sleep(0.5)
                await ws.send(encode(EndedAck(request_ids=[r.request_id for r in received[-1].requests])))

    async with serve(control_plane, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        runtime = RuntimeProcess(tmp_path, smollm2_dir, control_url=f"ws://127.0.0.1:{port}")
        try:
            await asyncio.to_thread(runtime.wait_for, "ready")
            answer = await asyncio.to_thread(lambda: json.load(chat(runtime, max_tokens=3)))
            runtime.process.terminate()
            assert await asyncio.to_thread(runtime.process.wait, 15) == 0
        finally:
            runtime.end()
    assert isinstance(received[0], RuntimeHello)
    assert [message.state for message in received if isinstance(message, Stats)][-1] == "draining"
    ended = [request for message in received if isinstance(message, Ended) for request in message.requests]
    assert [request.completion_tokens for request in ended] == [answer["usage"]["completion_tokens"]]
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_bounded_drain_ends_with_an_error_frame_and_a_second_signal_is_quicker(
    tmp_path: Path, smollm2_dir: Path
) -> None:
    for replica_id, limit_s, signals in (("rep_bound", 0.3, 1), ("rep_twice", 600.0, 2)):
        runtime = RuntimeProcess(tmp_path, smollm2_dir, replica_id=replica_id, drain_timeout_s=limit_s)
        try:
            runtime.wait_for("ready")
            with chat(runtime, stream=True, max_tokens=2500, ignore_eos=True) as response:
                response.readline()
                for _ in range(signals):
                    runtime.process.terminate()
                    time.sleep(0.2)
                rest = response.read()
            assert json.loads(rest.strip().split(b"data: ")[-1])["error"]["code"] == "replica_stopped"
            assert runtime.process.wait(timeout=15) == 0
            assert runtime.spooled()[-1]["outcome"] == "truncated"
            run = json.loads(runtime.run_file.read_text())
            assert run["state"] == "stopped"
            assert run["reason"].startswith("1 requests were cut off, "), "whoever reads the replica's end is told"
        finally:
            runtime.end()


def test_it_outlives_the_reader_of_its_output(tmp_path: Path, smollm2_dir: Path) -> None:
    """The agent dies: the pipe that took our log has no reader any more."""
    command = [sys.executable, "-m", "gpuruntime", "serve", "--model", str(smollm2_dir), "--token", "t", "--name", "m"]
    process = subprocess.Popen(
        [*command, "--kv-bytes", str(64 << 20)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline().decode()
        assert "m is ready at http://127.0.0.1:" in line
        process.stdout.close()
        process.stderr.close()
        base = line.split(" ready at ")[1].strip()
        answer = openai.OpenAI(base_url=base, api_key="t").chat.completions.create(
            model="m", messages=QUESTION, temperature=0  # type: ignore[arg-type]
        )  # fmt: skip
        assert answer.choices[0].message.content == "The capital of France is Paris."
        process.terminate()
        assert process.wait(timeout=15) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x10" * 64), "safetensors"),
    ],
)
def test_a_model_that_cannot_be_loaded_fails_with_its_reason(
    tmp_path: Path, smollm2_dir: Path, spoil: Any, reason: str
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for file in smollm2_dir.iterdir():
        (model / file.name).symlink_to(file)
    if (model / "model.safetensors").exists():
        (model / "model.safetensors").unlink()
    spoil(model)
    runtime = RuntimeProcess(tmp_path, model)
    try:
        assert reason in runtime.wait_for("failed").reason
        assert runtime.process.wait(timeout=10) == 1
    finally:
        runtime.end()


def test_a_taken_port_is_named(tmp_path: Path, smollm2_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        runtime = RuntimeProcess(tmp_path, smollm2_dir, port=port)
        try:
            assert str(port) in runtime.wait_for("failed").reason
            assert runtime.process.wait(timeout=10) == 1
        finally:
            runtime.end()


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (b"{", "not usable"),
        (b'{"replica_id": 3}', "replica_id"),
        (
            b'{"replica_id":"r","deployment":"d","model_path":"","served_model_name":"m","token":"","run_file":""}',
            "token",
        ),
    ],
)
def test_an_unusable_configuration_says_why(stdin: bytes, message: str) -> None:
    command = [sys.executable, "-m", "gpuruntime", "serve"]
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=REPOSITORY, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()


def test_a_gguf_file_is_answered_with_the_way_to_convert_it(smollm2_gguf: Path) -> None:
    command = [sys.executable, "-m", "gpuruntime", "serve", "--model", str(smollm2_gguf)]
    done = subprocess.run(command, capture_output=True, cwd=REPOSITORY, check=False)
    assert (done.returncode, b"gpuruntime.loading.convert" in done.stderr) == (2, True)


def test_the_door_opens_before_torch_is_imported() -> None:
    code = "import sys, gpuruntime.door.serve; print('torch' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=REPOSITORY, check=True)
    assert done.stdout.split() == [b"False", b"False"]


def test_fifty_streams_at_once_are_all_counted(runtime: RuntimeProcess) -> None:
    before = {ended["request_id"] for ended in runtime.spooled()}
    counts: list[int] = []

    def one() -> None:
        with chat(runtime, max_tokens=4, ignore_eos=True) as response:
            counts.append(json.load(response)["usage"]["completion_tokens"])

    threads = [threading.Thread(target=one) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    new = [ended for ended in runtime.spooled() if ended["request_id"] not in before]
    assert (len(new), sum(ended["completion_tokens"] for ended in new)) == (50, sum(counts)) == (50, 200)
