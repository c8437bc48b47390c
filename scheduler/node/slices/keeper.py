"""Brings a node's devices to the slices that are wanted, in a thread of its own, again and again.

Every pass compares what the driver lists with what is wanted and takes the next steps; nothing it needs is only in
memory. An agent that is killed between any two calls leaves a state from which the next pass goes on.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import structlog

from gpuruntime.protocol import Device, DeviceSignals, ObservedSlice, SliceKind, SliceSpec
from scheduler.health import catalogue
from scheduler.node.providers.base import CutError, Cutter, XidEvent
from scheduler.node.slices import words
from scheduler.node.slices.books import Books
from scheduler.node.slices.desk import SliceDesk
from scheduler.node.slices.mig import MigActuator, why_not
from scheduler.node.slices.model import Outcome, Retries, label
from scheduler.node.slices.modes import MigModes
from scheduler.node.slices.mps import PROGRAM, MpsControl
from scheduler.node.slices.shares import SharesActuator

log = structlog.get_logger(__name__)

TICK_S = 0.5
# A device on which all is well is looked at this often, for what other tools do to it.
LOOK_S = 5.0


class SliceKeeper:
    """``folder``: the agent's; ``mps_program``: how MPS is controlled here, None where it is not installed."""

    def __init__(
        self,
        cutter: Cutter | None,
        devices: Sequence[Device],
        folder: Path,
        *,
        boot: str,
        mps_program: Sequence[str] | None = None,
    ) -> None:
        self._cutter = cutter
        self._devices = tuple(devices)
        self._has_mps = mps_program is not None
        self.desk = SliceDesk({device.uuid: label(device) for device in devices})
        self._books = Books(folder / "slices.json", boot=boot)
        retries = Retries()

        def control(device_uuid: str) -> MpsControl:
            assert mps_program is not None
            return MpsControl(mps_program, folder / "mps", device_uuid)

        self._shares = SharesActuator(
            cutter, self._books, self.desk, retries, control if mps_program is not None else None
        )
        self._mig = MigActuator(cutter, self._books, self.desk, retries) if cutter is not None else None
        self._modes = MigModes(cutter, retries) if cutter is not None else None
        self._looked: dict[str, float] = {}
        self._xids: dict[str, Counter[str]] = {}
        self._xids_lock = threading.Lock()
        self._epoch = uuid.uuid4().hex[:12]
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # --- the thread -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="slices", daemon=True)
        self._thread.start()

    def stop(self, within_s: float = 2.0) -> None:
        """Ends the thread; a call into the driver that takes longer ends with the process, which is no harm."""
        self._stopping.set()
        self.desk.nudge.set()
        if self._thread is not None:
            self._thread.join(within_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.desk.nudge.wait(TICK_S)
            self.desk.nudge.clear()
            try:
                self._take_xids()
                for gpu in self._devices:
                    due = time.monotonic() - self._looked.get(gpu.uuid, -LOOK_S) >= LOOK_S
                    if self.desk.told and not self._stopping.is_set() and (due or self.desk.restless(gpu.uuid)):
                        self._visit(gpu)
            except Exception:
                log.exception("slices not kept")

    def step(self) -> None:
        """One pass over everything, at once."""
        self._take_xids()
        if self.desk.told:
            for gpu in self._devices:
                self._visit(gpu)

    # --- one device -------------------------------------------------------------------------------------------------

    def _visit(self, gpu: Device) -> None:
        wanted = self.desk.wanted(gpu.uuid)
        specs = [spec for spec, _ in wanted]
        left: list[ObservedSlice] | None = None
        try:
            left, outcomes = self._bring(gpu, specs)
        except CutError as error:
            log.warning("device not kept", device=gpu.uuid, reason=str(error))
            outcomes = {spec.slice_id: Outcome("failed", why_not(gpu, error)) for spec in specs}
        for slice_id, outcome in outcomes.items():
            if outcome.lost:
                self.desk.strike(slice_id, outcome.reason)
        self.desk.settle(gpu.uuid, wanted, outcomes, left)
        self._looked[gpu.uuid] = time.monotonic()

    def _bring(self, gpu: Device, specs: Sequence[SliceSpec]) -> tuple[list[ObservedSlice], dict[str, Outcome]]:
        """What is there beside ``specs``, and what came of these. Raises ``CutError``."""
        if self._mig is not None and gpu.board:
            self._mig.adopt(gpu, specs)
        kind, outcomes = self._one_kind(gpu, specs)
        chosen = [spec for spec in specs if spec.slice_id not in outcomes]
        shares = chosen if kind != "mig" else []
        left = self._shares.clear(gpu, shares)
        if self._mig is not None and gpu.board:
            left += self._mig.clear(gpu, chosen if kind == "mig" else [])
        if not chosen:
            return left, outcomes
        if kind in ("mig", "mps") and (self._cutter is None or not gpu.board):
            return left, outcomes | {spec.slice_id: Outcome("failed", words.NO_CUTTER) for spec in chosen}
        if self._modes is not None and gpu.board and (not_yet := self._modes.see_to(gpu, kind == "mig", left)):
            return left, outcomes | {spec.slice_id: not_yet for spec in chosen}
        if kind == "mig" and self._mig is not None:
            return left, outcomes | self._mig.bring(gpu, chosen)
        return left, outcomes | self._shares.bring(gpu, chosen)

    def _one_kind(self, gpu: Device, specs: Sequence[SliceSpec]) -> tuple[SliceKind | None, dict[str, Outcome]]:
        """A GPU is cut in one way: in the one it is cut in already, as far as that is wanted. The rest must wait."""
        if not specs:
            return None, {}
        there = [spec.kind for spec in specs if (entry := self._books.at(spec)) is not None and entry.uuid]
        kind = there[0] if there else min(specs, key=lambda spec: spec.slice_id).kind
        return kind, {
            spec.slice_id: Outcome("failed", words.other_cut(label(gpu), kind, spec.kind))
            for spec in specs
            if spec.kind != kind
        }

    # --- XIDs -------------------------------------------------------------------------------------------------------

    def _take_xids(self) -> None:
        if self._cutter is None:
            return
        try:
            events = self._cutter.xid_events()
        except CutError as error:
            log.warning("XIDs not read", reason=str(error))
            return
        for event in events:
            log.warning("XID", device=event.device_uuid, code=event.code, instance=event.gi_id)
            known = catalogue.xid(event.code)
            if known is not None and known.kind in ("application", "contained"):
                self._strike(event, known.meaning)
            if event.gi_id is None or known is None or known.kind != "application":
                with self._xids_lock:
                    self._xids.setdefault(event.device_uuid, Counter())[str(event.code)] += 1

    def _strike(self, event: XidEvent, meaning: str) -> None:
        """What one process did, or what befell it alone: the runtime that it can only be of starts again."""
        entries = self._books.on(event.device_uuid)
        if event.gi_id is not None:
            hit = [entry for entry in entries if entry.kind == "mig" and entry.gi_id == event.gi_id]
        else:
            hit = [entry for entry in entries if entry.kind == "whole"]
        for entry in hit:
            self.desk.strike(entry.slice_id, words.xid(event.code, meaning))

    # --- what the control plane is told -----------------------------------------------------------------------------

    def describe(self, devices: Iterable[Device]) -> list[Device]:
        """``devices`` with the XIDs that were counted here, and without the kinds that this machine lacks tools for."""
        return [self._described(device) for device in devices]

    def _described(self, device: Device) -> Device:
        if not device.board:
            return device
        signals = device.signals or DeviceSignals()
        epoch = f"{self._epoch}/{signals.epoch}" if signals.epoch else self._epoch
        with self._xids_lock:
            xids = dict(self._xids.get(device.uuid, {}))
        found = msgspec.structs.replace(device, signals=msgspec.structs.replace(signals, xids=xids, epoch=epoch))
        if not self._has_mps and "mps" in device.kinds:
            found.kinds = [kind for kind in device.kinds if kind != "mps"]
            found.unable = {**device.unable, "mps": words.mps_missing(PROGRAM)}
        return found


def end_daemons(folder: Path, *, boot: str) -> None:
    """Ends the MPS daemons that the agent of ``folder`` started; for when nothing may stay behind."""
    books = Books(folder / "slices.json", boot=boot)
    for device_uuid, program in books.daemons.items():
        MpsControl(program, folder / "mps", device_uuid).quit()
        books.note_daemon(device_uuid, None)
