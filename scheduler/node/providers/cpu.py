"""The host's processors as one device: BERTH_CPU_SHARES equal shares of the memory this process may use."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Sequence
from pathlib import Path

import psutil

from gpuruntime.protocol import Device
from scheduler.node.providers.base import Host, ProviderError, ProviderName, Resident

DEFAULT_SHARES = 4
CGROUP_ROOT = Path("/sys/fs/cgroup")


class CpuProvider:
    name: ProviderName = "cpu"
    cutter = None

    def __init__(self, *, node: str, shares: int | None = None) -> None:
        self._shares = shares if shares is not None else shares_from_environment()
        if not 1 <= self._shares <= 64:
            raise ProviderError(f"BERTH_CPU_SHARES is {self._shares}; it must lie between 1 and 64")
        self._uuid = f"CPU-{uuid.uuid5(uuid.NAMESPACE_DNS, node)}"
        self._memory_bytes = memory_limit_bytes()
        self._cpu_count = len(os.sched_getaffinity(0))
        psutil.cpu_percent(None)  # the first call only starts the measurement

    def host(self) -> Host:
        return Host(cpu_count=self._cpu_count, memory_bytes=self._memory_bytes)

    def devices(self, residents: Sequence[Resident]) -> list[Device]:
        memory = psutil.virtual_memory()
        return [
            Device(
                index=0,
                uuid=self._uuid,
                name=f"{platform.machine()} CPU, {self._cpu_count} cores",
                kind="cpu",
                memory_bytes=self._memory_bytes,
                units=self._shares,
                memory_used_bytes=min(memory.total - memory.available, self._memory_bytes),
                utilisation=psutil.cpu_percent(None) / 100,
            )
        ]


def shares_from_environment() -> int:
    text = os.environ.get("BERTH_CPU_SHARES", str(DEFAULT_SHARES))
    try:
        return int(text)
    except ValueError:
        raise ProviderError(f"BERTH_CPU_SHARES is {text!r}; it must be a whole number") from None


def memory_limit_bytes(root: Path = CGROUP_ROOT, membership: Path = Path("/proc/self/cgroup")) -> int:
    """The memory this process may use: the host's, or the tightest limit of its control groups (v1 and v2)."""
    limits = [psutil.virtual_memory().total]
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            limits += _limits_upwards(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_upwards(root / "memory", path, "memory.limit_in_bytes")
    return min(limits)


def _limits_upwards(root: Path, path: str, name: str) -> list[int]:
    # Inside a container the path may be the host's, which is not mounted here: the root then holds the limit.
    relative = Path(path.strip("/"))
    folders = [root / relative, *(root / parent for parent in relative.parents), root]
    found = []
    for folder in folders:
        try:
            text = (folder / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) > 0:
            found.append(int(text))
    return found
