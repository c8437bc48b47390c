"""A fleet from a TOML file: the nodes and GPUs are made up, the runtimes on them really run, on the CPU.

One file may describe many nodes; a process is the node whose name it was given. ``examples/fleets`` holds some::

    [[node]]
    name = "sim-a"
    cpu_count = 96          # optional
    memory_gb = 1024        # optional
    [[node.gpu]]
    name = "NVIDIA H100 80GB HBM3"
    count = 8               # optional, 1
    memory_gb = 80
    units = 8               # optional, 1: into how many shares of memory it can be cut
"""

from __future__ import annotations

import os
import time
import tomllib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from gpuruntime.protocol import Device
from scheduler.node.providers.base import Host, ProviderError, ProviderName, Resident

GB = 1 << 30


class SimulatedProvider:
    name: ProviderName = "simulated"
    cutter = None

    def __init__(self, *, node: str, path: Path) -> None:
        self._devices, self._host = _read(path, node)
        self._busy = BusyMeter()

    def host(self) -> Host:
        return self._host

    def devices(self, residents: Sequence[Resident]) -> list[Device]:
        busy = self._busy.measure(residents)
        return [
            Device(
                index=device.index,
                uuid=device.uuid,
                name=device.name,
                kind="simulated",
                memory_bytes=device.memory_bytes,
                units=device.units,
                memory_used_bytes=min(
                    device.memory_bytes, sum(r.memory_bytes for r in residents if r.device_uuid == device.uuid)
                ),
                utilisation=busy.get(device.uuid, 0.0),
            )
            for device in self._devices
        ]


class BusyMeter:
    """Utilisation of a made-up device: its residents' processor time since the last look, of one core, up to 1."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._spent: dict[int, float] = {}

    def measure(self, residents: Sequence[Resident]) -> dict[str, float]:
        now = time.monotonic()
        elapsed, self._at = max(now - self._at, 1e-3), now
        busy: dict[str, float] = {}
        spent: dict[int, float] = {}
        for resident in residents:
            try:
                times = psutil.Process(resident.pid).cpu_times()
            except psutil.Error:
                continue
            spent[resident.pid] = times.user + times.system
            rise = spent[resident.pid] - self._spent.get(resident.pid, spent[resident.pid])
            busy[resident.device_uuid] = min(1.0, busy.get(resident.device_uuid, 0.0) + max(rise, 0.0) / elapsed)
        self._spent = spent
        return busy


def node_names(path: Path) -> list[str]:
    """The nodes a fleet file describes, in its order. Raises ``ProviderError``."""
    return [_text(entry, "name", path) for entry in _nodes(path)]


def _nodes(path: Path) -> list[dict[str, Any]]:
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise ProviderError(f"cannot read the fleet file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProviderError(f"{path} is not valid TOML: {error}") from None
    nodes = content.get("node")
    if not isinstance(nodes, list) or not nodes or not all(isinstance(entry, dict) for entry in nodes):
        raise ProviderError(f"{path} describes no node: it needs at least one [[node]] table")
    return nodes


def _read(path: Path, node: str) -> tuple[list[Device], Host]:
    nodes = {_text(entry, "name", path): entry for entry in _nodes(path)}
    if node not in nodes:
        raise ProviderError(f"{path} has no node {node!r}; it has {', '.join(nodes)}")
    entry = nodes[node]
    gpus = entry.get("gpu")
    if not isinstance(gpus, list) or not gpus:
        raise ProviderError(f"{path}: node {node!r} has no [[node.gpu]]")
    devices: list[Device] = []
    for gpu in gpus:
        name, memory = _text(gpu, "name", path), _number(gpu, "memory_gb", path)
        count, units = int(_number(gpu, "count", path, 1)), int(_number(gpu, "units", path, 1))
        for _ in range(count):
            index = len(devices)
            devices.append(
                Device(
                    index=index,
                    uuid=f"SIM-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}/{index}')}",
                    name=name,
                    kind="simulated",
                    memory_bytes=int(memory * GB),
                    units=units,
                )
            )
    host = Host(
        cpu_count=int(_number(entry, "cpu_count", path, os.cpu_count() or 1)),
        memory_bytes=int(_number(entry, "memory_gb", path, psutil.virtual_memory().total / GB) * GB),
    )
    return devices, host


def _text(entry: dict[str, Any], key: str, path: Path) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise ProviderError(f"{path}: {key!r} is {value!r}; it must be a text")
    return value


def _number(entry: dict[str, Any], key: str, path: Path, default: float | None = None) -> float:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise ProviderError(f"{path}: {key!r} is {value!r}; it must be a number above 0")
    return float(value)
