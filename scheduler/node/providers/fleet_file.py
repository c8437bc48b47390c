"""A fleet in a TOML file: which nodes there are, and which GPUs a node is said to have.

``examples/fleets`` and ``examples/fleet-8xh100.toml`` hold some. A GPU is of a board that scheduler/geometry knows, and
then can be cut as that board can, or it has a name, a memory and equal shares of it::

    [[node]]
    name = "sim-a"
    cpu_count = 96          # optional
    memory_gb = 1024        # optional
    [[node.gpu]]
    board = "h100-sxm-80gb"
    count = 8               # optional, 1
    kinds = ["whole", "mps"]    # optional, what it can be: all of whole, mig, mps, time-slice
    mig = true              # optional: MIG mode is on already, as an operator left it
    [[node.gpu]]
    name = "A large one"
    memory_gb = 80
    units = 8               # optional, 1: into how many shares of memory it can be cut

``mig`` is how a GPU begins, off where the file says nothing. A board that changes MIG mode with a reset only (A30,
A100) is never switched by Berth: it is offered for MIG or for the rest, and whenever the agent starts it is in the mode
that the file says. Other tables are not for the agent.
"""

from __future__ import annotations

import os
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from gpuruntime.protocol import Device, SliceKind
from scheduler.geometry.boards import Board, UnknownBoard, board
from scheduler.node.providers.base import Host, ProviderError
from scheduler.node.providers.kinds import KINDS
from scheduler.node.slices import words

GB = 1 << 30


def node_names(path: Path) -> list[str]:
    """The nodes a fleet file describes, in its order. Raises ``ProviderError``."""
    return [_text(entry, "name", path) for entry in _nodes(path)]


def read_node(path: Path, node: str) -> tuple[list[Device], Host]:
    """The devices of ``node``, by index, and its machine. Raises ``ProviderError``."""
    entry = _node(path, node)
    devices = [
        Device(index=index, uuid=_uuid(node, index), kind="simulated", **fields)
        for index, fields in enumerate(fields for gpu in _gpu_tables(entry, path) for fields in _gpus(gpu, path))
    ]
    host = Host(
        cpu_count=int(_number(entry, "cpu_count", path, os.cpu_count() or 1)),
        memory_bytes=int(_number(entry, "memory_gb", path, psutil.virtual_memory().total / GB) * GB),
    )
    return devices, host


def read_modes(path: Path, node: str) -> dict[str, bool]:
    """MIG mode of the devices of ``node``, by UUID, where the file says it. Raises ``ProviderError``."""
    said: list[bool | None] = []
    for gpu in _gpu_tables(_node(path, node), path):
        said += [_mig(gpu, path)] * int(_number(gpu, "count", path, 1))
    return {_uuid(node, index): on for index, on in enumerate(said) if on is not None}


def _node(path: Path, node: str) -> dict[str, Any]:
    nodes = {_text(entry, "name", path): entry for entry in _nodes(path)}
    if node not in nodes:
        raise ProviderError(f"{path} has no node {node!r}; it has {', '.join(nodes)}")
    return nodes[node]


def _gpu_tables(entry: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    gpus = entry.get("gpu")
    if not isinstance(gpus, list) or not gpus:
        raise ProviderError(f"{path}: node {entry['name']!r} has no [[node.gpu]]")
    return gpus


def _uuid(node: str, index: int) -> str:
    return f"SIM-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}/{index}')}"


def _gpus(gpu: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    _mig(gpu, path)
    for _ in range(int(_number(gpu, "count", path, 1))):
        yield _of_board(gpu, path) if "board" in gpu else _by_hand(gpu, path)


def _of_board(gpu: dict[str, Any], path: Path) -> dict[str, Any]:
    more = sorted({"name", "memory_gb", "units"} & gpu.keys())
    if more:
        raise ProviderError(f"{path}: a GPU with a board takes {', '.join(more)} from the table; remove it here")
    try:
        found = board(_text(gpu, "board", path))
    except UnknownBoard as error:
        raise ProviderError(f"{path}: {error}") from None
    kinds = _kinds(gpu, path)
    if found.mig_mode_needs_reset:
        _check_mode(found, kinds, _mig(gpu, path) or False, path)
    return {
        "name": found.name,
        "memory_bytes": found.memory_bytes,
        "units": found.units,
        "board": found.key,
        "kinds": kinds,
        "unable": {kind: words.LEFT_OUT for kind in KINDS if kind not in kinds},
    }


def _kinds(gpu: dict[str, Any], path: Path) -> list[SliceKind]:
    wanted = gpu.get("kinds", list(KINDS))
    if not isinstance(wanted, list) or not wanted or not set(wanted) <= set(KINDS):
        raise ProviderError(f"{path}: 'kinds' is {wanted!r}; it must name some of {', '.join(KINDS)}")
    return [kind for kind in KINDS if kind in wanted]


def _check_mode(found: Board, kinds: list[SliceKind], on: bool, path: Path) -> None:
    """What a GPU is said to be, it must be in the mode that it stays in."""
    if "mig" in kinds if on else kinds != ["mig"]:
        return
    way_out = "name mig in 'kinds', or remove `mig = true`" if on else "add `mig = true`"
    is_now = f"its MIG mode is {'on' if on else 'off'} and changes with a reset only"
    raise ProviderError(f"{path}: 'kinds' leaves {found.key} nothing to be, as {is_now}; {way_out}")


def _mig(gpu: dict[str, Any], path: Path) -> bool | None:
    on = gpu.get("mig")
    if on is not None and not isinstance(on, bool):
        raise ProviderError(f"{path}: 'mig' is {on!r}; it must be true or false")
    if on is not None and "board" not in gpu:
        raise ProviderError(f"{path}: 'mig' is for a GPU with a board; remove it here")
    return on


def _by_hand(gpu: dict[str, Any], path: Path) -> dict[str, Any]:
    return {
        "name": _text(gpu, "name", path),
        "memory_bytes": int(_number(gpu, "memory_gb", path) * GB),
        "units": int(_number(gpu, "units", path, 1)),
    }


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
