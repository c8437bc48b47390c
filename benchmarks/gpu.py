"""The Triton kernels on this machine's GPU: correct, and how near to its floors and to its peers.

    python benchmarks/gpu.py [--only correctness,decode,step,prefill,layers] [--budget 340] [--json FILE] [--check]
    python benchmarks/gpu.py --dry-run

Runs from a checkout, with torch (2.11 or later), triton (3.6 or later), numpy and safetensors alone and no network;
under six minutes, most of which compiles kernels. *floor*: bytes over the measured bandwidth, or operations over the
measured matrix rate; *share*: floor over time; *peer*: the best peer's time over ours. A MIG slice is a device like any
other: what does not fit is named. ``--dry-run``: tiny shapes in Triton's interpreter on the CPU, whose times say
nothing. Exit code 1 with ``--check`` when a target of the issue is missed, 2 where there is no GPU.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
if "--dry-run" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # read where a kernel is decorated, which is at its import

import torch
import triton

from benchmarks.common.gpu_attention import decode, prefill
from benchmarks.common.gpu_clock import Bench, Rates, Row, calibrate
from benchmarks.common.gpu_correctness import Finding, correctness
from benchmarks.common.gpu_layers import layers
from benchmarks.common.gpu_step import step
from benchmarks.common.report import Targets, add_only, conclude, end_on_signals, options_parser, say

# In order of worth, for the time may run out.
MEASURED: dict[str, Callable[[Bench, Rates], Iterable[Row]]] = {
    "decode": decode,
    "step": step,
    "prefill": prefill,
    "layers": layers,
}
PARTS = ("correctness", *MEASURED)
DECODE_SHARE, DECODE_PEER, PREFILL_FLASH, STEP_FLOORS = 0.85, 0.95, 0.60, 1.45


def main() -> int:
    parser = options_parser(__doc__)
    add_only(parser, PARTS)
    parser.add_argument("--budget", type=float, default=340.0, help="seconds after which no further case begins")
    parser.add_argument("--dry-run", action="store_true", help="tiny shapes in Triton's interpreter, without a GPU")
    options = parser.parse_args()
    end_on_signals()
    if not options.dry_run and not torch.cuda.is_available():
        say("there is no GPU here; --dry-run goes through the same code on the CPU")
        return 2
    torch.manual_seed(0)
    result = run(Bench(dry=options.dry_run, budget_s=options.budget), options.only)
    return conclude(result, missed(result), options)


def run(bench: Bench, parts: Sequence[str]) -> dict[str, Any]:
    """Every part that is asked for; one that fails is told, and the others go on."""
    result: dict[str, Any] = {
        "device": bench.name,
        "dry_run": bench.dry,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "correctness": [],
        "rows": [],
        "failed": {},
    }
    if not bench.dry:
        properties = torch.cuda.get_device_properties(bench.device)
        result["multiprocessors"] = properties.multi_processor_count
        result["memory_bytes"] = properties.total_memory
    rates = calibrate(bench)
    result["bytes_s"], result["flops"] = rates.bytes_s, rates.flops
    print(f"{bench.name}, torch {torch.__version__}, triton {triton.__version__}")
    print(f"measured {rates.bytes_s / 1e9:.0f} GB/s and {rates.flops / 1e12:.1f} TFLOP/s")
    for part in parts:
        say(part)
        try:
            if part == "correctness":
                for found in correctness(bench):
                    result["correctness"].append(show_finding(found).as_json())
            else:
                for row in MEASURED[part](bench, rates):  # one by one: those before a failure are kept
                    result["rows"].append(show_row(row).as_json())
        except Exception as error:  # whatever it is, the parts behind it are still worth their time
            traceback.print_exc()
            result["failed"][part] = f"{type(error).__name__}: {error}"
    result["left_out"] = bench.left_out
    for line in bench.left_out:
        print(f"left out: {line}")
    return result


def show_finding(found: Finding) -> Finding:
    error = f"{found.error:.1e}" if isinstance(found.error, float) else found.error
    print(f"{'ok   ' if found.holds else 'WRONG'} {found.case:34} {error} (at most {found.tolerance:.0e})")
    return found


def show_row(row: Row) -> Row:
    peers = "  ".join(
        f"{name} {1e6 * found:.1f}" if isinstance(found, float) else f"{name}: {found}"
        for name, found in row.peers.items()
    )
    best = row.best_peer()
    ahead = "" if best is None else f"  peer {best:4.2f}"
    print(
        f"{row.part:8} {row.case:38} {1e6 * row.seconds:10.1f} us  floor {1e6 * row.floor_s:10.1f}"
        f"  {100 * row.share:5.1f} % of {row.bound}{ahead}  {peers}"
    )
    return row


def missed(result: dict[str, Any]) -> list[str]:
    """Targets that are not met, what is wrong, and what failed. A dry run's times say nothing."""
    targets = Targets()
    for found in result["correctness"]:
        if not found["holds"]:
            targets.missed.append(f"{found['case']}: {found['error']} (at most {found['tolerance']})")
    targets.missed += [f"{part} failed: {reason}" for part, reason in result["failed"].items()]
    for row in () if result["dry_run"] else result["rows"]:
        _judge(targets, row)
    return targets.missed


def _judge(targets: Targets, row: dict[str, Any]) -> None:
    name, shape = f"{row['part']}, {row['case']}", row["shape"]
    if row["part"] == "decode" and shape["batch"] >= 16 and shape["context"] >= 4096:
        targets.at_least(f"{name}: share of bandwidth", row["share"], DECODE_SHARE)
        if row["best_peer_over_ours"] is not None:
            targets.at_least(f"{name}: best peer's time over ours", row["best_peer_over_ours"], DECODE_PEER)
    if row["part"] == "prefill" and isinstance(row["peers"].get("flash"), float):
        flash = row["peers"]["flash"] / row["seconds"]
        targets.at_least(f"{name}: FlashAttention's time over ours", flash, PREFILL_FLASH)
    if row["part"] == "step" and shape["batch"] == 64:
        targets.at_most(f"{name}: time over floor", row["seconds"] / row["floor_s"], STEP_FLOORS)


if __name__ == "__main__":
    sys.exit(main())
