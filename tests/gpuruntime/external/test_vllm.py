"""vLLM for real, behind our door: the same frames, the same counting, and no child left behind.

Runs with ``make test-external`` (tests/helpers/setup_vllm.sh makes the environment); starting takes a minute or more.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers.door import AUTH, REPOSITORY, RuntimeProcess, sse
from helpers.model import smollm2_dir

__all__ = ["smollm2_dir"]
pytestmark = [pytest.mark.external, pytest.mark.timeout(900)]
VLLM = REPOSITORY / ".cache" / "peers" / "vllm" / "bin" / "vllm"
ENGINE = {"engine": "vllm", "max_model_len": 512, "max_num_seqs": 8, "kv_bytes": 128 << 20, "dtype": "bf16"}


@pytest.fixture(autouse=True)
def vllm_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert VLLM.exists(), "run tests/helpers/setup_vllm.sh first"
    monkeypatch.setenv("BERTH_VLLM_BIN", str(VLLM))


@pytest.fixture
def runtime(tmp_path: Path, smollm2_dir: Path, vllm_program: None) -> Iterator[RuntimeProcess]:
    process = RuntimeProcess(tmp_path, smollm2_dir, engine=ENGINE)
    yield process
    process.end()


def descendants(runtime: RuntimeProcess) -> list[psutil.Process]:
    return psutil.Process(runtime.process.pid).children(recursive=True)


def gone(processes: list[psutil.Process], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes):
            return True
        time.sleep(0.1)
    return False


def asked(runtime: RuntimeProcess, path: str, **body: object) -> Any:
    request = urllib.request.Request(f"{runtime.url}{path}", json.dumps(body).encode(), AUTH)
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())


def check_the_other_endpoints(runtime: RuntimeProcess) -> None:
    """Texts, choices, log probabilities and every sampling field; what vLLM scores for no stream is refused."""
    sampling = {
        "temperature": 0, "top_k": 5, "min_p": 0.1, "presence_penalty": 0.1, "frequency_penalty": 0.1,
        "repetition_penalty": 1.1, "logit_bias": {"5": -1}, "min_tokens": 2, "stop_token_ids": [3], "seed": 1,
    }  # fmt: skip
    prompt = "Paris is the capital of"
    text = asked(
        runtime, "/v1/completions", model="m", prompt=prompt, max_tokens=6, n=2, echo=False, logprobs=2, **sampling
    )
    first, second = text["choices"]
    assert first["text"] == second["text"] == "".join(first["logprobs"]["tokens"])
    assert all(math.isfinite(value) and value <= 0 for value in first["logprobs"]["token_logprobs"])
    assert (text["usage"]["completion_tokens"], text["usage"]["prompt_tokens"]) == (12, 5)
    tokens = asked(runtime, "/tokenize", prompt=prompt)["tokens"]
    by_ids = asked(runtime, "/v1/completions", model="m", prompt=tokens, max_tokens=6, echo=True, **sampling)
    assert by_ids["choices"][0]["text"] == prompt + first["text"]
    chat = asked(
        runtime, "/v1/chat/completions", model="m", messages=[{"role": "user", "content": "hi"}], max_tokens=4,
        temperature=0, logprobs=True, top_logprobs=1,
    )  # fmt: skip
    content = chat["choices"][0]["logprobs"]["content"]
    assert "".join(entry["token"] for entry in content).startswith(chat["choices"][0]["message"]["content"])
    with pytest.raises(urllib.error.HTTPError) as refused:
        asked(runtime, "/v1/completions", model="m", prompt="x", prompt_logprobs=1)
    assert (refused.value.code, json.loads(refused.value.read())["error"]["param"]) == (400, "prompt_logprobs")


def post(runtime: RuntimeProcess, **fields: object) -> urllib.request.Request:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        **fields,
    }
    headers = {**AUTH, "x-berth-tenant": "ten_a"}
    return urllib.request.Request(f"{runtime.url}/v1/chat/completions", json.dumps(body).encode(), headers)


def test_vllm_serves_and_is_counted_like_our_own_engine(runtime: RuntimeProcess) -> None:
    assert runtime.wait_for("ready", "failed", timeout_s=600).state == "ready", runtime.logged()
    with urllib.request.urlopen(post(runtime, max_tokens=20)) as response:
        frames = sse(response.read())
    text = "".join(f["choices"][0]["delta"].get("content") or "" for f in frames[:-2])
    assert "Paris" in text
    usage = frames[-2]
    counts = [f["usage"]["completion_tokens"] for f in frames[:-2]]
    assert counts == sorted(counts)
    assert counts[-1] == usage["usage"]["completion_tokens"] > 5
    assert usage["berth"]["ideal_s"] is None
    assert usage["berth"]["new_prompt_tokens"] == usage["usage"]["prompt_tokens"]
    check_the_other_endpoints(runtime)

    with urllib.request.urlopen(post(runtime, max_tokens=400, ignore_eos=True)) as response:
        response.readline()  # and leave
    deadline = time.monotonic() + 20
    while runtime.spooled()[-1]["outcome"] != "client_left" and time.monotonic() < deadline:
        time.sleep(0.1)
    completed, *_, left = runtime.spooled()
    assert (completed["outcome"], left["outcome"]) == ("completed", "client_left")
    assert completed["completion_tokens"] == counts[-1]
    assert left["completion_tokens"] < 400

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(post(runtime, messages=[{"role": "user", "content": "word " * 600}]))
    assert refused.value.code == 400

    children = descendants(runtime)
    children[0].kill()
    assert runtime.process.wait(timeout=30) == 1
    run = runtime.state()
    assert run is not None
    assert (run.state, run.reason) == ("failed", "the engine died; see the log")
    assert gone(children, 15)


def test_a_killed_runtime_takes_its_vllm_with_it(runtime: RuntimeProcess) -> None:
    runtime.wait_for("loading")
    deadline = time.monotonic() + 60
    while not descendants(runtime) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(3)
    children = descendants(runtime)
    assert children
    os.kill(runtime.process.pid, signal.SIGKILL)
    runtime.process.wait()
    assert gone(children, 20)
