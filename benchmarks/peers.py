"""Our engine beside vLLM, OpenVINO GenAI and llama.cpp on this machine, one at a time and in turns.

    python benchmarks/peers.py [--rounds 3] [--only vllm,openvino,llamacpp,step,divergence] [--json FILE] [--check]

SmolLM2-135M-Instruct everywhere. The peers live in environments of their own under .cache/peers, made when absent.
Each round measures everybody once; a ratio is taken inside its round, and the median of the rounds' ratios counts,
because the machine is shared and its speed changes from minute to minute.

vllm        bf16, the same load client against ours and against vLLM in its default binding and on all cores
openvino    our offline API with int8 weights against OpenVINO's, which reads the GGUF's 4-bit ones
llamacpp    our int8 weights against llama.cpp, which reads the GGUF, one request at a time
step        one decode step of the engine's executor in bf16 and int8 beside the time that its bytes need
divergence  KL of bf16 and int8 to fp32 over a text
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import peers
from benchmarks.common.children import Server, Turns, Worker
from benchmarks.common.client import INPUT_TOKENS, OUTPUT_TOKENS, run_load
from benchmarks.common.executor import shape_of, step_bytes
from benchmarks.common.report import (
    REPOSITORY,
    Targets,
    add_only,
    conclude,
    end_on_signals,
    median,
    options_parser,
    say,
)
from gpuruntime.engine.config import available_cores
from gpuruntime.kernels.native.rates import NativeProbe, written_memory
from gpuruntime.models.config import load_model_config

PROMPTS = {1: 16, 8: 32, 32: 64}  # requests at each concurrency
TEXT = REPOSITORY / "tests" / "helpers" / "passage.txt"
OFFLINE_PROMPT, OFFLINE_OUTPUT = 250, 128
SPEEDUP = 2.0  # output tokens a second, ours over the better peer's
LATENCY = 0.8  # TTFT and TPOT, ours over the better vLLM's
INT8_TPOT = 0.5  # TPOT, ours over llama.cpp's
STEP_FLOOR = 1.5  # an int8 decode step over bytes / bandwidth
PYTHON_MS = 1.0  # of one step at batch 32, beside the executor's call
KL = 0.005  # nats a token, int8 to fp32

Figures = dict[str, Any]


# --- Servers under load -----------------------------------------------------------------------------------------


def measure_served(
    servers: list[Server], model: Path, rounds: int, prompts: dict[int, int]
) -> dict[str, dict[str, list[Figures]]]:
    """Concurrency -> server -> one point a round."""
    program = peers.environment("vllm") / "vllm"
    found: dict[str, dict[str, list[Figures]]] = {str(c): {server.name: [] for server in servers} for c in prompts}
    with Turns() as turns:
        for server in servers:
            turns.start(server)
        for round_ in range(rounds):
            for concurrency, count in prompts.items():
                for server in servers:
                    turns.only(server)
                    say(f"round {round_ + 1}: {server.name}, concurrency {concurrency}, {count} requests")
                    point = run_load(
                        program, server, model, peers.MODEL_NAME,
                        concurrency=concurrency, prompts=count, seed=100 * round_ + concurrency,
                    )  # fmt: skip
                    found[str(concurrency)][server.name].append(asdict(point))
    return found


def against_better(points: dict[str, list[Figures]], key: str, *, more_is_better: bool) -> float:
    """The median over the rounds of ours (the first) over the best of the others."""
    ours, *others = points.values()
    best = max if more_is_better else min
    return median([mine[key] / best(row[key] for row in rows) for mine, *rows in zip(ours, *others, strict=True)])


def ratios(points: dict[str, list[Figures]]) -> Figures:
    return {
        "tokens_per_s": against_better(points, "tokens_per_s", more_is_better=True),
        "ttft_ms": against_better(points, "ttft_ms", more_is_better=False),
        "tpot_ms": against_better(points, "tpot_ms", more_is_better=False),
    }


def served(levels: dict[str, dict[str, list[Figures]]], model: Path, dtype: str) -> Figures:
    """``step_bytes``: what our decode step reads at least, in the middle of a request's answer."""
    shape, context = shape_of(load_model_config(model), dtype), INPUT_TOKENS + OUTPUT_TOKENS // 2
    return {
        "levels": levels,
        "ratios": {concurrency: ratios(points) for concurrency, points in levels.items()},
        "step_bytes": {concurrency: step_bytes(shape, int(concurrency), context) for concurrency in levels},
    }


