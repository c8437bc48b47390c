"""vLLM's own load client, ``vllm bench serve``, against one server: the same tool for everybody."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.children import Server

INPUT_TOKENS, OUTPUT_TOKENS = 256, 128
TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Point:
    """One run of the client: output tokens a second, and the medians over its requests in milliseconds."""

    tokens_per_s: float
    ttft_ms: float
    tpot_ms: float


def run_load(
    program: Path, server: Server, model: Path, model_name: str, *, concurrency: int, prompts: int, seed: int
) -> Point:
    """Random prompts, greedy, never ended early. Raises ``SystemExit`` when a request failed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(str(program), "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions"),
            *("--base-url", server.url, "--model", model_name, "--tokenizer", str(model)),
            *("--dataset-name", "random", "--random-input-len", str(INPUT_TOKENS)),
            *("--random-output-len", str(OUTPUT_TOKENS)),
            *("--num-prompts", str(prompts), "--max-concurrency", str(concurrency), "--num-warmups", "1"),
            *("--ignore-eos", "--temperature", "0", "--seed", str(seed), "--disable-tqdm"),
            *("--save-result", "--result-dir", folder, "--result-filename", "result.json"),
        ]
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none", "VLLM_NO_USAGE_STATS": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        result = Path(folder, "result.json")
        if not result.exists():
            raise SystemExit(f"{server.name}, concurrency {concurrency}: the client failed\n{done.stderr[-1500:]}")
        figures = json.loads(result.read_text())
    if figures["completed"] != prompts:
        failed = prompts - figures["completed"]
        raise server.fail(f"{failed} of {prompts} requests failed at concurrency {concurrency}")
    return Point(figures["output_throughput"], figures["median_ttft_ms"], figures["median_tpot_ms"])
