"""Where replicas ask for their slices and give them back: what is wanted, what of it is ready, and who has it.

Two threads meet here. The supervisor's takes and leaves, and waits for nothing. The keeper's reads what is wanted,
spends seconds in the driver, and writes down what it found; what it found of a slice that was taken or left meanwhile
counts for nothing, so that a slice is never given away on an old look.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gpuruntime.protocol import ObservedSlice, SliceSpec
from scheduler.node.slices import words
from scheduler.node.slices.model import Grant, Outcome, SliceNotReady

BEING_MADE = Outcome("creating", words.MADE)


@dataclass
class _Slot:
    """``version`` rises with every taking and leaving; ``free``: looked at since, and found as it was made."""

    spec: SliceSpec
    outcome: Outcome = BEING_MADE
    version: int = 0
    free: bool = False


@dataclass
class _Holder:
    replica_id: str
    pid: int = 0
    struck: bool = False


class SliceDesk:
    """``labels``: what people call the devices, by UUID. ``nudge``: set when the keeper has something to do."""

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self._labels = dict(labels or {})
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}
        self._holders: dict[str, _Holder] = {}
        self._last_pids: dict[str, int] = {}
        self._left: dict[str, Sequence[ObservedSlice]] = {}
        self._struck: list[tuple[str, str]] = []
        self._changed: set[str] = set()
        self.nudge = threading.Event()
        self.told = False

    # --- the supervisor's side --------------------------------------------------------------------------------------

    def apply(self, specs: Iterable[SliceSpec]) -> None:
        """The whole of what is wanted from now on."""
        with self._lock:
            before, first = self._slots, not self.told
            self._slots = {}
            for spec in specs:
                slot = before.get(spec.slice_id)
                if slot is not None and _is_same(slot.spec, spec):
                    slot.spec = spec
                else:
                    slot = _Slot(spec)
                self._slots[spec.slice_id] = slot
            for slice_id in before.keys() | self._slots.keys():
                old, new = before.get(slice_id), self._slots.get(slice_id)
                if old is not new:
                    self._changed |= {slot.spec.device_uuid for slot in (old, new) if slot is not None}
            self.told = True
            changed = first or bool(self._changed)
        if changed:
            self.nudge.set()

    def take(self, slice_id: str, replica_id: str) -> Grant:
        """The slice is ``replica_id``'s until it leaves. Raises ``SliceNotReady``."""
        with self._lock:
            slot = self._slots.get(slice_id)
            if slot is None:
                raise SliceNotReady(words.waiting_untold(slice_id))
            holder = self._holders.get(slice_id)
            why = ""
            if slot.outcome.state != "ready":
                why = slot.outcome.reason or words.MADE
            elif holder is not None and holder.replica_id != replica_id:
                why = words.held(holder.replica_id)
            elif not slot.free:
                why = slot.outcome.unsettled or words.CHECKED
            if why:
                raise SliceNotReady(words.waiting(slot.spec.profile, self._label(slot.spec.device_uuid), why))
            self._holders[slice_id] = _Holder(replica_id)
            slot.version += 1
            slot.free = False
            return Grant(
                device_uuid=slot.outcome.uuid,
                memory_bytes=slot.spec.memory_bytes,
                environment=dict(slot.outcome.environment),
            )

    def seated(self, slice_id: str, replica_id: str, pid: int) -> None:
        """``replica_id`` runs on it as ``pid``: it took the slice, or an agent before this one gave it to it."""
        with self._lock:
            self._holders[slice_id] = _Holder(replica_id, pid)
            self._touch(slice_id)

    def leave(self, slice_id: str, replica_id: str) -> None:
        """Its process is gone, or never was. Idempotent."""
        with self._lock:
            holder = self._holders.get(slice_id)
            if holder is None or holder.replica_id != replica_id:
                return
            del self._holders[slice_id]
            self._last_pids[slice_id] = holder.pid
            self._touch(slice_id)
        self.nudge.set()

    def struck(self) -> list[tuple[str, str]]:
        """Replicas that must start again, each with the reason; told once."""
        with self._lock:
            struck, self._struck = self._struck, []
            return struck

    def observed(self) -> list[ObservedSlice]:
        with self._lock:
            found = [self._observed(slot) for slot in self._slots.values()]
            left = [one for some in self._left.values() for one in some if one.slice_id not in self._slots]
        return sorted(found + left, key=lambda s: (s.device_uuid, s.start, s.size, s.slice_id))

    # --- the keeper's side ------------------------------------------------------------------------------------------

    def wanted(self, device_uuid: str) -> list[tuple[SliceSpec, int]]:
        """With the version that ``settle`` takes back."""
        with self._lock:
            self._changed.discard(device_uuid)
            return [(s.spec, s.version) for s in self._slots.values() if s.spec.device_uuid == device_uuid]

    def settle(
        self,
        device_uuid: str,
        wanted: Sequence[tuple[SliceSpec, int]],
        outcomes: Mapping[str, Outcome],
        left: Sequence[ObservedSlice] | None,
    ) -> None:
        """What was found of ``wanted``, and what else is on the device; None: not known this time."""
        with self._lock:
            for spec, version in wanted:
                slot, outcome = self._slots.get(spec.slice_id), outcomes.get(spec.slice_id)
                if slot is None or outcome is None or not _is_same(slot.spec, spec):
                    continue
                slot.outcome = outcome
                current = slot.version == version
                slot.free = current and outcome.state == "ready" and not outcome.unsettled
                if not current:
                    self._changed.add(device_uuid)
            if left is not None:
                self._left[device_uuid] = tuple(left)

    def strike(self, slice_id: str, reason: str) -> None:
        """Whoever runs on it must start again; once for each process."""
        with self._lock:
            holder = self._holders.get(slice_id)
            if holder is not None and holder.pid and not holder.struck:
                holder.struck = True
                self._struck.append((holder.replica_id, reason))

    def holder(self, slice_id: str) -> str:
        with self._lock:
            found = self._holders.get(slice_id)
            return found.replica_id if found is not None else ""

    def holder_pid(self, slice_id: str) -> int:
        with self._lock:
            found = self._holders.get(slice_id)
            return found.pid if found is not None else self._last_pids.get(slice_id, 0)

    def restless(self, device_uuid: str) -> bool:
        """Whether a look at the device could change something: it is not yet as it should be, or that changed."""
        with self._lock:
            if device_uuid in self._changed or any(one.state != "foreign" for one in self._left.get(device_uuid, ())):
                return True
            return any(
                slot.outcome.state != "ready" or not (slot.free or slot.spec.slice_id in self._holders)
                for slot in self._slots.values()
                if slot.spec.device_uuid == device_uuid
            )

    # --- under the lock ---------------------------------------------------------------------------------------------

    def _touch(self, slice_id: str) -> None:
        slot = self._slots.get(slice_id)
        if slot is not None:
            slot.version += 1
            slot.free = False
            self._changed.add(slot.spec.device_uuid)

    def _observed(self, slot: _Slot) -> ObservedSlice:
        spec, outcome = slot.spec, slot.outcome
        idle = spec.slice_id not in self._holders
        return ObservedSlice(
            slice_id=spec.slice_id,
            device_uuid=spec.device_uuid,
            kind=spec.kind,
            profile=spec.profile,
            start=spec.start,
            size=spec.size,
            state=outcome.state,
            uuid=outcome.uuid,
            reason=outcome.reason or (outcome.unsettled if idle else ""),
        )

    def _label(self, device_uuid: str) -> str:
        return self._labels.get(device_uuid, device_uuid)


def _is_same(one: SliceSpec, other: SliceSpec) -> bool:
    """Whether both want the same. The UUID is what this agent reported itself."""
    return msgspec.structs.replace(one, uuid="") == msgspec.structs.replace(other, uuid="")
