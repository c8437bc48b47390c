"""A supervisor over stand-in processes; whatever it started is gone afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuruntime.protocol import ReplicaSpec
from helpers.replicas import Bench, make_spec
from scheduler.node.stopall import stop_all


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "node")
    yield bench
    stop_all(bench.state, grace_s=0)


@pytest.fixture
def spec() -> Callable[..., ReplicaSpec]:
    return make_spec
