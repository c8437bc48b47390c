"""What the tracing hooks cost the gateway while tracing is off: against the same gateway without the hooks.

    python benchmarks/tracing_off.py [--seconds 0.5] [--pairs 60] [--json FILE] [--check]

Both gateways stand before one stub runtime that answers at once and one Redis, and take turns (A B B A ...) under 32
clients that ask again as soon as they are answered. Throughput is requests per CPU second of the gateway's own process:
what one core carries, however busy the machine is. The other gateway's modules are compiled without the hooks.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import uvloop

from benchmarks.common.report import Targets, conclude, end_on_signals, median, options_parser, percentile, say
from benchmarks.gateway import Slice, child, drive, processes

CLIENTS = 32
ROLES = ("runtime", "hooks", "bare")
LEAST = 0.98
HOOKED = ("berth.gateway.exchange", "berth.gateway.generate")
# Three times a span, once its end, once its begin: a hook that is renamed is one that this no longer takes out.
HOOKS = 5
TRACE = "_trace"


# --- The gateway without hooks ------------------------------------------------------------------------------------


class WithoutHooks(ast.NodeTransformer):
    """Takes out what stands in the source for tracing alone; ``removed`` counts the calls."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_With(self, node: ast.With) -> Any:
        self.generic_visit(node)
        kept = [item for item in node.items if not _of_trace(item.context_expr)]
        self.removed += len(node.items) - len(kept)
        node.items = kept
        return node if kept else node.body

    def visit_Expr(self, node: ast.Expr) -> Any:
        if _of_trace(node.value):
            self.removed += 1
            return None
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "begin":
            self.removed += 1
            return None
        if any(isinstance(target, ast.Attribute) and target.attr == TRACE for target in node.targets):
            return None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "trace"]
        return self.generic_visit(node)


def _of_trace(node: ast.expr) -> bool:
    """``self._trace.something(...)``"""
    called = node.func if isinstance(node, ast.Call) else None
    owner = called.value if isinstance(called, ast.Attribute) else None
    return isinstance(owner, ast.Attribute) and owner.attr == TRACE


class _Loader(SourceFileLoader):
    removed = 0

    def get_code(self, fullname: str) -> CodeType:
        """Never of the cache on disk, which holds the hooks."""
        path = self.get_filename(fullname)
        transformer = WithoutHooks()
        tree = ast.fix_missing_locations(transformer.visit(ast.parse(self.get_data(path))))
        _Loader.removed += transformer.removed
        return compile(tree, path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in HOOKED else None
        if spec is None or spec.origin is None:
            return None
        return importlib.util.spec_from_file_location(fullname, spec.origin, loader=_Loader(fullname, spec.origin))


def take_hooks_out() -> None:
    """For this process, before the gateway is imported."""
    sys.meta_path.insert(0, _Finder())
    for name in HOOKED:
        importlib.import_module(name)
    if _Loader.removed != HOOKS:
        raise SystemExit(f"{_Loader.removed} hooks were taken out and {HOOKS} are known: look at {', '.join(HOOKED)}")


# --- The figures --------------------------------------------------------------------------------------------------


def measure(seconds: float, pairs: int) -> dict[str, Any]:
    from berth.tenants import keys

    for name in ("BERTH_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        os.environ.pop(name, None)
    token = f"key_{'0' * 26}.{keys.new_secret()}"
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as home:
        os.environ["BERTH_HOME"] = home
        with processes(Path(home), token, ROLES, __file__) as started:

            async def turn(role: str, length_s: float) -> Slice:
                port, process = started[role]
                before = _cpu_s(process.pid)
                result = await drive(port, process, streams=CLIENTS, tokens=1, seconds=length_s, token=token)
                result.cpu_s = _cpu_s(process.pid) - before
                return result

            async def turns() -> dict[str, Any]:
                for role in ROLES[1:] * 2:
                    await turn(role, 1.0)  # connections, scripts and caches are warm
                done: dict[str, list[Slice]] = {"hooks": [], "bare": []}
                for number in range(pairs):
                    if number % 10 == 0:
                        say(f"pair {number + 1} of {pairs}")
                    for role in ROLES[1:] if number % 2 else ROLES[:0:-1]:
                        done[role].append(await turn(role, seconds))
                return _figures(done, seconds)

            return uvloop.run(turns())


def _cpu_s(pid: int) -> float:
    """CPU time of a process' threads to the nanosecond: a short turn is but some ticks of 10 ms.

    Source: https://docs.kernel.org/scheduler/sched-stats.html (/proc/PID/schedstat, the first number).
    """
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _figures(done: dict[str, list[Slice]], seconds: float) -> dict[str, Any]:
    a_core = {role: [len(turn.ttft_s) / turn.cpu_s for turn in turns] for role, turns in done.items()}
    ratios = [hooks / bare for hooks, bare in zip(a_core["hooks"], a_core["bare"], strict=True)]
    gateways = {
        role: {
            "requests": sum(len(turn.ttft_s) for turn in turns),
            "failed": sum(turn.failed for turn in turns),
            "requests_per_s": sum(len(turn.ttft_s) for turn in turns) / (len(turns) * seconds),
            "requests_per_cpu_s": median(a_core[role]),
        }
        for role, turns in done.items()
    }
    quartiles = [percentile(ratios, 0.25), percentile(ratios, 0.75)]
    return {"gateways": gateways, "ratio": median(ratios), "ratio_quartiles": quartiles, "pairs": len(ratios)}


def report(result: dict[str, Any]) -> None:
    print("gateway  requests  failed  requests/s  requests a CPU second")
    for role, at in result["gateways"].items():
        print(
            f"{role:>7} {at['requests']:>9} {at['failed']:>7} {at['requests_per_s']:>11.0f}"
            f" {at['requests_per_cpu_s']:>22.0f}"
        )
    low, high = result["ratio_quartiles"]
    print(
        f"with / without, median of {result['pairs']} pairs: {result['ratio']:.3f} (quartiles {low:.3f} to {high:.3f})"
    )


def failures(result: dict[str, Any]) -> list[str]:
    """Which figure misses its target, and by how much."""
    targets = Targets()
    targets.at_least("throughput with the hooks off, of that without them", result["ratio"], LEAST)
    for role, at in result["gateways"].items():
        targets.at_most(f"failed requests, {role}", at["failed"], 0)
    return targets.missed


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one turn")
    parser.add_argument("--pairs", type=int, default=60, help="turns of each gateway")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        role, *rest = options.child
        if role == "bare":
            take_hooks_out()
        child("runtime" if role == "runtime" else "gateway", *rest)
        return 0
    end_on_signals()
    result = measure(options.seconds, options.pairs)
    report(result)
    return conclude(result, failures(result), options)


if __name__ == "__main__":
    sys.exit(main())
