"""What this process may do to MIG, as far as the kernel says; and how to grant what it may not.

    switch      CAP_SYS_ADMIN                                                   MIG mode, compute mode
    configure   read /proc/driver/nvidia/capabilities/mig/config                make and remove instances
    monitor     read /proc/driver/nvidia/capabilities/mig/monitor               see them

The two files name the minor number of a device /dev/nvidia-caps/nvidia-capN, which must be readable, too: in a
container the runtime decides that. NVML's own refusal (NO_PERMISSION) is remembered with the same words.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Capability = Literal["switch", "configure", "monitor"]

GRANTS: dict[Capability, str] = {
    "switch": (
        "switching MIG mode or compute mode needs CAP_SYS_ADMIN: run the agent as root, or switch once by hand with"
        " `nvidia-smi -i {uuid} -mig 1` (or `-mig 0`)"
    ),
    "configure": (
        "making MIG instances needs /proc/driver/nvidia/capabilities/mig/config and its device in /dev/nvidia-caps:"
        " run the agent as root, give its user read access to both, or in a container set"
        " NVIDIA_MIG_CONFIG_DEVICES=all"
    ),
    "monitor": (
        "seeing MIG instances needs /proc/driver/nvidia/capabilities/mig/monitor and its device in /dev/nvidia-caps:"
        " run the agent as root, give its user read access to both, or in a container set"
        " NVIDIA_MIG_MONITOR_DEVICES=all"
    ),
}
_CAP_SYS_ADMIN = 21
_FILES: dict[Capability, str] = {"configure": "config", "monitor": "monitor"}


@dataclass(frozen=True)
class Permissions:
    """``denied``: what is certainly not allowed. NVML may refuse more."""

    denied: frozenset[Capability] = frozenset()

    @classmethod
    def of_process(cls, proc: Path = Path("/proc"), dev: Path = Path("/dev")) -> Permissions:
        denied: set[Capability] = set()
        if not _has_capability(proc / "self/status", _CAP_SYS_ADMIN):
            denied.add("switch")
        for capability, name in _FILES.items():
            if not _may_read(proc / "driver/nvidia/capabilities/mig" / name, dev / "nvidia-caps"):
                denied.add(capability)
        return cls(frozenset(denied))


def _has_capability(status: Path, number: int) -> bool:
    try:
        found = re.search(r"^CapEff:\s*([0-9a-f]+)", status.read_text(), re.MULTILINE)
    except OSError:
        return os.geteuid() == 0
    return bool(found and int(found[1], 16) >> number & 1)


def _may_read(capability: Path, devices: Path) -> bool:
    """True where the kernel does not say: an older driver has no such files."""
    if not capability.exists():
        return True
    try:
        minor = re.search(r"^DeviceFileMinor:\s*(\d+)", capability.read_text(), re.MULTILINE)
    except OSError:
        return False
    device = devices / f"nvidia-cap{minor[1]}" if minor else None
    # A device file that is not there yet is made by the driver's helper when it is needed first.
    return device is None or not device.exists() or os.access(device, os.R_OK)
