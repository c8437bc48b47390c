"""What every provider of GPUs that are cut must do: one suite, whoever answers. Expected rules are of the geometry."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from helpers import cutters
from helpers.cutters import Rig
from scheduler.geometry.boards import board, boards
from scheduler.geometry.layouts import Layouts
from scheduler.node.providers.base import CutCode, CutError

Maker = Callable[[Path, str], Rig]
MAKERS = [
    pytest.param(make, id=name)
    for name in ("simulated", "nvml_over_mock")
    if (make := getattr(cutters, name, None)) is not None
]
AMPERE, HOPPER = "a100-40gb", "h100-sxm-80gb"
RESET = {"a30-24gb", "a100-40gb", "a100-80gb"}  # Ampere
CUT = [key for key, found in boards().items() if found.mig.profiles]
PID = os.getpid()

pytestmark = pytest.mark.parametrize("make", MAKERS)


def on(rig: Rig, number: int = 0) -> str:
    """The UUID of a device in MIG mode."""
    uuid = rig.uuids[number]
    mode = rig.cutter.set_mig_mode(uuid, True)
    if mode.current != mode.pending:
        rig.reboot()
    assert rig.cutter.mig_mode(uuid).current
    return uuid


def places(rig: Rig, uuid: str) -> set[tuple[int, int]]:
    return {(found.profile_id, found.start) for found in rig.cutter.instances(uuid)}


def refusal(call: Callable[[], object]) -> CutCode:
    with pytest.raises(CutError) as caught:
        call()
    assert str(caught.value)
    return caught.value.code


@pytest.mark.parametrize("key", CUT)
def test_inventory_is_the_tables(make: Maker, tmp_path: Path, key: str) -> None:
    rig = make(tmp_path, key)
    devices = rig.provider.devices([])
    assert [device.index for device in devices] == [0, 1]
    assert len({device.uuid for device in devices}) == 2
    for device in devices:
        assert (device.board, device.units) == (key, board(key).units)
        assert device.memory_bytes >= board(key).memory_bytes
        assert set(device.kinds) | set(device.unable) == {"whole", "mig", "mps", "time-slice"}
        assert device.signals is not None
        assert not device.signals.lost
    assert [device.uuid for device in rig.provider.devices([])] == rig.uuids


@pytest.mark.parametrize("key", CUT)
def test_every_legal_place_can_be_made_and_no_other(make: Maker, tmp_path: Path, key: str) -> None:
    rig = make(tmp_path, key)
    uuid, cutter, cut = on(rig), rig.cutter, board(key).mig
    for profile in cut.profiles:
        assert profile.id is not None
        for start in range(cut.units):
            if start not in profile.starts:
                with pytest.raises(CutError):
                    cutter.create(uuid, profile.id, start)
                assert cutter.instances(uuid) == []
                continue
            made = cutter.create(uuid, profile.id, start)
            (found,) = cutter.instances(uuid)
            assert (found.gi_id, found.uuid) == (made.gi_id, made.uuid)
            assert (found.device_uuid, found.profile_id, found.start) == (uuid, profile.id, start)
            assert found.size == profile.size
            assert found.memory_bytes >= profile.memory_bytes
            assert found.used_bytes < found.memory_bytes / 2
            assert found.uuid
            cutter.destroy(uuid, found.gi_id)
            assert cutter.instances(uuid) == []


@pytest.mark.parametrize("key", ["a30-24gb", HOPPER, "rtx-pro-6000-96gb"])
def test_what_fits_beside_each_other_is_what_the_layouts_say(make: Maker, tmp_path: Path, key: str) -> None:
    """From each of some states, every further instance: made where the layouts allow it, refused where not."""
    assert key in boards(), sorted(boards())
    rig = make(tmp_path, key)
    uuid, cutter = on(rig), rig.cutter
    rules = Layouts(board(key).mig)
    for state in sorted(rules.maximal_states)[:: max(1, len(rules.maximal_states) // 4)]:
        members = rules.members(state)
        for member in members:
            cutter.create(uuid, rules.profiles[member.profile].id or 0, member.start)
        for placement in rules.placements:
            if placement not in members:
                number = rules.profiles[placement.profile].id or 0
                assert refusal(partial(cutter.create, uuid, number, placement.start)) is CutCode.NO_ROOM
        assert places(rig, uuid) == {(rules.profiles[m.profile].id, m.start) for m in members}
        assert len({found.gi_id for found in cutter.instances(uuid)}) == len(members)
        for found in cutter.instances(uuid):
            cutter.destroy(uuid, found.gi_id)


def test_the_order_that_fails_without_places_works_with_them(make: Maker, tmp_path: Path) -> None:
    """NVIDIA's own example: 1g, 1g, 2g, 3g in this order leaves the driver no room for the last."""
    rig = make(tmp_path, AMPERE)
    uuid = on(rig)
    for number, start in ((19, 0), (19, 1), (14, 2), (9, 4)):
        rig.cutter.create(uuid, number, start)
    assert places(rig, uuid) == {(19, 0), (19, 1), (14, 2), (9, 4)}


