"""MIG instances brought to what is wanted, at exactly the places that are wanted.

What decides is what the driver lists, never what an earlier call answered. The books say which instances are ours:

    instance    entry       wanted
    ours        made        yes       verified by its UUID, then ready
    half made   any         yes       completed
    ours        made        no        removed, once no process is on it; kept in use by the driver: quarantined
    none        made        yes       another tool removed it: made anew, once whoever ran on it is gone
    reported    none        yes       the books were lost, the control plane knows its UUID: ours again
    any other   none        -         another tool's: never touched, and whoever wants its place hears of it
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from gpuruntime.protocol import Device, ObservedSlice, SliceSpec
from scheduler.geometry.boards import UnknownBoard, board
from scheduler.node.providers.base import CutCode, CutError, Cutter, Instance, Process
from scheduler.node.slices import words
from scheduler.node.slices.books import Books, Entry
from scheduler.node.slices.model import SLACK_BYTES, Holders, Outcome, Retries, label

log = structlog.get_logger(__name__)


class MigActuator:
    """Every method raises ``CutError`` where the device cannot even be asked."""

    def __init__(self, cutter: Cutter, books: Books, holders: Holders, retries: Retries) -> None:
        self._cutter = cutter
        self._books = books
        self._holders = holders
        self._retries = retries

    # --- what the books lost ----------------------------------------------------------------------------------------

    def adopt(self, gpu: Device, wanted: Sequence[SliceSpec]) -> None:
        """Takes up what an agent of this node made and reported, and of which the books say nothing: exactly that UUID,
        of that profile, at that place.
        """
        lost = [spec for spec in wanted if spec.kind == "mig" and spec.uuid and self._books.at(spec) is None]
        if not lost:
            return
        found = self._cutter.instances(gpu.uuid)
        for spec in lost:
            instance = next((one for one in found if _is_that(one, spec)), None)
            if instance is None:
                continue
            on_it = _on(instance, self._cutter.processes(gpu.uuid))
            # What is used there and is no process's: as it is right after a making.
            baseline = max(0, instance.used_bytes - sum(process.used_bytes for process in on_it))
            self._books.adopt(spec, instance.gi_id, baseline)
            log.warning("slice taken up", device=gpu.uuid, slice=spec.slice_id, uuid=spec.uuid)

    # --- what goes --------------------------------------------------------------------------------------------------

    def clear(self, gpu: Device, wanted: Sequence[SliceSpec]) -> list[ObservedSlice]:
        """Removes our instances that nobody wants; what stays of them and what is another tool's, with why."""
        found = self._cutter.instances(gpu.uuid)
        left: list[ObservedSlice] = []
        for entry in self._entries(gpu):
            spec = next((spec for spec in wanted if entry.is_at(spec)), None)
            instance = own(entry, found)
            if instance is None:
                if spec is None or spec.slice_id != entry.slice_id:
                    self._books.drop(entry)
            elif spec is None:
                left += self._remove(gpu, entry, instance)
            elif spec.slice_id != entry.slice_id:
                left += self._hand_over(gpu, entry, instance, spec)
        return left + self._foreign(gpu)

    def _hand_over(self, gpu: Device, entry: Entry, instance: Instance, spec: SliceSpec) -> list[ObservedSlice]:
        """The same place under another name: kept, unless it cannot be trusted or somebody still is on it."""
        if self._retries.failing(_removal(entry)):
            return self._remove(gpu, entry, instance)
        if holder := self._holders.holder(entry.slice_id):
            return [entry.observed("removing", words.held(holder))]
        log.info("slice handed over", device=gpu.uuid, place=entry.label, slice=spec.slice_id)
        entry.slice_id = spec.slice_id
        self._books.save()
        return []

    def _remove(self, gpu: Device, entry: Entry, instance: Instance) -> list[ObservedSlice]:
        if holder := self._holders.holder(entry.slice_id):
            return [entry.observed("removing", words.held(holder))]
        on_it = _on(instance, self._cutter.processes(gpu.uuid))
        if on_it:
            return [entry.observed("removing", words.stranger(on_it[0].pid))]
        if reason := self._retries.waits(_removal(entry)):
            return [entry.observed("quarantined", reason, named=False)]
        try:
            self._cutter.destroy(gpu.uuid, instance.gi_id)
        except CutError as error:
            reason = words.quarantined(str(error)) if error.code is CutCode.IN_USE else why_not(gpu, error)
            log.warning("slice not removed", device=gpu.uuid, place=entry.label, reason=str(error))
            self._retries.failed(_removal(entry), reason)
            return [entry.observed("quarantined", reason, named=False)]
        self._retries.forget(gpu.uuid)
        if own(entry, self._cutter.instances(gpu.uuid)) is not None:
            return [entry.observed("removing", words.STILL_LISTED)]
        log.info("slice removed", device=gpu.uuid, place=entry.label, slice=entry.slice_id)
        self._books.drop(entry)
        return []

    def _foreign(self, gpu: Device) -> list[ObservedSlice]:
        entries = self._entries(gpu)
        return [
            ObservedSlice(
                slice_id="",
                device_uuid=gpu.uuid,
                kind="mig",
                profile=profile_name(gpu, instance.profile_id),
                start=instance.start,
                size=instance.size,
                state="foreign",
                uuid=instance.uuid,
                reason=words.FOREIGN if instance.uuid else words.HALF_FOREIGN,
            )
            for instance in self._cutter.instances(gpu.uuid)
            if not any(own(entry, [instance]) for entry in entries)
        ]

    # --- what comes -------------------------------------------------------------------------------------------------

    def bring(self, gpu: Device, wanted: Sequence[SliceSpec]) -> dict[str, Outcome]:
        """Makes what is missing and verifies what is there; MIG mode must be on."""
        # The largest first: where room is short for the moment, it is the one that later finds none.
        return {
            spec.slice_id: self._one(gpu, spec) for spec in sorted(wanted, key=lambda s: (-s.size, s.start, s.slice_id))
        }

    def _one(self, gpu: Device, spec: SliceSpec) -> Outcome:
        found = self._cutter.instances(gpu.uuid)
        entry = self._books.at(spec)
        if entry is not None and entry.slice_id != spec.slice_id:
            return Outcome("creating", words.place_not_free(label(gpu), entry.label))
        instance = own(entry, found) if entry is not None else None
        if entry is not None and entry.uuid and instance is None:
            if holder := self._holders.holder(spec.slice_id):
                return Outcome("failed", words.vanished(holder), lost=True)
            log.warning("slice is gone: made anew", device=gpu.uuid, place=entry.label, slice=spec.slice_id)
        if entry is not None and instance is not None and entry.uuid and instance.uuid == entry.uuid:
            return self._verified(gpu, entry, instance)
        return self._make(gpu, spec, found, instance)

    def _make(self, gpu: Device, spec: SliceSpec, found: Iterable[Instance], half: Instance | None) -> Outcome:
        name = f"{gpu.uuid} {spec.profile} {spec.start}"
        if reason := self._retries.waits(name):
            return Outcome("failed", reason)
        if spec.profile_id is None:
            return Outcome("failed", words.no_profile(label(gpu), spec.profile))
        in_the_way = next((i for i in found if i is not half and _overlap(i, spec)), None)
        if in_the_way is not None:
            return self._blocked(gpu, in_the_way)
        entry = self._books.intend(spec)
        try:
            self._cutter.create(gpu.uuid, spec.profile_id, spec.start)
        except CutError as error:
            log.warning("slice not made", device=gpu.uuid, place=entry.label, reason=str(error))
            if own(entry, self._cutter.instances(gpu.uuid)) is None:
                # Nothing was made: what another tool makes there from now on is not ours.
                self._books.drop(entry)
            reason = why_not(gpu, error)
            self._retries.failed(name, reason)
            return Outcome("failed", reason)
        instance = own(entry, self._cutter.instances(gpu.uuid))
        if instance is None or not instance.uuid:
            return Outcome("creating", words.MADE)
        self._retries.worked(name)
        entry.uuid, entry.gi_id = instance.uuid, instance.gi_id
        self._books.save()
        log.info("slice made", device=gpu.uuid, place=entry.label, slice=spec.slice_id, uuid=entry.uuid)
        return self._verified(gpu, entry, instance)

    def _blocked(self, gpu: Device, instance: Instance) -> Outcome:
        ours = next((entry for entry in self._entries(gpu) if own(entry, [instance]) is not None), None)
        if ours is not None:
            return Outcome("creating", words.place_not_free(label(gpu), ours.label))
        there = f"{profile_name(gpu, instance.profile_id)} at {instance.start}"
        return Outcome("failed", words.place_taken(label(gpu), there))

    def _verified(self, gpu: Device, entry: Entry, instance: Instance) -> Outcome:
        environment = {"CUDA_VISIBLE_DEVICES": entry.uuid}
        return Outcome(
            "ready", uuid=entry.uuid, environment=environment, unsettled=self._unsettled(gpu, entry, instance)
        )

    def _unsettled(self, gpu: Device, entry: Entry, instance: Instance) -> str:
        """Why nobody new may have it: whoever was on it left a process or memory there. Empty: it is as it was made."""
        if holder := self._holders.holder(entry.slice_id):
            return words.held(holder)
        on_it = _on(instance, self._cutter.processes(gpu.uuid))
        if on_it:
            return words.stranger(on_it[0].pid)
        if entry.baseline_bytes is None:
            entry.baseline_bytes = instance.used_bytes
            self._books.save()
        over = instance.used_bytes - entry.baseline_bytes
        return words.memory_held(over) if over > SLACK_BYTES else ""

    def _entries(self, gpu: Device) -> list[Entry]:
        return [entry for entry in self._books.on(gpu.uuid) if entry.kind == "mig"]


