"""An agent that is killed at any moment leaves what the next one brings to its end: the same layout, nobody harmed."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.cutters import SimulatedRig
from helpers.slices import KeeperBench, slice_spec
from scheduler.geometry.layouts import layouts
from scheduler.node.providers.base import Instance
from scheduler.node.slices.model import SliceNotReady

BOARD = "h100-sxm-80gb"
ACTS = ("want", "hold", "let_go", "meddle", "steal", "die", "reboot")
CALLS = ("mig_mode", "set_mig_mode", "instances", "create", "destroy", "processes")


class Killed(BaseException):
    """The agent is gone, between two instructions."""


class Mortal:
    """A cutter in which the agent dies: at its ``left``-th moment, before a call, inside it, or right after it."""

    def __init__(self, rig: SimulatedRig) -> None:
        self._rig = rig
        self.left = -1

    def moment(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed

    def __getattr__(self, name: str) -> Any:
        cutter = self._rig.cutter
        cutter.between = self.moment
        call = getattr(cutter, name)
        if name not in CALLS:
            return call

        def mortal(*arguments: Any) -> Any:
            self.moment()
            answer = call(*arguments)
            self.moment()
            return answer

        return mortal


class World:
    """Two GPUs, an agent that dies, other tools that come and go, and replicas that must not notice."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.rig = SimulatedRig(folder / "devices", BOARD)
        (folder / "agent").mkdir()
        self.bench = KeeperBench(self.rig, folder / "agent", mps=None)
        self.mortal = Mortal(self.rig)
        self.bench.cutter = self.mortal  # type: ignore[assignment]
        self.bench.new_keeper()
        self.foreign: dict[str, tuple[str, Instance]] = {}
        self.held: dict[str, tuple[str, int, str, str]] = {}  # slice: its replica, pid, device and UUID
        self.count = 0
        for uuid in self.rig.uuids:
            self.rig.cutter.set_mig_mode(uuid, True)

    def want(self) -> None:
        """Some layout beside what is foreign or held; what is held stays wanted, or is let go."""
        kept = [spec for spec in self.bench.wanted if spec.slice_id in self.held and self.random.random() < 0.7]
        wanted = list(kept)
        rules = layouts(BOARD, "mig")
        for number, uuid in enumerate(self.rig.uuids):
            there = [(spec.profile, spec.start) for spec in kept if spec.device_uuid == uuid]
            others = [
                (rules.cut.profile_by_id(made.profile_id).name, made.start)
                for device, made in self.foreign.values()
                if device == uuid
            ]
            held = [s for s in self.bench.wanted if s.slice_id in self.held and s.device_uuid == uuid and s not in kept]
            state = rules.state_of([*there, *others, *((spec.profile, spec.start) for spec in held)])
            for _ in range(self.random.randrange(4)):
                more = rules.additions(state)
                if more:
                    placement = self.random.choice(more)
                    state |= 1 << placement.index
                    self.count += 1
                    name = rules.names[placement.profile]
                    slice_id = f"slc_{self.count}"
                    wanted.append(slice_spec(self.rig, name, placement.start, device=number, slice_id=slice_id))
        self.bench.want(*wanted)

    def hold(self) -> None:
        for spec in self.bench.wanted:
            if spec.slice_id not in self.held and self.random.random() < 0.5:
                replica = f"rep_{spec.slice_id}"
                try:
                    grant, pid = self.bench.occupy(spec.slice_id, replica)
                except SliceNotReady:
                    continue
                self.held[spec.slice_id] = (replica, pid, spec.device_uuid, grant.device_uuid)

    def let_go(self) -> None:
        for slice_id, (replica, pid, _, _) in list(self.held.items()):
            if self.random.random() < 0.4:
                self.bench.end(slice_id, pid, replica)
                del self.held[slice_id]

    def meddle(self) -> None:
        """Another tool makes an instance where there is room, or takes its own away again.

        The agent has looked before: what it had begun when it was killed is known, or given up.
        """
        self.bench.step()
        uuid = self.random.choice(self.rig.uuids)
        if self.foreign and self.random.random() < 0.4:
            key = self.random.choice(sorted(self.foreign))
            device, made = self.foreign.pop(key)
            self.rig.foreign_destroy(device, made.gi_id)
            return
        rules = layouts(BOARD, "mig")
        found = self.rig.cutter.instances(uuid)
        wanted = [(spec.profile, spec.start) for spec in self.bench.wanted if spec.device_uuid == uuid]
        there = {(rules.cut.profile_by_id(one.profile_id).name, one.start) for one in found} | set(wanted)
        try:
            room = rules.additions(rules.state_of(sorted(there)))
        except LookupError:  # what is wanted is not there yet, and what is there goes first
            return
        if room:
            placement = self.random.choice(room)
            number = rules.profiles[placement.profile].id or 0
            made = self.rig.foreign_create(uuid, number, placement.start)
            self.foreign[made.uuid] = (uuid, made)

    def steal(self) -> None:
        """Another tool removes one of ours on which nobody is, and may make its own just there.

        The agent has looked before: which of two instances it was about to make, nobody could tell it.
        """
        self.bench.step()
        uuid = self.random.choice(self.rig.uuids)
        held = {slice_uuid for _, _, _, slice_uuid in self.held.values()}
        ours = [f for f in self.rig.cutter.instances(uuid) if f.uuid not in held and f.uuid not in self.foreign]
        if not ours:
            return
        stolen = self.random.choice(ours)
        self.rig.foreign_destroy(uuid, stolen.gi_id)
        if self.random.random() < 0.5:
            return
        made = self.rig.foreign_create(uuid, stolen.profile_id, stolen.start)
        self.foreign[made.uuid] = (uuid, made)
        end = made.start + made.size
        beside = [
            s for s in self.bench.wanted if s.device_uuid != uuid or s.start >= end or s.start + s.size <= made.start
        ]
        self.bench.want(*beside)

    def reboot(self) -> None:
        """Nothing that was made or ran is there any more."""
        self.held.clear()
        self.foreign.clear()
        self.rig.reboot()
        for uuid in self.rig.uuids:
            self.rig.cutter.set_mig_mode(uuid, True)
        wanted = self.bench.wanted
        self.bench.new_keeper()
        self.bench.want(*wanted)

    def die(self) -> None:
        """The agent is killed somewhere in its next passes, and the next one takes up what lives."""
        self.mortal.left = self.random.randrange(1, 40)
        try:
            self.bench.step(2)
        except Killed:
            wanted = self.bench.wanted
            self.bench.new_keeper()
            for slice_id, (replica, pid, _, _) in self.held.items():
                self.bench.desk.seated(slice_id, replica, pid)
            self.mortal.left = -1
            self.bench.want(*wanted)
        self.mortal.left = -1

    def check(self) -> None:
        """Nobody lost anything."""
        there = {found.uuid for uuid in self.rig.uuids for found in self.rig.cutter.instances(uuid)}
        assert self.foreign.keys() <= there
        assert {uuid for _, _, _, uuid in self.held.values()} <= there

    def settled(self) -> None:
        """With nobody left to wait for, what is there is what is wanted and what is foreign, and is known as such."""
        for slice_id, (replica, pid, _, _) in list(self.held.items()):
            if slice_id not in {spec.slice_id for spec in self.bench.wanted}:
                self.bench.end(slice_id, pid, replica)
                del self.held[slice_id]
        seen = self.bench.step(3)
        assert {found.state for found in seen.values()} <= {"ready"}, seen
        assert seen.keys() == {spec.slice_id for spec in self.bench.wanted}
        assert {found.uuid for found in self.bench.others()} == self.foreign.keys()
        assert {found.state for found in self.bench.others()} <= {"foreign"}
        there = {found.uuid for uuid in self.rig.uuids for found in self.rig.cutter.instances(uuid)}
        assert there == {found.uuid for found in seen.values()} | self.foreign.keys()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32), acts=st.lists(st.sampled_from(ACTS), max_size=14))
def test_whenever_the_agent_dies_the_layout_is_reached_and_nobody_is_harmed(seed: int, acts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), seed)
        world.want()
        for act in [*acts, "die", "hold", "want", "die"]:
            getattr(world, act)()
            world.check()
        world.settled()
        world.check()
