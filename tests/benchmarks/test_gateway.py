"""``benchmarks/gateway.py --check``: which figure is held to which limit."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gateway import failures


def level(p50: float, p99: float, *, failed: int = 0, threads: int = 5) -> dict[str, Any]:
    bare = {"ttft_ms": {"p50": 1.0, "p99": 4.0}, "failed": 0, "threads": 5}
    return {"proxy": bare, "gateway": {"ttft_ms": {"p50": p50, "p99": p99}, "failed": failed, "threads": threads}}


@pytest.mark.parametrize(
    ("levels", "missed"),
    [
        ({"1": level(9, 90), "200": level(2.0, 6.0)}, []),
        ({"200": level(2.1, 6.0)}, ["ms over the bare proxy's TTFT p50 at 200 streams: 1.1 (at most 1)"]),
        ({"200": level(2.0, 6.4)}, ["times the bare proxy's TTFT p99 at 200 streams: 1.6 (at most 1.5)"]),
        ({"500": level(2.0, 6.0, failed=3)}, ["failed at 500 streams: 3 (at most 0)"]),
        (
            {"1": level(2.0, 6.0), "32": level(2.0, 6.0, threads=37)},
            ["threads more at one level than at another: 32 (at most 0)"],
        ),
    ],
)
def test_a_missed_figure_is_named(levels: dict[str, Any], missed: list[str]) -> None:
    assert failures({"levels": levels}) == missed
    assert failures({"peers": {"200": {"gateway": level(9, 90)["gateway"]}}}) == []
