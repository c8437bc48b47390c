"""The provider that a machine's PCI bus speaks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.node.providers.detect import detected


@pytest.mark.parametrize(
    ("bus", "provider"),
    [
        ({}, "cpu"),
        ({"0000:00:02.0": ("0x8086", "0x030000")}, "cpu"),
        ({"0000:00:02.0": ("0x8086", "0x030000"), "0000:3b:00.0": ("0x10de", "0x030200")}, "nvml"),
        ({"0000:3b:00.0": ("0x10de", "0x068000")}, "cpu"),  # an NVSwitch computes nothing
        ({"0000:3b:00.0": ("", "0x030200")}, "cpu"),
    ],
)
def test_an_nvidia_gpu_on_the_bus_decides(tmp_path: Path, bus: dict[str, tuple[str, str]], provider: str) -> None:
    for name, (vendor, kind) in bus.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")
    assert detected(tmp_path) == provider


def test_a_machine_without_a_bus_has_its_processors(tmp_path: Path) -> None:
    assert detected(tmp_path / "none") == "cpu"