def run_vllm(rounds: int) -> Figures:
    model, _ = peers.model_paths()
    last = len(os.sched_getaffinity(0)) - 1
    servers = [peers.ours(model, "bf16"), peers.vllm(model, None), peers.vllm(model, f"0-{last}")]
    return served(measure_served(servers, model, rounds, PROMPTS), model, "bf16")


def run_llamacpp(rounds: int) -> Figures:
    model, gguf = peers.model_paths()
    servers = [peers.ours(model, "int8"), peers.llamacpp(gguf)]
    return served(measure_served(servers, model, rounds, {1: PROMPTS[1]}), model, "int8")


# --- Offline ----------------------------------------------------------------------------------------------------


def run_openvino(rounds: int) -> Figures:
    model, gguf = peers.model_paths()
    vocabulary = load_model_config(model).vocab_size
    workers = [peers.ours_offline(model), peers.openvino(gguf)]
    found: dict[str, dict[str, list[Figures]]] = {str(b): {worker.name: [] for worker in workers} for b in PROMPTS}
    with Turns() as turns:
        for worker in workers:
            turns.start(worker)
            _generate(worker, np.random.default_rng(0).integers(1000, vocabulary, (1, 32)), 8)
        for round_ in range(rounds):
            for batch in PROMPTS:
                # New prompts each round: nobody finds the last round's in a cache.
                ids = np.random.default_rng([round_ + 1, batch]).integers(1000, vocabulary, (batch, OFFLINE_PROMPT))
                for worker in workers:
                    turns.only(worker)
                    say(f"round {round_ + 1}: {worker.name}, batch {batch}")
                    found[str(batch)][worker.name].append({"tokens_per_s": _generate(worker, ids, OFFLINE_OUTPUT)})
    rates = {batch: against_better(points, "tokens_per_s", more_is_better=True) for batch, points in found.items()}
    return {"batches": found, "ratios": rates}


def _generate(worker: Worker, ids: np.ndarray[Any, Any], max_tokens: int) -> float:
    """Output tokens a second of one batch."""
    answer = worker.ask({"prompts": ids.tolist(), "max_tokens": max_tokens})
    if answer["tokens"] != len(ids) * max_tokens:
        raise worker.fail(f"generated {answer['tokens']} tokens, {len(ids) * max_tokens} expected")
    return float(answer["tokens"] / answer["seconds"])


# --- The executor alone -----------------------------------------------------------------------------------------


def run_step(_: int) -> Figures:
    model, _gguf = peers.model_paths()
    found = {dtype: _module("decode_step", dtype, str(model)) for dtype in ("bf16", "int8")}
    for measured in found.values():
        measured["ratios"] = {
            batch: median([row["ms"] / row["floor_ms"] for row in rows]) for batch, rows in measured["batches"].items()
        }
    return found


def run_divergence(_: int) -> Figures:
    model, _gguf = peers.model_paths()
    return {dtype: _module("divergence", dtype, str(model), str(TEXT)) for dtype in ("bf16", "int8")}


