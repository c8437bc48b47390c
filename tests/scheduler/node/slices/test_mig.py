"""MIG instances: made where they are wanted, taken away when nobody is on them, and nobody else's touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from helpers.cutters import nvml_over_mock, simulated
from helpers.slices import GIB, KeeperBench, slice_spec
from scheduler.node.providers.base import CutCode, CutError, MigMode
from scheduler.node.slices.model import SliceNotReady


@pytest.fixture(params=[simulated, nvml_over_mock], ids=lambda maker: maker.__name__)
def make_rig(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return request.param  # type: ignore[no-any-return]


def there(bench: KeeperBench, device: int = 0) -> set[tuple[int, int]]:
    return {(found.profile_id, found.start) for found in bench.rig.cutter.instances(bench.rig.uuids[device])}


def test_wanted_slices_are_made_at_their_places_and_given_by_uuid(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    large, small = slice_spec(bench.rig, "3g.40gb", 4), slice_spec(bench.rig, "1g.10gb", 2)
    other = slice_spec(bench.rig, "7g.80gb", device=1)
    seen = bench.kept(small, large, other)
    assert {found.state for found in seen.values()} == {"ready"}
    assert there(bench) == {(9, 4), (19, 2)}
    assert there(bench, 1) == {(0, 0)}
    uuids = {found.uuid for found in bench.rig.cutter.instances(bench.rig.uuids[0])}
    assert {seen[large.slice_id].uuid, seen[small.slice_id].uuid} == uuids
    grant = bench.desk.take(large.slice_id, "rep_1")
    assert grant.device_uuid == seen[large.slice_id].uuid
    assert grant.environment == {"CUDA_VISIBLE_DEVICES": grant.device_uuid}
    assert grant.memory_bytes == large.memory_bytes


def test_nothing_is_done_before_the_first_word_of_what_is_wanted(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    bench.kept(slice_spec(bench.rig, "3g.40gb", 4))
    bench.new_keeper()
    bench.step(2)
    assert there(bench) == {(9, 4)}
    bench.kept()
    assert there(bench) == set()


def test_a_replica_waits_for_a_slice_with_a_reason(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    with pytest.raises(SliceNotReady, match="has not been told"):
        bench.desk.take(spec.slice_id, "rep_1")
    bench.want(spec)
    with pytest.raises(SliceNotReady, match=r"Waiting for its slice 3g\.40gb on gpu-0: it is being made"):
        bench.desk.take(spec.slice_id, "rep_1")
    bench.step()
    bench.desk.take(spec.slice_id, "rep_1")
    with pytest.raises(SliceNotReady, match="replica rep_1 still runs there"):
        bench.desk.take(spec.slice_id, "rep_2")


def test_no_slice_is_taken_from_under_a_live_replica(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec, other = slice_spec(bench.rig, "3g.40gb", 4), slice_spec(bench.rig, "1g.10gb", 6)
    bench.kept(spec)
    _, pid = bench.occupy(spec.slice_id)
    seen = bench.kept(other)
    assert there(bench) == {(9, 4)}
    assert seen[spec.slice_id].state == "removing"
    assert "replica rep_1 still runs there" in seen[spec.slice_id].reason
    assert (seen[other.slice_id].state, "3g.40gb at 4 goes first" in seen[other.slice_id].reason) == ("creating", True)
    bench.desk.leave(spec.slice_id, "rep_1")  # the agent saw it end, the driver not yet
    bench.step()
    assert there(bench) == {(9, 4)}
    bench.rig.remove_process(pid)
    assert bench.step()[other.slice_id].state == "ready"
    assert there(bench) == {(19, 6)}


def test_a_place_passes_to_the_next_slice_that_wants_it(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    uuid = bench.kept(spec)[spec.slice_id].uuid
    _, pid = bench.occupy(spec.slice_id)
    again = slice_spec(bench.rig, "3g.40gb", 4, slice_id="slc_new")
    assert bench.kept(again)["slc_new"].state == "creating"
    bench.end(spec.slice_id, pid)
    found = bench.step()["slc_new"]
    assert (found.state, found.uuid) == ("ready", uuid)
    bench.occupy("slc_new", "rep_2")


def test_memory_that_a_dead_process_left_keeps_a_slice_from_the_next(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    bench.kept(spec)
    _, pid = bench.occupy(spec.slice_id, used_bytes=30 * GIB)
    bench.desk.leave(spec.slice_id, "rep_1")
    with pytest.raises(SliceNotReady, match="is being checked"):
        bench.desk.take(spec.slice_id, "rep_1")
    assert bench.step()[spec.slice_id].state == "ready"
    with pytest.raises(SliceNotReady, match=f"pid {pid}"):
        bench.desk.take(spec.slice_id, "rep_1")
    bench.rig.remove_process(pid)
    bench.step()
    bench.desk.take(spec.slice_id, "rep_1")


def test_memory_without_a_process_is_measured_against_what_was_used_at_first(  # type: ignore[no-untyped-def]
    new_bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    bench.kept(spec)
    _, pid = bench.occupy(spec.slice_id, used_bytes=30 * GIB)
    bench.desk.leave(spec.slice_id, "rep_1")
    monkeypatch.setattr(bench.rig.cutter, "processes", lambda _uuid: [])
    bench.new_keeper()  # what was used at first outlives the agent
    bench.kept(spec)
    with pytest.raises(SliceNotReady, match=r"not free yet \(30720 MiB\)"):
        bench.desk.take(spec.slice_id, "rep_2")
    bench.rig.remove_process(pid)
    bench.step()
    bench.desk.take(spec.slice_id, "rep_2")


def test_a_look_from_before_a_slice_was_taken_frees_nothing(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    bench.kept(spec)
    device = spec.device_uuid
    wanted = bench.desk.wanted(device)
    outcome = bench.keeper._bring(bench.keeper_devices()[0], [spec])[1]
    bench.desk.take(spec.slice_id, "rep_1")
    bench.desk.leave(spec.slice_id, "rep_1")
    bench.desk.settle(device, wanted, outcome, [])
    with pytest.raises(SliceNotReady, match="is being checked"):
        bench.desk.take(spec.slice_id, "rep_2")
    assert bench.desk.restless(device)


def test_a_leaked_handle_costs_its_own_slice_alone(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    stuck, fine = slice_spec(bench.rig, "3g.40gb", 4), slice_spec(bench.rig, "2g.20gb", 0)
    bench.kept(stuck, fine)
    (gi_id,) = (found.gi_id for found in bench.rig.cutter.instances(stuck.device_uuid) if found.start == 4)
    bench.rig.leak_handle(stuck.device_uuid, gi_id)
    new, there_again = slice_spec(bench.rig, "1g.10gb", 3), slice_spec(bench.rig, "3g.40gb", 4, slice_id="slc_new")
    seen = bench.kept(fine, new)
    assert (seen[fine.slice_id].state, seen[new.slice_id].state) == ("ready", "ready")
    (other,) = bench.others()
    assert (other.state, other.profile, other.start) == ("quarantined", "3g.40gb", 4)
    assert "In use by another client" in other.reason
    assert bench.kept(fine, new, there_again)["slc_new"].state == "creating"  # it cannot be trusted
    bench.rig.mend()
    seen = bench.step(2)
    assert {found.state for found in seen.values()} == {"ready"}
    assert bench.others() == []
    bench.desk.take("slc_new", "rep_1")


def test_with_the_books_lost_only_what_was_reported_is_taken_up(new_bench) -> None:  # type: ignore[no-untyped-def]
    """By UUID, profile and place; nothing that has one of them wrong."""
    bench = new_bench()
    ours, other = slice_spec(bench.rig, "3g.40gb", 4), slice_spec(bench.rig, "1g.10gb", 0)
    bench.kept(ours, other)
    uuids = {found.start: found.uuid for found in bench.rig.cutter.instances(ours.device_uuid)}
    known = msgspec.structs.replace(ours, uuid=uuids[4])
    near_misses = [
        msgspec.structs.replace(other, uuid=""),  # never reported
        msgspec.structs.replace(other, uuid=uuids[4]),
        msgspec.structs.replace(other, uuid="MIG-another"),  # made anew since
        msgspec.structs.replace(other, uuid=uuids[0], start=1),
        msgspec.structs.replace(other, uuid=uuids[0], profile_id=20, profile="1g.10gb+me"),
        msgspec.structs.replace(other, uuid=uuids[0], profile_id=None),
    ]
    for near_miss in near_misses:
        (bench.folder / "slices.json").unlink()
        bench.new_keeper()
        seen = bench.kept(known, near_miss)
        assert (seen[ours.slice_id].state, seen[ours.slice_id].uuid) == ("ready", uuids[4])
        assert [(found.state, found.uuid) for found in bench.others()] == [("foreign", uuids[0])]
        there_now = {found.uuid for found in bench.rig.cutter.instances(ours.device_uuid)}
        assert there_now >= set(uuids.values())
        if near_miss.start == 1:  # at the place of its own it was made
            bench.kept(known)


def test_what_is_taken_up_is_given_on_only_when_it_is_empty(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    uuid = bench.kept(spec)[spec.slice_id].uuid
    _, pid = bench.occupy(spec.slice_id, used_bytes=30 * GIB)
    (bench.folder / "slices.json").unlink()
    bench.new_keeper()
    bench.desk.seated(spec.slice_id, "rep_1", pid)
    bench.kept(msgspec.structs.replace(spec, uuid=uuid))
    with pytest.raises(SliceNotReady, match="rep_1 still runs there"):
        bench.desk.take(spec.slice_id, "rep_2")
    bench.desk.leave(spec.slice_id, "rep_1")
    bench.step()
    with pytest.raises(SliceNotReady, match=f"pid {pid}"):
        bench.desk.take(spec.slice_id, "rep_2")
    bench.rig.remove_process(pid)
    bench.step()
    assert bench.desk.take(spec.slice_id, "rep_2").device_uuid == uuid


def test_a_uuid_that_the_control_plane_has_heard_changes_nothing(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    seen = bench.kept(spec)
    bench.want(msgspec.structs.replace(spec, uuid=seen[spec.slice_id].uuid))
    assert bench.desk.observed() == list(seen.values())
    bench.desk.take(spec.slice_id, "rep_1")


def test_what_another_tool_made_is_reported_and_never_touched(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    bench.rig.cutter.set_mig_mode(bench.rig.uuids[0], True)
    made = bench.rig.foreign_create(bench.rig.uuids[0], 14, 0)
    there_too, free = slice_spec(bench.rig, "2g.20gb", 0), slice_spec(bench.rig, "3g.40gb", 4)
    seen = bench.kept(there_too, free, steps=3)
    assert seen[free.slice_id].state == "ready"
    assert seen[there_too.slice_id].state == "failed"
    assert "taken by an instance that another tool made (2g.20gb at 0)" in seen[there_too.slice_id].reason
    (other,) = bench.others()
    assert (other.state, other.profile, other.uuid) == ("foreign", "2g.20gb", made.uuid)
    bench.kept()
    assert [found.uuid for found in bench.rig.cutter.instances(bench.rig.uuids[0])] == [made.uuid]
    bench.rig.foreign_destroy(bench.rig.uuids[0], made.gi_id)
    assert bench.kept(there_too)[there_too.slice_id].state == "ready"
    assert bench.others() == []


def test_a_slice_that_another_tool_removed_is_made_anew(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    old = bench.kept(spec)[spec.slice_id].uuid
    (found,) = bench.rig.cutter.instances(spec.device_uuid)
    bench.rig.foreign_destroy(spec.device_uuid, found.gi_id)
    seen = bench.step()[spec.slice_id]
    assert (seen.state, seen.uuid != old) == ("ready", True)


def test_a_replica_whose_slice_another_tool_removed_starts_again(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    bench.kept(spec)
    _, pid = bench.occupy(spec.slice_id)
    bench.rig.remove_process(pid)
    (found,) = bench.rig.cutter.instances(spec.device_uuid)
    bench.rig.foreign_destroy(spec.device_uuid, found.gi_id)
    assert bench.step(2)[spec.slice_id].state == "failed"
    assert bench.desk.struck() == [("rep_1", "another tool removed it while replica rep_1 ran on it")]
    bench.desk.leave(spec.slice_id, "rep_1")
    assert bench.step()[spec.slice_id].state == "ready"


def test_another_tools_instance_in_a_vanished_ones_place_is_not_ours(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    bench.kept(spec)
    (found,) = bench.rig.cutter.instances(spec.device_uuid)
    bench.rig.foreign_destroy(spec.device_uuid, found.gi_id)
    made = bench.rig.foreign_create(spec.device_uuid, 9, 4)
    assert bench.step()[spec.slice_id].state == "failed"
    bench.kept()
    assert [found.uuid for found in bench.rig.cutter.instances(spec.device_uuid)] == [made.uuid]


def test_the_layout_is_there_again_after_a_reboot(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    specs = [slice_spec(bench.rig, "3g.40gb", 4), slice_spec(bench.rig, "1g.10gb", 0)]
    before = {found.uuid for found in bench.kept(*specs).values()}
    bench.rig.reboot()
    bench.new_keeper()
    assert there(bench) == set()
    after = bench.kept(*specs)
    assert {found.state for found in after.values()} == {"ready"}
    assert there(bench) == {(9, 4), (19, 0)}
    assert not before & {found.uuid for found in after.values()}


def test_ampere_says_that_it_needs_a_reset(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench("a100-40gb")
    spec = slice_spec(bench.rig, "3g.20gb", 4)
    seen = bench.kept(spec, steps=3)[spec.slice_id]
    assert (seen.state, "with its next reset only" in seen.reason) == ("failed", True)
    assert bench.rig.cutter.mig_mode(spec.device_uuid) == MigMode(current=False, pending=True)
    bench.rig.reboot()
    bench.new_keeper()
    assert bench.kept(spec)[spec.slice_id].state == "ready"


def test_mig_mode_waits_for_an_idle_gpu(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    spec = slice_spec(bench.rig, "3g.40gb", 4)
    bench.rig.add_process(spec.device_uuid, None, 77, GIB)
    assert "once nothing runs on it" in bench.kept(spec)[spec.slice_id].reason
    bench.rig.remove_process(77)
    assert bench.step()[spec.slice_id].state == "ready"


@pytest.mark.parametrize(
    ("code", "said"),
    [(CutCode.NO_PERMISSION, "the agent may not cut gpu-0: no"), (CutCode.NO_ROOM, "gpu-0 refused: no")],
)
def test_a_refusal_is_told_and_costs_no_other_slice(  # type: ignore[no-untyped-def]
    new_bench, monkeypatch: pytest.MonkeyPatch, code: CutCode, said: str
) -> None:
    bench = new_bench()
    real = bench.rig.cutter.create

    def create(device_uuid: str, profile_id: int, start: int) -> object:
        if start == 4:
            raise CutError(code, "no")
        return real(device_uuid, profile_id, start)

    monkeypatch.setattr(bench.rig.cutter, "create", create)
    bad, good = slice_spec(bench.rig, "3g.40gb", 4), slice_spec(bench.rig, "1g.10gb", 0)
    seen = bench.kept(bad, good)
    assert seen[good.slice_id].state == "ready"
    assert (seen[bad.slice_id].state, seen[bad.slice_id].reason[: len(said)]) == ("failed", said)
    monkeypatch.setattr(bench.rig.cutter, "create", real)
    assert bench.step()[bad.slice_id].state == "ready"


def test_a_lost_gpu_costs_the_other_nothing(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    first, second = slice_spec(bench.rig, "1g.10gb"), slice_spec(bench.rig, "1g.10gb", device=1)
    bench.kept(first, second)
    bench.rig.lose(first.device_uuid)
    seen = bench.step()
    assert (seen[first.slice_id].state, seen[second.slice_id].state) == ("failed", "ready")
    assert "gpu-0 does not answer" in seen[first.slice_id].reason
    bench.rig.lose(first.device_uuid, lost=False)
    assert bench.step()[first.slice_id].state == "ready"


def test_an_applications_xid_strikes_its_runtime_alone(new_bench) -> None:  # type: ignore[no-untyped-def]
    bench = new_bench()
    hit, spared = slice_spec(bench.rig, "3g.40gb", 4), slice_spec(bench.rig, "1g.10gb", 0)
    bench.kept(hit, spared)
    bench.occupy(hit.slice_id, "rep_1")
    bench.occupy(spared.slice_id, "rep_2")
    (gi_id,) = (found.gi_id for found in bench.rig.cutter.instances(hit.device_uuid) if found.start == 4)
    bench.rig.xid(hit.device_uuid, 31, gi_id)
    bench.rig.xid(hit.device_uuid, 79)
    bench.rig.xid(hit.device_uuid, 79)
    bench.step()
    assert bench.desk.struck() == [("rep_1", "XID 31 on its slice: a process used an address that it does not have")]
    assert bench.desk.struck() == []
    first, second = bench.keeper.describe(bench.rig.provider.devices([]))
    assert first.signals is not None
    assert second.signals is not None
    assert (first.signals.xids, second.signals.xids) == ({"79": 2}, {})
    assert first.signals.epoch
    bench.new_keeper()
    (again, _) = bench.keeper.describe(bench.rig.provider.devices([]))
    assert again.signals is not None
    assert again.signals.epoch != first.signals.epoch
