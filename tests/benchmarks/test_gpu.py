"""The GPU's benchmark where there is none: it goes through all its code, and judges figures as its targets say."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu
from benchmarks.common.gpu_clock import Bench, Rates, Row, attempt
from benchmarks.gpu import missed

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "benchmarks" / "gpu.py"
# What the image of a GPU has; torch and triton bring their own requirements.
IMPORTS = """
import sys
import numpy, safetensors, torch, triton
before = {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names
sys.argv = ["gpu.py", "--dry-run"]
sys.path.insert(0, "REPOSITORY")
import benchmarks.gpu
print(sorted({name.partition(".")[0] for name in sys.modules} - before))
"""


def script(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)


def test_a_dry_run_goes_through_every_part(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    ended = script("--dry-run", "--check", "--json", str(file))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(file.read_text())
    assert {row["part"] for row in found["rows"]} == {"decode", "step", "prefill", "layers"}
    assert all(row["seconds"] > 0 and row["floor_s"] > 0 for row in found["rows"])
    assert found["correctness"]
    assert all(one["holds"] for one in found["correctness"])
    assert (found["failed"], found["left_out"]) == ({}, [])


def test_the_time_it_is_given_ends_it(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    assert script("--dry-run", "--budget", "0", "--json", str(file)).returncode == 0
    found = json.loads(file.read_text())
    assert (found["rows"], found["correctness"]) == ([], [])
    assert "decode batch 2, context 33: the time was up" in found["left_out"]


def test_it_imports_nothing_that_the_image_of_a_gpu_lacks() -> None:
    code = IMPORTS.replace("REPOSITORY", str(REPOSITORY))
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/").stdout
    assert printed.strip() == "['benchmarks', 'gpuruntime']"


def test_without_a_gpu_it_says_so() -> None:
    ended = subprocess.run(
        [sys.executable, str(SCRIPT)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no GPU" in ended.stderr


def figures(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"dry_run": False, "correctness": [], "rows": list(rows), "failed": {}, **more}


def row(part: str, seconds: float = 1.0, **more: Any) -> dict[str, Any]:
    given = {"floor_s": 0.9, "peers": {}, "best_peer_over_ours": None, "shape": {"batch": 64, "context": 4096}, **more}
    return {"part": part, "case": "c", "seconds": seconds, "share": given["floor_s"] / seconds, **given}


@pytest.mark.parametrize(
    ("met", "not_met", "named"),
    [
        (row("decode", floor_s=0.85), row("decode", floor_s=0.8499), "share of bandwidth"),
        (row("decode", best_peer_over_ours=0.95), row("decode", best_peer_over_ours=0.949), "best peer"),
        (row("prefill", peers={"flash": 0.6}), row("prefill", peers={"flash": 0.599}), "FlashAttention"),
        (row("step", 1.45, floor_s=1.0), row("step", 1.46, floor_s=1.0), "over floor"),
        (row("step", 1.0, floor_s=1.0), row("step", math.nan, floor_s=1.0), "over floor"),
    ],
)
def test_each_target_is_met_at_its_limit_and_named_beyond_it(
    met: dict[str, Any], not_met: dict[str, Any], named: str
) -> None:
    assert missed(figures(met)) == []
    (line,) = missed(figures(met, not_met))
    assert named in line


def test_what_the_targets_leave_out_is_not_judged() -> None:
    small = [
        row("decode", floor_s=0.1, shape={"batch": 1, "context": 4096}),
        row("decode", floor_s=0.1, shape={"batch": 64, "context": 1024}),
        row("step", 9.0, shape={"batch": 16, "context": 1024}),
        row("prefill", peers={"flash": "not there"}),
    ]
    assert missed(figures(*small)) == []
    assert missed(figures(row("step", 9.0), dry_run=True)) == []


def test_a_wrong_result_and_a_part_that_failed_are_misses_even_of_a_dry_run() -> None:
    wrong = {"case": "sample", "error": 0.5, "tolerance": 0.001, "holds": False}
    found = figures(dry_run=True, correctness=[wrong], failed={"decode": "RuntimeError: no"})
    assert missed(found) == ["sample: 0.5 (at most 0.001)", "decode failed: RuntimeError: no"]


def test_a_part_that_fails_keeps_the_rows_before_it_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(bench: Bench, rates: Rates) -> Iterator[Row]:
        yield Row("decode", "first", 1.0, 0.5, "bandwidth")
        raise OSError("no device")

    monkeypatch.setitem(gpu.MEASURED, "decode", failing)
    monkeypatch.setitem(gpu.MEASURED, "step", lambda bench, rates: [Row("step", "second", 1.0, 0.5, "bandwidth")])
    found = gpu.run(Bench(dry=True, budget_s=60), ["decode", "step"])
    assert [row["case"] for row in found["rows"]] == ["first", "second"]
    assert found["failed"] == {"decode": "OSError: no device"}


@pytest.mark.parametrize(
    ("raised", "named"),
    [
        (ModuleNotFoundError("flashinfer"), "not installed"),
        (subprocess.CalledProcessError(1, "ninja"), "CalledProcessError"),
        (KeyError(), "KeyError"),
    ],
)
def test_a_peer_that_raises_anything_is_named(raised: Exception, named: str) -> None:
    def measure() -> float:
        raise raised

    assert str(attempt(measure)).startswith(named)


def test_fp8_is_left_out_and_named_where_the_device_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(dry=True, budget_s=60)
    bench.dry = False
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    assert [bench.has_types(case) for case in ("kv_write, fp8", "kv_write, int8")] == [False, True]
    assert bench.left_out == ["kv_write, fp8: it takes a compute capability of 8.9"]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 9))
    assert bench.has_types("kv_write, fp8")