def _module(name: str, *arguments: str) -> Figures:
    """A measurement in a process of its own; its last line is the result."""
    say(f"{name} {arguments[0]}")
    command = [sys.executable, "-m", f"benchmarks.common.{name}", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    result: Figures = json.loads(done.stdout.splitlines()[-1])
    return result


PARTS: dict[str, Callable[[int], Figures]] = {
    "vllm": run_vllm,
    "openvino": run_openvino,
    "llamacpp": run_llamacpp,
    "step": run_step,
    "divergence": run_divergence,
}


# --- The figures ------------------------------------------------------------------------------------------------


def report(result: Figures) -> None:
    print(f"memory reads {result['bytes_per_s'] / 1e9:.1f} GB/s by two threads in four streams each")
    for part in ("vllm", "llamacpp"):
        if part in result:
            report_served(result[part], result["bytes_per_s"])
    if "openvino" in result:
        print("\nbatch         engine  tokens/s   ours over it")
        for batch, points in result["openvino"]["batches"].items():
            for name, rows in points.items():
                ratio = "" if name.startswith("ours") else f"{result['openvino']['ratios'][batch]:>13.2f}"
                print(f"{batch:>5} {name:>14} {median([row['tokens_per_s'] for row in rows]):>9.1f} {ratio}")
    if "step" in result:
        report_step(result["step"])
    for dtype, measured in result.get("divergence", {}).items():
        print(f"\nKL to fp32, {dtype}: {measured['kl']:.5f} nats a token over {measured['tokens']} tokens")


def report_step(part: Figures) -> None:
    print("\none decode step at 300 tokens of context")
    print("dtype         executor batch       step      floor  step over floor  Python beside it")
    for dtype, measured in part.items():
        for batch, rows in measured["batches"].items():
            ms, floor_ms, python_ms = (median([row[key] for row in rows]) for key in ("ms", "floor_ms", "python_ms"))
            line = f"{dtype:>5} {measured['name']:>16} {batch:>5} {ms:>7.2f} ms {floor_ms:>7.2f} ms"
            print(f"{line} {measured['ratios'][batch]:>16.2f} {python_ms:>14.2f} ms")
            phases = ", ".join(f"{name} {ms:.2f}" for name, ms in measured["phases_ms"][batch].items())
            print(f"      of which {phases} ms" if phases else "", end="\n" if phases else "")


def report_served(part: Figures, bytes_per_s: float) -> None:
    print("\nconcurrency         engine  tokens/s       TTFT       TPOT")
    for concurrency, points in part["levels"].items():
        for name, rows in points.items():
            rate, ttft, tpot = (median([row[key] for row in rows]) for key in ("tokens_per_s", "ttft_ms", "tpot_ms"))
            print(f"{concurrency:>11} {name:>14} {rate:>9.1f} {ttft:>7.1f} ms {tpot:>7.2f} ms")
        ratio = part["ratios"][concurrency]
        print(
            f"{concurrency:>11}     ours over the better {ratio['tokens_per_s']:.2f} tokens/s, "
            f"{ratio['ttft_ms']:.2f} TTFT, {ratio['tpot_ms']:.2f} TPOT; "
            f"our step's bytes need {1000 * part['step_bytes'][concurrency] / bytes_per_s:.1f} ms"
        )


def failures(result: Figures) -> list[str]:
    """Which figure misses its target, and by how much."""
    targets = Targets()
    for concurrency, ratio in result.get("vllm", {}).get("ratios", {}).items():
        targets.at_least(f"tokens/s over vLLM's at concurrency {concurrency}", ratio["tokens_per_s"], SPEEDUP)
        targets.at_most(f"TTFT over vLLM's at concurrency {concurrency}", ratio["ttft_ms"], LATENCY)
        targets.at_most(f"TPOT over vLLM's at concurrency {concurrency}", ratio["tpot_ms"], LATENCY)
    for batch, rate in result.get("openvino", {}).get("ratios", {}).items():
        targets.at_least(f"tokens/s over OpenVINO's at batch {batch}", rate, SPEEDUP)
    for ratio in result.get("llamacpp", {}).get("ratios", {}).values():
        targets.at_most("int8 TPOT over llama.cpp's", ratio["tpot_ms"], INT8_TPOT)
    for dtype, measured in result.get("step", {}).items():
        rows = measured["batches"]["32"]
        targets.at_most(
            f"{dtype}, ms of Python a step at batch 32", median([row["python_ms"] for row in rows]), PYTHON_MS
        )
    if "step" in result:
        targets.at_most(
            "int8 step over bytes / bandwidth at batch 1", result["step"]["int8"]["ratios"]["1"], STEP_FLOOR
        )
    if "divergence" in result:
        targets.at_most("int8 KL to fp32", result["divergence"]["int8"]["kl"], KL)
    return targets.missed


def read_rate() -> float:
    """Bytes/s of reading memory on all cores: the median of five passes over 1 GiB."""
    probe = NativeProbe(available_cores(), written_memory(1 << 30), int8=False)
    return median([probe.bytes_per_s() for _ in range(5)])


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each engine at each level")
    add_only(parser, PARTS)
    options = parser.parse_args()
    end_on_signals()
    result: Figures = {"bytes_per_s": read_rate()}
    for part in options.only:
        result[part] = PARTS[part](options.rounds)
    report(result)
    return conclude(result, failures(result), options)


if __name__ == "__main__":
    sys.exit(main())
