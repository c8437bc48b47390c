"""GPUs outside MIG: one replica has all of it, or several share it, through MPS or by taking turns.

Nothing is made for them but the MPS daemon and, where it has them, partitions of SMs. What is kept is memory: slices
of one GPU never promise more than it has, and one that somebody left is given to the next only when its memory is
back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

import structlog

from gpuruntime.protocol import Device, ObservedSlice, SliceSpec
from scheduler.node.providers.base import Cutter, Process
from scheduler.node.slices import words
from scheduler.node.slices.books import Books, Entry
from scheduler.node.slices.model import SLACK_BYTES, Holders, Outcome, Retries, label
from scheduler.node.slices.mps import PROGRAM, MpsControl, MpsError, chunks_of, client_environment

log = structlog.get_logger(__name__)

# What a neighbour may cost beside what the driver counts as its own: part of its context is the server's.
CONTEXT_BYTES = 512 << 20


class SharesActuator:
    """``mps_of``: the daemon of a device; None where this machine has no MPS. Methods raise ``CutError``."""

    def __init__(
        self,
        cutter: Cutter | None,
        books: Books,
        holders: Holders,
        retries: Retries,
        mps_of: Callable[[str], MpsControl] | None,
    ) -> None:
        self._cutter = cutter
        self._books = books
        self._holders = holders
        self._retries = retries
        self._mps_of = mps_of

    # --- what goes --------------------------------------------------------------------------------------------------

    def clear(self, gpu: Device, wanted: Sequence[SliceSpec]) -> list[ObservedSlice]:
        """Takes back what nobody wants; what is still held or not yet empty, with why."""
        entries = self._entries(gpu)
        gone = [e for e in entries if not any(e.is_at(spec) and e.slice_id == spec.slice_id for spec in wanted)]
        left: list[ObservedSlice] = []
        if gone:
            processes, used = self._use(gpu)
            for entry in gone:
                if holder := self._holders.holder(entry.slice_id):
                    left.append(entry.observed("removing", words.held(holder)))
                elif stray := self._stray(entry, processes):
                    left.append(entry.observed("removing", words.stranger(stray.pid)))
                elif reason := self._unsettled(gpu, entry, processes, used):
                    left.append(entry.observed("quarantined", reason, named=False))
                else:
                    self._give_back(entry)
        kinds = {entry.kind for entry in self._entries(gpu)} | {spec.kind for spec in wanted}
        if gpu.uuid in self._books.daemons and "mps" not in kinds:
            self._end_daemon(gpu)
        return left

    def _give_back(self, entry: Entry) -> None:
        if entry.partition and self._mps_of is not None:
            with contextlib.suppress(MpsError):
                self._mps_of(entry.device_uuid).remove_partition(entry.partition)
        self._books.drop(entry)

    def _end_daemon(self, gpu: Device) -> None:
        if self._mps_of is not None:
            self._mps_of(gpu.uuid).quit()
        if self._cutter is not None and not self._cutter.mig_mode(gpu.uuid).current:
            self._cutter.set_exclusive(gpu.uuid, False)
        self._books.note_daemon(gpu.uuid, None)
        log.info("MPS daemon ended", device=gpu.uuid)

    # --- what comes -------------------------------------------------------------------------------------------------

    def bring(self, gpu: Device, wanted: Sequence[SliceSpec]) -> dict[str, Outcome]:
        """All of one kind; MIG mode must be off."""
        outcomes = self._beyond_memory(gpu, wanted)
        fits = [spec for spec in wanted if spec.slice_id not in outcomes]
        control: MpsControl | None = None
        if any(spec.kind == "mps" for spec in fits):
            control, reason = self._daemon(gpu)
            if reason:
                return outcomes | {spec.slice_id: Outcome("failed", reason) for spec in fits}
        processes, used = self._use(gpu)
        for spec in fits:
            outcomes[spec.slice_id] = self._one(gpu, spec, control, processes, used)
        return outcomes

    def _beyond_memory(self, gpu: Device, wanted: Sequence[SliceSpec]) -> dict[str, Outcome]:
        """Those that would promise more memory than there is; who is there already comes first."""
        outcomes: dict[str, Outcome] = {}
        promised = 0
        for spec in sorted(wanted, key=lambda s: (self._books.at(s) is None, s.start, s.slice_id)):
            if promised + spec.memory_bytes > gpu.memory_bytes:
                reason = words.too_much(label(gpu), promised + spec.memory_bytes, gpu.memory_bytes)
                outcomes[spec.slice_id] = Outcome("failed", reason)
            else:
                promised += spec.memory_bytes
        return outcomes

    def _one(
        self, gpu: Device, spec: SliceSpec, control: MpsControl | None, processes: list[Process], used: int
    ) -> Outcome:
        entry = self._books.at(spec)
        in_the_way = next((e for e in self._entries(gpu) if _overlap(e, spec) and e.slice_id != spec.slice_id), None)
        if in_the_way is not None:
            return Outcome("creating", words.place_not_free(label(gpu), in_the_way.label))
        if entry is None:
            entry = self._books.intend(spec)
        if not entry.uuid:
            entry.uuid = gpu.uuid
            self._books.save()
        if control is None:
            environment = {"CUDA_VISIBLE_DEVICES": gpu.uuid} if self._cutter is not None else {}
        else:
            reason = self._partition(gpu, spec, entry, control)
            if reason:
                return Outcome("failed", reason)
            environment = client_environment(control, spec, entry.partition)
        reason = self._beside_mps(entry, processes) if control is not None else ""
        holder = self._holders.holder(spec.slice_id)
        unsettled = words.held(holder) if holder else self._unsettled(gpu, entry, processes, used)
        return Outcome("ready", reason, uuid=gpu.uuid, environment=environment, unsettled=unsettled)

    # --- MPS --------------------------------------------------------------------------------------------------------

    def _daemon(self, gpu: Device) -> tuple[MpsControl | None, str]:
        """The daemon, which answered just now; or why there is none."""
        if self._cutter is None or self._mps_of is None:
            return None, words.NO_CUTTER if self._cutter is None else words.mps_missing(PROGRAM)
        control = self._mps_of(gpu.uuid)
        if gpu.uuid in self._books.daemons:
            try:
                control.check()
                return control, ""
            except MpsError as error:
                log.error("MPS daemon does not serve", device=gpu.uuid, reason=str(error))
            if self._clients(gpu):
                return control, words.mps_died(label(gpu))
        return control, self._start_daemon(gpu, self._cutter, control)

    def _start_daemon(self, gpu: Device, cutter: Cutter, control: MpsControl) -> str:
        """Why it could not be started, or empty."""
        name = f"{gpu.uuid} MPS daemon"
        if reason := self._retries.waits(name):
            return reason
        for entry in self._entries(gpu):
            entry.partition = ""
        self._books.note_daemon(gpu.uuid, control.program)
        cutter.set_exclusive(gpu.uuid, True)
        try:
            control.quit()  # one that is there, and answers otherwise than it should
            control.start()
        except MpsError as error:
            self._retries.failed(name, words.mps_silent(label(gpu), str(error)))
            return words.mps_silent(label(gpu), str(error))
        self._retries.worked(name)
        log.info("MPS daemon started", device=gpu.uuid, partitions=control.partitioned)
        return ""

    def _clients(self, gpu: Device) -> bool:
        held = any(self._holders.holder(entry.slice_id) for entry in self._entries(gpu) if entry.kind == "mps")
        return held or any(process.mps for process in self._use(gpu)[0])

    def _partition(self, gpu: Device, spec: SliceSpec, entry: Entry, control: MpsControl) -> str:
        """Sees to the slice's own SMs, where the daemon has partitions; why that failed, or empty."""
        chunks = chunks_of(gpu, spec)
        if not control.partitioned or not chunks:
            return ""
        try:
            there = control.partitions()
            if entry.partition in there:
                return ""
            known = {other.partition for other in self._entries(gpu)}
            for orphan in there - known:  # made by an agent that ended before it wrote it down
                control.remove_partition(orphan)
            entry.partition = control.add_partition(chunks)
        except MpsError as error:
            return words.mps_silent(label(gpu), str(error))
        self._books.save()
        return ""

    def _beside_mps(self, entry: Entry, processes: list[Process]) -> str:
        """A runtime that did not find the daemon runs without its limits, and says nothing of it."""
        pid = self._holders.holder_pid(entry.slice_id)
        if not pid or not self._holders.holder(entry.slice_id):
            return ""
        stray = next((p for p in processes if not p.mps and _of_session(p.pid, pid)), None)
        return words.beside_mps(stray.pid) if stray is not None else ""

    # --- memory -----------------------------------------------------------------------------------------------------

    def _use(self, gpu: Device) -> tuple[list[Process], int]:
        """Processes, and bytes that are used beside theirs: what the driver keeps, and what an ended one left."""
        if self._cutter is None or not gpu.board:
            return [], 0
        processes = self._cutter.processes(gpu.uuid)
        return processes, max(0, self._cutter.used_bytes(gpu.uuid) - sum(p.used_bytes for p in processes))

    def _unsettled(self, gpu: Device, entry: Entry, processes: list[Process], used: int) -> str:
        if stray := self._stray(entry, processes):
            return words.stranger(stray.pid)
        if entry.baseline_bytes is None:
            entry.baseline_bytes = used
            self._books.save()
        if any(process.used_bytes <= 0 for process in processes):
            return ""  # the driver does not say what its neighbours use, so neither what nobody uses
        over = used - entry.baseline_bytes
        return words.memory_held(over) if over > SLACK_BYTES + CONTEXT_BYTES * len(processes) else ""

    def _stray(self, entry: Entry, processes: list[Process]) -> Process | None:
        """A process that its last replica left; of a whole GPU, any process."""
        if entry.kind == "whole":
            return processes[0] if processes else None
        last = self._holders.holder_pid(entry.slice_id)
        return next((p for p in processes if last and _of_session(p.pid, last)), None)

    def _entries(self, gpu: Device) -> list[Entry]:
        return [entry for entry in self._books.on(gpu.uuid) if entry.kind != "mig"]


def _overlap(entry: Entry, spec: SliceSpec) -> bool:
    if entry.kind != spec.kind:
        return True
    return entry.start < spec.start + spec.size and spec.start < entry.start + entry.size


def _of_session(pid: int, leader: int) -> bool:
    """Whether ``pid`` is ``leader`` or a process that it started: a runtime leads a session of its own."""
    if pid == leader:
        return True
    try:
        return os.getsid(pid) == leader
    except OSError:
        return False