def own(entry: Entry, found: Iterable[Instance]) -> Instance | None:
    """The instance that ``entry`` is of. One that was made is known by its UUID, and while it is taken apart or put
    together, when it has none, by its id; one that was about to be made is whatever is at its place.
    """
    for instance in found:
        if (instance.profile_id, instance.start) != (entry.profile_id, entry.start):
            continue
        if not entry.uuid or instance.uuid == entry.uuid or (not instance.uuid and instance.gi_id == entry.gi_id):
            return instance
    return None


def profile_name(gpu: Device, profile_id: int) -> str:
    try:
        return board(gpu.board).mig.profile_by_id(profile_id).name
    except (UnknownBoard, LookupError):
        return f"profile {profile_id}"


def why_not(gpu: Device, error: CutError) -> str:
    if error.code is CutCode.NO_PERMISSION:
        return words.no_permission(label(gpu), str(error))
    if error.code is CutCode.LOST:
        return words.silent(label(gpu), str(error))
    return words.refused(label(gpu), str(error))


def _on(instance: Instance, processes: Iterable[Process]) -> list[Process]:
    return [process for process in processes if process.gi_id == instance.gi_id]


def _is_that(instance: Instance, spec: SliceSpec) -> bool:
    """Whether it is the very instance that was reported for ``spec``."""
    return (instance.uuid, instance.profile_id, instance.start, instance.size) == (
        spec.uuid,
        spec.profile_id,
        spec.start,
        spec.size,
    )


def _overlap(instance: Instance, spec: SliceSpec) -> bool:
    return instance.start < spec.start + spec.size and spec.start < instance.start + instance.size


def _removal(entry: Entry) -> str:
    return f"{entry.device_uuid} removal of {entry.label}"
