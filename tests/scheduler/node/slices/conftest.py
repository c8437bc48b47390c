from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.cutters import SimulatedRig
from helpers.slices import KeeperBench
from scheduler.node.slices import model
from scheduler.node.slices.keeper import end_daemons

NewBench = Callable[..., KeeperBench]


@pytest.fixture(autouse=True)
def _tries_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "FIRST_RETRY_S", 0.0)


@pytest.fixture
def new_bench(tmp_path: Path) -> Iterator[NewBench]:
    made: list[KeeperBench] = []

    def make(board: str = "h100-sxm-80gb") -> KeeperBench:
        made.append(KeeperBench(SimulatedRig(tmp_path / "devices", board), tmp_path / "agent"))
        return made[-1]

    (tmp_path / "agent").mkdir()
    yield make
    for bench in made:
        end_daemons(bench.folder, boot=bench.rig.boot)
