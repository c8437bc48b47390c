"""What a console is shown of a window: the derived figures, and what those of a longer time are made from.

Percentiles and factors of several seconds follow from added histograms and seconds, never from a mean of what each
second derived; so a live window carries both, and the console adds them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from berth.metering.cells import CellKey, merged
from gpuruntime.goodput import Histogram, Window


def figures(window: Window) -> dict[str, Any]:
    fluidity = window.fluidity.percentile(0.05)
    return {
        "offered": window.offered,
        "good": window.good,
        "late": dict(window.reasons),
        "tokens": window.tokens,
        "good_tokens": window.good_tokens,
        "over_quota": window.over_quota,
        "left_early": window.left_early,
        "invalid": window.invalid,
        "goodput": window.goodput,
        "attainment": window.attainment,
        "ttft_ms": percentiles(window.ttft),
        "tpot_ms": percentiles(window.tpot),
        "fluidity_p5": None if fluidity is None else max(0.0, min(1.0, (fluidity - 1) / 1e6)),
        "factors": window.factors,
    }


SUMS = ("good_ideal_s", "delivered_ideal_s", "executed_ideal_s", "busy_s", "provisioned_s")
HISTOGRAMS = ("ttft", "tpot", "fluidity")


def live_figures(window: Window) -> dict[str, Any]:
    """``figures`` with device-seconds to the microsecond, and the histograms that hold anything, sparse."""
    shown = figures(window)
    shown |= {name: round(getattr(window, name), 6) for name in SUMS}
    filled = {name: getattr(window, name).to_json() for name in HISTOGRAMS if getattr(window, name).counts}
    return shown | {"histograms": filled}


def percentiles(histogram: Histogram, qs: Iterable[float] = (0.5, 0.95)) -> dict[str, float | None]:
    """In milliseconds; None of an empty histogram."""

    def ms(q: float) -> float | None:
        value = histogram.percentile(q)
        return None if value is None else value / 1000

    return {f"p{q * 100:g}": ms(q) for q in qs}


def grouped(cells: Mapping[CellKey, Window], key: Callable[[CellKey], str]) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Window]] = {}
    for cell, window in cells.items():
        if name := key(cell):
            groups.setdefault(name, []).append(window)
    return {name: live_figures(merged(windows)) for name, windows in sorted(groups.items())}


def window_message(
    scope: str,
    at: int,
    cells: Mapping[CellKey, Window],
    *,
    seconds: int = 1,
    devices: Mapping[str, int],
    replicas: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """One scope's ``seconds`` until the end of second ``at``, as docs/contracts.md has it."""
    return {
        "type": "window",
        "scope": scope,
        "at": at,
        "seconds": seconds,
        "total": live_figures(merged(cells.values())),
        "classes": grouped(cells, lambda cell: cell.class_name),
        "deployments": grouped(cells, lambda cell: cell.deployment_id),
        "devices": dict(devices),
        "replicas": list(replicas),
    }
