"""What a live window carries is enough to derive the figures of a longer time, in Python and in the console."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from berth.metering.figures import HISTOGRAMS, SUMS, figures, live_figures
from gpuruntime.goodput import Window

# The console's tests read the same file, so both sides derive the same figures from the same windows.
SHARED = Path(__file__).parents[3] / "frontend" / "tests" / "live" / "windows.json"


def window_of(shown: dict[str, Any]) -> Window:
    """The window behind a live cell, from what the console is sent."""
    data = {name: value for name, value in shown.items() if name in Window.__dataclass_fields__}
    return Window.from_json(data | shown["histograms"] | {"reasons": shown["late"]})


def test_the_shared_windows_come_to_the_shared_figures() -> None:
    shared = json.loads(SHARED.read_text())
    total = Window()
    for shown in shared["windows"]:
        window = window_of(shown)
        assert shown == live_figures(window)
        total.merge(window)
    assert figures(total) == shared["together"]
    assert max(shown["factors"]["R"] or 0.0 for shown in shared["windows"]) > 1 > shared["together"]["factors"]["R"]


def test_an_idle_second_carries_no_empty_histogram() -> None:
    shown = live_figures(Window(provisioned_s=1.0, busy_s=1 / 3))
    assert shown["histograms"] == {}
    assert [shown[name] for name in SUMS] == [0.0, 0.0, 0.0, 0.333333, 1.0]
    assert set(HISTOGRAMS) == {"ttft", "tpot", "fluidity"}
