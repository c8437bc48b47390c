"""Which ratio counts, and which figures a check names."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.peers import against_better, failures


def points(*values: float) -> list[dict[str, Any]]:
    return [{"tokens_per_s": value} for value in values]


def test_ours_is_compared_with_the_better_peer_of_its_own_round() -> None:
    rounds = {"ours": points(20, 30, 90), "a": points(10, 10, 10), "b": points(5, 20, 30)}
    # 20 / 10, 30 / 20 and 90 / 30: the median is 2.
    assert against_better(rounds, "tokens_per_s", more_is_better=True) == 2.0
    # Where less is better the better peer is the lower one: 20 / 5, 30 / 10 and 90 / 10.
    assert against_better(rounds, "tokens_per_s", more_is_better=False) == 4.0


def result(**changes: Any) -> dict[str, Any]:
    ratio = {"tokens_per_s": 2.0, "ttft_ms": 0.8, "tpot_ms": 0.8, **changes}
    step = {"ratios": {"1": 1.5}, "batches": {"32": [{"python_ms": 1.0}]}}
    return {
        "vllm": {"ratios": {"8": ratio}},
        "openvino": {"ratios": {"32": 2.0}},
        "llamacpp": {"ratios": {"1": {"tpot_ms": 0.5}}},
        "step": {"int8": step},
        "divergence": {"int8": {"kl": 0.005}},
    }


def test_a_figure_at_its_target_passes() -> None:
    assert failures(result()) == []
    assert failures({"bytes_per_s": 1.0}) == []


@pytest.mark.parametrize(
    ("part", "at", "value", "named"),
    [
        ("vllm", ("ratios", "8", "tokens_per_s"), 1.99, "tokens/s over vLLM's at concurrency 8: 1.99"),
        ("vllm", ("ratios", "8", "ttft_ms"), 0.81, "TTFT over vLLM's at concurrency 8: 0.81"),
        ("vllm", ("ratios", "8", "tpot_ms"), float("nan"), "TPOT over vLLM's at concurrency 8: nan"),
        ("openvino", ("ratios", "32"), 1.5, "OpenVINO's at batch 32: 1.5 (at least 2)"),
        ("llamacpp", ("ratios", "1", "tpot_ms"), 0.6, "int8 TPOT over llama.cpp's: 0.6"),
        ("step", ("int8", "ratios", "1"), 1.6, "int8 step over bytes / bandwidth at batch 1: 1.6"),
        ("step", ("int8", "batches", "32", 0, "python_ms"), 1.2, "ms of Python a step at batch 32: 1.2"),
        ("divergence", ("int8", "kl"), 0.006, "int8 KL to fp32: 0.006"),
    ],
)
def test_a_missed_figure_is_named(part: str, at: tuple[Any, ...], value: float, named: str) -> None:
    figures = result()
    inner = figures[part]
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    (line,) = failures(figures)
    assert named in line
