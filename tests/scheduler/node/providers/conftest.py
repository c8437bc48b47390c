"""A machine whose NVML is the mock, for tests that call nvidia-ml-py itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from helpers.mocknvml.control import PLAIN, Machine

H100, A100 = "h100-sxm-80gb", "a100-40gb"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """An H100, an A100 and an L40S, without MIG yet."""
    with Machine.create(tmp_path / "state", [H100, A100, PLAIN]) as made:
        made.activate()
        pynvml.nvmlInit()
        yield made
        pynvml.nvmlShutdown()


@pytest.fixture
def gpu(machine: Machine) -> Any:
    """The H100, in MIG mode."""
    machine.enable_mig(0)
    return pynvml.nvmlDeviceGetHandleByIndex(0)