def test_calls_can_be_repeated(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    uuid, cutter = on(rig), rig.cutter
    first = cutter.create(uuid, 9, 4)
    assert cutter.create(uuid, 9, 4).uuid == first.uuid
    cutter.destroy(uuid, first.gi_id)
    cutter.destroy(uuid, first.gi_id)
    second = cutter.create(uuid, 9, 4)
    assert second.uuid != first.uuid
    assert cutter.set_mig_mode(uuid, True).current


def test_what_runs_on_an_instance_keeps_it_and_no_other(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    uuid, cutter = on(rig), rig.cutter
    held, free = cutter.create(uuid, 9, 4), cutter.create(uuid, 19, 0)
    before = held.used_bytes
    rig.add_process(uuid, held.gi_id, PID, 3 << 30)
    (process,) = cutter.processes(uuid)
    assert (process.pid, process.gi_id, process.used_bytes) == (PID, held.gi_id, 3 << 30)
    assert refusal(lambda: cutter.destroy(uuid, held.gi_id)) is CutCode.IN_USE
    assert places(rig, uuid) == {(9, 4), (19, 0)}
    used = {found.gi_id: found.used_bytes for found in cutter.instances(uuid)}
    assert used[held.gi_id] >= before + (3 << 30)
    assert used[free.gi_id] < 1 << 30
    assert cutter.used_bytes(uuid) >= 3 << 30
    cutter.destroy(uuid, free.gi_id)
    rig.remove_process(PID)
    cutter.destroy(uuid, held.gi_id)
    assert cutter.instances(uuid) == []


def test_a_leaked_handle_keeps_an_instance_that_no_process_is_on(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    uuid, cutter = on(rig), rig.cutter
    made = cutter.create(uuid, 9, 4)
    rig.leak_handle(uuid, made.gi_id)
    assert cutter.processes(uuid) == []
    assert refusal(lambda: cutter.destroy(uuid, made.gi_id)) is CutCode.IN_USE
    rig.mend()
    cutter.destroy(uuid, made.gi_id)
    assert cutter.instances(uuid) == []


def test_another_tools_instance_is_seen(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    uuid, cutter = on(rig), rig.cutter
    made = rig.foreign_create(uuid, 14, 2)
    (found,) = cutter.instances(uuid)
    assert (found.uuid, found.gi_id, found.start) == (made.uuid, made.gi_id, 2)
    assert refusal(lambda: cutter.create(uuid, 19, 3)) is CutCode.NO_ROOM
    rig.foreign_destroy(uuid, made.gi_id)
    assert cutter.instances(uuid) == []


def test_devices_are_cut_apart_from_each_other(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    first, second = on(rig, 0), on(rig, 1)
    rig.cutter.create(first, 0, 0)
    rig.cutter.create(second, 19, 6)
    assert (places(rig, first), places(rig, second)) == ({(0, 0)}, {(19, 6)})


def test_hopper_takes_up_its_mode_at_once_and_loses_it_with_a_reboot(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    uuid = rig.uuids[0]
    assert not rig.cutter.mig_mode(uuid).current
    assert rig.cutter.instances(uuid) == []
    assert refusal(lambda: rig.cutter.create(uuid, 19, 0)) is CutCode.NOT_SUPPORTED
    mode = rig.cutter.set_mig_mode(uuid, True)
    assert (mode.current, mode.pending) == (True, True)
    old = rig.cutter.create(uuid, 19, 0)
    rig.reboot()
    assert not rig.cutter.mig_mode(uuid).current
    assert rig.cutter.instances(uuid) == []
    rig.cutter.set_mig_mode(uuid, True)
    assert rig.cutter.create(uuid, 19, 0).uuid != old.uuid


def test_ampere_takes_up_its_mode_with_a_reboot_and_keeps_it(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, AMPERE)
    uuid = rig.uuids[0]
    mode = rig.cutter.set_mig_mode(uuid, True)
    assert (mode.current, mode.pending) == (False, True)
    assert rig.cutter.mig_mode(uuid) == mode
    assert refusal(lambda: rig.cutter.create(uuid, 19, 0)) is CutCode.NOT_SUPPORTED
    rig.reboot()
    assert rig.cutter.mig_mode(uuid).current
    rig.cutter.create(uuid, 19, 0)
    rig.reboot()
    assert rig.cutter.mig_mode(uuid).current
    assert rig.cutter.instances(uuid) == []


@pytest.mark.parametrize("key", CUT)
def test_what_needs_a_reset_is_not_offered(make: Maker, tmp_path: Path, key: str) -> None:
    """Which ends everything on the GPU: nobody decides that but an operator."""
    rig = make(tmp_path, key)
    uuid, all_kinds = rig.uuids[0], ["whole", "mig", "mps", "time-slice"]

    def offered() -> list[str]:
        first, second = rig.provider.devices([])
        assert second.kinds == (["whole", "mps", "time-slice"] if key in RESET else all_kinds)
        assert set(first.kinds) | set(first.unable) == set(all_kinds)
        assert not set(first.kinds) & set(first.unable)
        assert all("reset" in why for why in first.unable.values())
        return list(first.kinds)

    assert offered() == (["whole", "mps", "time-slice"] if key in RESET else all_kinds)
    rig.cutter.set_mig_mode(uuid, True)
    assert offered() == ([] if key in RESET else all_kinds)
    rig.reboot()
    assert offered() == (["mig"] if key in RESET else all_kinds)


@pytest.mark.parametrize("key", CUT)
def test_how_busy_a_gpu_in_mig_mode_is(make: Maker, tmp_path: Path, key: str) -> None:
    """Measured, or nobody knows; never a figure that nobody measured."""
    rig = make(tmp_path, key)
    uuid = on(rig)
    rig.cutter.create(uuid, board(key).mig.profiles[0].id or 0, 0)
    rig.provider.devices([])
    time.sleep(0.11)
    found = rig.provider.devices([])[0].utilisation
    unknown = key in RESET and rig.provider.name == "nvml"
    assert found == (None if unknown else 0.0)


def test_a_mode_does_not_change_under_what_is_there(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    uuid, cutter = rig.uuids[0], rig.cutter
    rig.add_process(uuid, None, PID, 1 << 20)
    assert refusal(lambda: cutter.set_mig_mode(uuid, True)) is CutCode.IN_USE
    assert not cutter.mig_mode(uuid).current
    rig.remove_process(PID)
    cutter.set_mig_mode(uuid, True)
    made = cutter.create(uuid, 19, 0)
    assert refusal(lambda: cutter.set_mig_mode(uuid, False)) is CutCode.IN_USE
    cutter.destroy(uuid, made.gi_id)
    assert not cutter.set_mig_mode(uuid, False).current


def test_one_process_at_a_time_is_not_for_mig(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    uuid, cutter = rig.uuids[0], rig.cutter
    cutter.set_exclusive(uuid, True)
    cutter.set_exclusive(uuid, True)
    cutter.set_exclusive(uuid, False)
    cutter.set_mig_mode(uuid, True)
    assert refusal(lambda: cutter.set_exclusive(uuid, True)) is CutCode.NOT_SUPPORTED


def test_xids_are_told_once_with_the_instance_they_are_of(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    uuid, cutter = on(rig), rig.cutter
    made = cutter.create(uuid, 19, 0)
    assert cutter.xid_events() == []
    rig.xid(uuid, 31, made.gi_id)
    rig.xid(rig.uuids[1], 79)
    told = [(event.device_uuid, event.code, event.gi_id) for event in cutter.xid_events()]
    assert sorted(told, key=lambda event: event[1]) == [(uuid, 31, made.gi_id), (rig.uuids[1], 79, None)]
    assert cutter.xid_events() == []


def test_a_device_that_is_not_there_is_not_found(make: Maker, tmp_path: Path) -> None:
    rig = make(tmp_path, HOPPER)
    assert refusal(lambda: rig.cutter.mig_mode("GPU-nowhere")) is CutCode.NOT_FOUND
