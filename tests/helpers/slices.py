"""A keeper of slices over devices to cut, one after another as an agent is killed and started again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuruntime.protocol import ObservedSlice, SliceSpec
from helpers.cutters import SimulatedRig
from scheduler.geometry.boards import board
from scheduler.node.providers.base import Cutter
from scheduler.node.slices.desk import SliceDesk
from scheduler.node.slices.keeper import SliceKeeper
from scheduler.node.slices.model import Grant, SliceNotReady

GIB = 1 << 30
SIMULATED_MPS = (sys.executable, "-S", "-E", str(Path(__file__).parents[2] / "scheduler/node/simulated_mps.py"))


class KeeperBench:
    """``keeper`` is stepped by hand. ``cutter``: in the place of the rig's own, for calls that fail."""

    def __init__(self, rig: SimulatedRig, folder: Path, mps: Sequence[str] | None = SIMULATED_MPS) -> None:
        self.rig = rig
        self.folder = folder
        self.mps = mps
        self.wanted: list[SliceSpec] = []
        self.cutter: Cutter | None = None
        self.next_pid = 4_000_001  # beyond what this machine gives out
        self.keeper = self.new_keeper()

    @property
    def desk(self) -> SliceDesk:
        return self.keeper.desk

    def new_keeper(self) -> SliceKeeper:
        """As after the agent's death, or a reboot."""
        devices = self.keeper_devices()
        cutter = self.cutter if self.cutter is not None else self.rig.cutter
        self.keeper = SliceKeeper(cutter, devices, self.folder, boot=self.rig.boot, mps_program=self.mps)
        return self.keeper

    def keeper_devices(self) -> list[Any]:
        return self.rig.provider.devices([])

    def want(self, *specs: SliceSpec) -> None:
        self.wanted = list(specs)
        self.desk.apply(specs)

    def kept(self, *specs: SliceSpec, steps: int = 1) -> dict[str, ObservedSlice]:
        """What is observed once these are wanted and were looked at."""
        self.want(*specs)
        return self.step(steps)

    def step(self, steps: int = 1) -> dict[str, ObservedSlice]:
        for _ in range(steps):
            self.keeper.step()
        return {found.slice_id: found for found in self.desk.observed() if found.slice_id}

    def others(self) -> list[ObservedSlice]:
        return [found for found in self.desk.observed() if not found.slice_id]

    def occupy(self, slice_id: str, replica_id: str = "rep_1", used_bytes: int = GIB) -> tuple[Grant, int]:
        """A runtime that took the slice and runs on it; its process is known to the driver.

        Raises ``SliceNotReady`` where the slice is gone, as such a runtime would fail.
        """
        grant = self.desk.take(slice_id, replica_id)
        pid, self.next_pid = self.next_pid, self.next_pid + 1
        self.desk.seated(slice_id, replica_id, pid)
        spec = next(spec for spec in self.wanted if spec.slice_id == slice_id)
        gi_id = None
        if spec.kind == "mig":
            found = self.rig.cutter.instances(spec.device_uuid)
            gi_id = next((instance.gi_id for instance in found if instance.uuid == grant.device_uuid), None)
            if gi_id is None:
                self.desk.leave(slice_id, replica_id)
                raise SliceNotReady(f"{slice_id} is gone")
        self.rig.add_process(spec.device_uuid, gi_id, pid, used_bytes)
        return grant, pid

    def end(self, slice_id: str, pid: int, replica_id: str = "rep_1") -> None:
        """Its process is gone, and the driver knows it."""
        self.rig.remove_process(pid)
        self.desk.leave(slice_id, replica_id)


def slice_spec(
    rig: SimulatedRig, profile: str, start: int = 0, *, kind: str = "mig", device: int = 0, slice_id: str = ""
) -> SliceSpec:
    device_uuid = rig.uuids[device]
    found = board(rig.provider.devices([])[device].board)
    cut = found.cut("mig" if kind == "mig" else "whole" if kind == "whole" else "shares")
    known = cut.profile(profile)
    return SliceSpec(
        slice_id=slice_id or f"slc_{device}_{profile.replace('/', '-')}_{start}",
        device_uuid=device_uuid,
        kind=kind,  # type: ignore[arg-type]
        profile=profile,
        profile_id=known.id,
        start=start,
        size=known.size,
        of_units=cut.units,
        memory_bytes=known.memory_bytes,
        thread_percentage=100 * known.size // cut.units,
    )
