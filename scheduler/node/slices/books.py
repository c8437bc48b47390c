"""What this agent made on its devices, on disk before it is made: so that what is found later is known as its own.

One entry a place. An entry without ``uuid`` is an intent: the call that makes it may or may not have happened. An
instance that no entry names is another tool's, unless the control plane knows it as this agent's. After a reboot
nothing that was made exists any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from gpuruntime.protocol import ObservedSlice, SliceKind, SliceSpec, SliceState
from scheduler.node.paths import write_atomically

log = structlog.get_logger(__name__)


class Entry(msgspec.Struct, kw_only=True):
    """``baseline_bytes``: used there beside what its processes use, right after it was made; None: not measured yet.

    ``partition``: of SMs, as its MPS daemon names it.
    """

    slice_id: str
    device_uuid: str
    kind: SliceKind
    profile: str
    start: int
    size: int
    profile_id: int | None = None
    uuid: str = ""
    gi_id: int | None = None
    baseline_bytes: int | None = None
    partition: str = ""

    @property
    def label(self) -> str:
        return f"{self.profile} at {self.start}"

    def is_at(self, spec: SliceSpec) -> bool:
        return (self.device_uuid, self.kind, self.profile, self.start) == (
            spec.device_uuid,
            spec.kind,
            spec.profile,
            spec.start,
        )

    def observed(self, state: SliceState, reason: str, *, named: bool = True) -> ObservedSlice:
        return ObservedSlice(
            slice_id=self.slice_id if named else "",
            device_uuid=self.device_uuid,
            kind=self.kind,
            profile=self.profile,
            start=self.start,
            size=self.size,
            state=state,
            uuid=self.uuid,
            reason=reason,
        )


class _Content(msgspec.Struct, kw_only=True):
    boot: str
    entries: list[Entry] = []
    daemons: dict[str, list[str]] = {}


class Books:
    """``daemons``: the devices for which an MPS daemon was started, each with the program that controls it.

    A damaged file counts as none.
    """

    def __init__(self, path: Path, *, boot: str) -> None:
        self._path = path
        self._content = _Content(boot=boot)
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            log.error("what was cut here is not known any more", path=str(path), reason=str(error))
            return
        if found.boot == boot:
            self._content = found

    @property
    def daemons(self) -> dict[str, list[str]]:
        return dict(self._content.daemons)

    def on(self, device_uuid: str) -> list[Entry]:
        return [entry for entry in self._content.entries if entry.device_uuid == device_uuid]

    def at(self, spec: SliceSpec) -> Entry | None:
        return next((entry for entry in self._content.entries if entry.is_at(spec)), None)

    def intend(self, spec: SliceSpec) -> Entry:
        """The entry of ``spec``, on disk, as one of which nothing is known yet."""
        self._content.entries = [entry for entry in self._content.entries if not entry.is_at(spec)]
        entry = Entry(
            slice_id=spec.slice_id,
            device_uuid=spec.device_uuid,
            kind=spec.kind,
            profile=spec.profile,
            start=spec.start,
            size=spec.size,
            profile_id=spec.profile_id,
        )
        self._content.entries.append(entry)
        self.save()
        return entry

    def adopt(self, spec: SliceSpec, gi_id: int, baseline_bytes: int) -> None:
        """The entry of what is there for ``spec`` by its UUID, and was not written down any more."""
        entry = self.intend(spec)
        entry.uuid, entry.gi_id, entry.baseline_bytes = spec.uuid, gi_id, baseline_bytes
        self.save()

    def drop(self, entry: Entry) -> None:
        self._content.entries.remove(entry)
        self.save()

    def note_daemon(self, device_uuid: str, program: Sequence[str] | None) -> None:
        """Before it is started, and once it has ended (None)."""
        if program is not None:
            self._content.daemons[device_uuid] = list(program)
        else:
            self._content.daemons.pop(device_uuid, None)
        self.save()

    def save(self) -> None:
        write_atomically(self._path, msgspec.json.encode(self._content))
