from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.cutters import simulated
from helpers.slices import KeeperBench
from scheduler.node.slices import model
from scheduler.node.slices.keeper import end_daemons

NewBench = Callable[..., KeeperBench]


@pytest.fixture(autouse=True)
def _tries_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "FIRST_RETRY_S", 0.0)


@pytest.fixture(autouse=True)
def _loses_no_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an agent's death leaves in the kernel is not lost; waiting for the disk is most of a test's time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def make_rig() -> Callable[..., Any]:
    """A maker of ``helpers.cutters``; modules whose tests are quick go through several."""
    return simulated


@pytest.fixture
def new_bench(tmp_path: Path, make_rig: Callable[..., Any]) -> Iterator[NewBench]:
    made: list[KeeperBench] = []

    def make(board: str = "h100-sxm-80gb") -> KeeperBench:
        made.append(KeeperBench(make_rig(tmp_path / "devices", board), tmp_path / "agent"))
        return made[-1]

    (tmp_path / "agent").mkdir()
    yield make
    for bench in made:
        end_daemons(bench.folder, boot=bench.rig.boot)
