"""Which provider suits this machine."""

from __future__ import annotations

from pathlib import Path

from scheduler.node.providers.base import ProviderName

PCI_DEVICES = Path("/sys/bus/pci/devices")
_NVIDIA = 0x10DE
_DISPLAY = 0x03  # the PCI class of controllers that show or compute


def detected(devices: Path = PCI_DEVICES) -> ProviderName:
    """``nvml`` where an NVIDIA GPU is on the PCI bus, else ``cpu``.

    By the bus and not by the driver: a GPU host without its driver says so instead of joining as its processors.
    """
    return "nvml" if any(_is_gpu(folder) for folder in sorted(devices.glob("*"))) else "cpu"


def _is_gpu(folder: Path) -> bool:
    try:
        vendor, kind = (int((folder / name).read_text(), 16) for name in ("vendor", "class"))
    except (OSError, ValueError):
        return False
    return vendor == _NVIDIA and kind >> 16 == _DISPLAY
