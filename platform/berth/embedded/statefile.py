"""``run/up.json``: which processes ``up`` answers for, so that the next one finds them after a ``kill -9``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuruntime.process import is_process


@dataclass(frozen=True)
class Record:
    """One child. ``fingerprint``: what it was started with; another one means that it must not be adopted."""

    name: str
    pid: int
    start_time: float
    boot_id: str
    fingerprint: str

    def alive(self) -> bool:
        return self.boot_id == boot_id() and is_process(self.pid, self.start_time)


def boot_id() -> str:
    """Changes with each boot of the kernel: start times compare only within one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read(path: Path) -> dict[str, Record]:
    """What the last ``up`` wrote; empty when there is nothing, or nothing readable."""
    try:
        return {name: Record(**fields) for name, fields in json.loads(path.read_text())["children"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def write(path: Path, records: Mapping[str, Record]) -> None:
    """Readers see the old content or the new, never a part."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps({"children": {name: asdict(record) for name, record in records.items()}}, indent=1))
    draft.replace(path)
