"""The mock of NVML, through the real nvidia-ml-py, against what is known of the hardware."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from ctypes import byref, c_uint
from pathlib import Path
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pynvml import NVMLError

from helpers.mocknvml.control import IN_USE, PLAIN, UNKNOWN, Machine, MockError
from scheduler.geometry.boards import board
from scheduler.geometry.layouts import Layouts

H100, A100, A30, RTX = "h100-sxm-80gb", "a100-40gb", "a30-24gb", "rtx-pro-6000-96gb"
NO_ROOM, NO_PERMISSION, NOT_SUPPORTED, INVALID, NOT_FOUND = 23, 4, 3, 2, 6


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """An H100, an A100 and an L40S, without MIG yet."""
    with Machine.create(tmp_path / "state", [H100, A100, PLAIN]) as made:
        made.activate()
        pynvml.nvmlInit()
        yield made
        pynvml.nvmlShutdown()


@pytest.fixture
def gpu(machine: Machine) -> Any:
    """The H100, in MIG mode."""
    machine.enable_mig(0)
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def code(call: Any, *arguments: Any, **named: Any) -> int:
    """NVML's number for the call; 0 for a success."""
    try:
        call(*arguments, **named)
    except NVMLError as error:
        return int(error.value)
    return 0


def make(gpu: Any, profile_id: int, start: int, size: int) -> Any:
    placement = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile_id, byref(placement))


def device_of(instance: Any, width: int) -> Any:
    """Its MIG device, with a compute instance of the profile ``width``."""
    made = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, width)
    return pynvml.nvmlComputeInstanceGetInfo(made).device


def start_of(instance: Any) -> int:
    return int(pynvml.nvmlGpuInstanceGetInfo(instance).placement.start)


# --- layouts of the driver's numbers and structures -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("structure", "size"),
    [
        ("c_nvmlGpuInstanceProfileInfo_t", 48),
        ("c_nvmlGpuInstanceProfileInfo_v2_t", 152),
        ("c_nvmlGpuInstancePlacement_t", 8),
        ("c_nvmlGpuInstanceInfo_t", 24),
        ("c_nvmlComputeInstanceProfileInfo_t", 36),
        ("c_nvmlComputeInstanceProfileInfo_v2_t", 136),
        ("c_nvmlComputeInstanceInfo_t", 32),
        ("c_nvmlDeviceAttributes", 40),
        ("c_nvmlEventData_t", 32),
        ("c_nvmlProcessInfo_v3_t", 24),
        ("c_nvmlMemory_t", 24),
        ("c_nvmlMemory_v2_t", 40),
        ("c_nvmlUtilization_t", 8),
        ("nvmlPciInfo_t", 68),
        ("c_nvmlFieldValue_t", 40),
    ],
)
def test_nvidias_binding_has_the_sizes_that_the_mock_asserts(structure: str, size: int) -> None:
    assert ctypes.sizeof(getattr(pynvml, structure)) == size


def test_a_profile_has_two_numbers(gpu: Any) -> None:
    """The one that asks for it is NVML's, the one that makes it the board's."""
    info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 9)
    assert (info.id, info.sliceCount, info.instanceCount, info.multiprocessorCount) == (15, 1, 4, 26)
    assert (info.name, info.memorySizeMB) == ("MIG 1g.20gb", board(H100).mig.profile("1g.20gb").memory_mib)
    count = c_uint(0)
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, 15, None, byref(count))
    found = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, 15, found, byref(count))
    assert [(one.start, one.size) for one in found] == [(0, 2), (2, 2), (4, 2), (6, 2)]
    numbers = [code(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, number) for number in range(0x13)]
    assert [number for number, answer in enumerate(numbers) if answer == 0] == [0, 1, 2, 3, 4, 7, 9]
    assert numbers[0x12] == INVALID
    assert set(numbers[:0x12]) == {0, NOT_SUPPORTED}


def test_with_mig_off_only_the_first_version_tells_of_profiles(machine: Machine) -> None:
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 2, version=1).id == 9
    assert code(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, 2) == NOT_SUPPORTED


# --- what can be where ----------------------------------------------------------------------------------------------


class Walk:
    """Every state of a GPU, reached by making instances in the order of their places, each state once."""

    def __init__(self, gpu: Any, key: str, names: tuple[str, ...]) -> None:
        self.gpu = gpu
        found = [board(key).mig.profile(name) for name in names]
        self.ids = [profile.id for profile in found]
        self.places = [(profile.id, start, profile.size) for profile in found for start in profile.starts]
        self.states = self.maximal = 0

    def from_here(self, first: int = 0) -> None:
        self.states += 1
        room = [pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(self.gpu, number) for number in self.ids]
        self.maximal += not any(room)
        for index in range(first, len(self.places)):
            try:
                made = make(self.gpu, *self.places[index])
            except NVMLError as error:
                assert error.value == NO_ROOM  # noqa: PT017
            else:
                self.from_here(index + 1)
                pynvml.nvmlGpuInstanceDestroy(made)


@pytest.mark.parametrize(
    ("key", "more", "states", "maximal"),
    [(H100, (), 723, 78), (A100, ("1g.5gb+me",), 2319, 239), (A30, (), 26, 5), (RTX, (), 26, 5)],
)
def test_as_many_states_as_are_known(
    tmp_path: Path, key: str, more: tuple[str, ...], states: int, maximal: int
) -> None:
    machine = Machine.create(tmp_path / "state", [key])
    machine.enable_mig(0)
    machine.activate()
    pynvml.nvmlInit()
    walk = Walk(pynvml.nvmlDeviceGetHandleByIndex(0), key, (*board(key).mig.serving(), *more))
    walk.from_here()
    pynvml.nvmlShutdown()
    assert (walk.states, walk.maximal) == (states, maximal)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine.create(tmp_path_factory.mktemp("walked") / "state", [RTX, A100])
    for index in range(2):
        machine.enable_mig(index)
    return machine


@settings(max_examples=60)
@given(index=st.integers(0, 1), choices=st.lists(st.integers(0, 999), max_size=24))
def test_a_walk_goes_where_the_geometry_says(walked: Machine, index: int, choices: list[int]) -> None:
    """With every profile of the board, those for video and graphics too: who tolerates whom, and how often."""
    walked.activate()
    walked.reset(index)
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
    cut = board((RTX, A100)[index]).mig
    rules = Layouts(cut, [profile.name for profile in cut.profiles])
    state, made = 0, {}
    for choice in choices:
        placement = rules.placements[choice % len(rules.placements)]
        profile = rules.profiles[placement.profile]
        if placement.index in made:
            pynvml.nvmlGpuInstanceDestroy(made.pop(placement.index))
            state &= ~(1 << placement.index)
            continue
        allowed = rules.can_add(state, placement)
        try:
            made[placement.index] = make(gpu, profile.id, placement.start, profile.size)
        except NVMLError as error:
            assert (error.value, allowed) == (NO_ROOM, False)  # noqa: PT017
        else:
            assert allowed
            state |= 1 << placement.index
    ids = [pynvml.nvmlGpuInstanceGetInfo(one).id for one in made.values()]
    assert len(set(ids)) == len(ids)
    pynvml.nvmlShutdown()


def test_the_order_that_nvidia_documents_as_failing(machine: Machine) -> None:
    """``nvidia-smi mig -cgi 19,19,14,9``: the driver's own places leave no half for the last."""
    machine.enable_mig(1)
    gpu = pynvml.nvmlDeviceGetHandleByIndex(1)
    made = [pynvml.nvmlDeviceCreateGpuInstance(gpu, number) for number in (19, 19, 14)]
    assert [start_of(one) for one in made] == [6, 4, 0]
    assert code(pynvml.nvmlDeviceCreateGpuInstance, gpu, 9) == NO_ROOM
    for one in made:
        pynvml.nvmlGpuInstanceDestroy(one)
    works = [pynvml.nvmlDeviceCreateGpuInstance(gpu, number) for number in (9, 19, 14, 19)]
    assert [start_of(one) for one in works] == [4, 0, 2, 1]


def test_a_place_that_the_board_does_not_have_is_an_argument_not_a_lack_of_room(gpu: Any) -> None:
    assert code(make, gpu, 9, 2, 4) == INVALID
    assert code(make, gpu, 9, 4, 3) == INVALID
    assert code(make, gpu, 2, 0, 4) == INVALID  # NVML's number of 3g, not the board's


def test_ids_are_nodes_of_a_tree(gpu: Any) -> None:
    def id_at(profile_id: int, start: int, size: int) -> int:
        made = make(gpu, profile_id, start, size)
        found = int(pynvml.nvmlGpuInstanceGetInfo(made).id)
        pynvml.nvmlGpuInstanceDestroy(made)
        return found

    assert [id_at(19, start, 1) for start in range(7)] == [7, 8, 9, 10, 11, 12, 13]
    assert [id_at(14, start, 2) for start in (0, 2, 4)] == [3, 4, 5]
    assert id_at(0, 0, 8) == 0
    assert id_at(9, 4, 4) == 1  # of halves the first that is made, wherever it lies
    upper = make(gpu, 9, 4, 4)
    assert (pynvml.nvmlGpuInstanceGetInfo(upper).id, id_at(5, 0, 4)) == (1, 2)


# --- what goes before what ------------------------------------------------------------------------------------------


def test_an_instance_is_a_device_only_with_a_compute_instance(gpu: Any) -> None:
    instance = make(gpu, 9, 4, 4)
    assert code(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, 0) == NOT_FOUND
    device = device_of(instance, 2)
    assert pynvml.nvmlDeviceIsMigDeviceHandle(device).value == 1
    uuid = pynvml.nvmlDeviceGetUUID(device)
    assert uuid.startswith("MIG-")
    for same in (pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0), pynvml.nvmlDeviceGetHandleByUUID(uuid)):
        assert pynvml.nvmlDeviceGetUUID(same) == uuid
    assert pynvml.nvmlDeviceGetGpuInstanceId(device) == pynvml.nvmlGpuInstanceGetInfo(instance).id
    assert pynvml.nvmlDeviceGetAttributes(device).multiprocessorCount == 60
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    assert pynvml.nvmlDeviceGetUUID(parent) == pynvml.nvmlDeviceGetUUID(gpu)


def test_one_made_again_has_another_uuid_and_old_handles_are_refused(gpu: Any) -> None:
    seen = set()
    for _ in range(3):
        instance = make(gpu, 9, 4, 4)
        compute = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
        device = pynvml.nvmlComputeInstanceGetInfo(compute).device
        seen.add(pynvml.nvmlDeviceGetUUID(device))
        pynvml.nvmlComputeInstanceDestroy(compute)
        pynvml.nvmlGpuInstanceDestroy(instance)
        assert code(pynvml.nvmlGpuInstanceGetInfo, instance) == INVALID
        assert code(pynvml.nvmlDeviceGetUUID, device) == INVALID
        make_again = make(gpu, 9, 4, 4)
        assert code(pynvml.nvmlGpuInstanceGetInfo, instance) == INVALID
        pynvml.nvmlGpuInstanceDestroy(make_again)
    assert len(seen) == 3


def test_the_list_of_devices_has_holes(gpu: Any) -> None:
    devices = [device_of(make(gpu, 19, start, 1), 0) for start in range(3)]
    pynvml.nvmlDeviceGetUUID(devices[1])
    middle = pynvml.nvmlDeviceGetGpuInstanceById(gpu, 8)
    pynvml.nvmlComputeInstanceDestroy(pynvml.nvmlGpuInstanceGetComputeInstanceById(middle, 0))
    most = pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)
    answers = [code(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, index) for index in range(most)]
    assert answers == [0, NOT_FOUND, 0, NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND]


def test_instances_of_a_profile_are_listed_without_asking_for_the_room(gpu: Any) -> None:
    for start in (0, 2, 5):
        make(gpu, 19, start, 1)
    found, count = (pynvml.c_nvmlGpuInstance_t * 7)(), c_uint(99)
    pynvml.nvmlDeviceGetGpuInstances(gpu, 19, found, byref(count))
    assert sorted(start_of(one) for one in found[: count.value]) == [0, 2, 5]


def test_compute_instances_share_an_instances_slices(gpu: Any) -> None:
    """How many of each width NVIDIA's guide gives: of 3g, 4g and 7g."""
    for (profile_id, start, size), most in {
        (9, 0, 4): {0: 3, 1: 1, 2: 1},
        (5, 0, 4): {0: 4, 1: 2, 3: 1},
        (0, 0, 8): {0: 7, 1: 3, 2: 2, 3: 1, 4: 1},
    }.items():
        instance = make(gpu, profile_id, start, size)
        ask = pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity
        assert {n: ask(instance, n) for n in range(9) if code(ask, instance, n) == 0} == most
        pynvml.nvmlGpuInstanceDestroy(instance)
    third = make(gpu, 9, 0, 4)
    one = pynvml.nvmlGpuInstanceCreateComputeInstance(third, 0)
    assert pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(third, 0, 0).name == "MIG 1c.3g.40gb"
    assert code(pynvml.nvmlGpuInstanceCreateComputeInstance, third, 2) == NO_ROOM
    pynvml.nvmlComputeInstanceDestroy(one)
    assert code(pynvml.nvmlGpuInstanceCreateComputeInstance, third, 2) == 0


def test_what_is_in_use_cannot_be_destroyed(machine: Machine, gpu: Any) -> None:
    instance = make(gpu, 9, 4, 4)
    compute = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
    assert code(pynvml.nvmlGpuInstanceDestroy, instance) == IN_USE
    number = pynvml.nvmlGpuInstanceGetInfo(instance).id
    with subprocess.Popen(["sleep", "60"]) as child:
        machine.add_process(0, child.pid, 5 << 30, number)
        (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
        assert (process.pid, process.gpuInstanceId, process.usedGpuMemory) == (child.pid, number, 5 << 30)
        assert code(pynvml.nvmlComputeInstanceDestroy, compute) == IN_USE
        child.kill()
        deadline = time.monotonic() + 5
        # Not waited for, it is a zombie, which holds nothing.
        while pynvml.nvmlDeviceGetComputeRunningProcesses(gpu) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert code(pynvml.nvmlComputeInstanceDestroy, compute) == 0
    machine.leak(0, number)
    assert code(pynvml.nvmlGpuInstanceDestroy, instance) == IN_USE
    machine.release(0, number)
    assert code(pynvml.nvmlGpuInstanceDestroy, instance) == 0


def test_memory_may_come_back_later_than_its_process_goes(machine: Machine, gpu: Any) -> None:
    instance = make(gpu, 19, 0, 1)
    device = device_of(instance, 0)
    number = pynvml.nvmlGpuInstanceGetInfo(instance).id
    machine.add_process(0, 4_000_000, 1 << 30, number, linger_s=0.15)
    machine.end_process(4_000_000)
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(gpu) == []
    assert pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2).used == 1 << 30
    time.sleep(0.2)
    assert pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2).used == 0


def test_memory_is_the_instances_and_the_first_version_counts_the_reserve(machine: Machine, gpu: Any) -> None:
    machine.add_process(0, os.getpid(), 2 << 30)
    lower, upper = (device_of(make(gpu, 9, start, 4), 2) for start in (0, 4))
    sizes = [pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2) for device in (lower, upper)]
    assert sizes[0].total - sizes[0].reserved == board(H100).mig.profile("3g.40gb").memory_bytes
    assert sizes[1].total - sizes[0].total == 128 << 20
    old, new = pynvml.nvmlDeviceGetMemoryInfo(gpu), pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
    assert (new.used, old.used) == (2 << 30, (2 << 30) + new.reserved)
    assert new.free + new.used + new.reserved == new.total == old.total
    assert new.total > board(H100).memory_bytes


# --- MIG mode -------------------------------------------------------------------------------------------------------


def test_hopper_switches_at_once_and_loses_the_mode_with_its_driver(machine: Machine) -> None:
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceSetMigMode(gpu, 1) == 0
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    make(gpu, 0, 0, 8)
    assert pynvml.nvmlDeviceSetMigMode(gpu, 0) == IN_USE
    machine.reload_driver()
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetMigMode(pynvml.nvmlDeviceGetHandleByIndex(0)) == [0, 0]


def test_ampere_switches_with_a_reset_and_keeps_the_mode(machine: Machine) -> None:
    gpu = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert pynvml.nvmlDeviceSetMigMode(gpu, 1) == pynvml.NVML_ERROR_RESET_REQUIRED
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [0, 1]
    assert code(pynvml.nvmlDeviceCreateGpuInstance, gpu, 19) == NOT_SUPPORTED
    machine.add_process(1, os.getpid(), 1 << 20)
    with pytest.raises(MockError) as refused:
        machine.reset(1)
    assert refused.value.code == IN_USE
    machine.end_process(os.getpid())
    machine.reset(1)
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    make(gpu, 19, 0, 1)
    machine.reload_driver()
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 19) == 7


def test_a_gpu_without_mig_says_so(machine: Machine) -> None:
    gpu = pynvml.nvmlDeviceGetHandleByIndex(2)
    assert code(pynvml.nvmlDeviceGetMigMode, gpu) == NOT_SUPPORTED
    assert code(pynvml.nvmlDeviceSetMigMode, gpu, 1) == NOT_SUPPORTED
    assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu == 0


def test_in_mig_mode_there_is_no_utilisation_and_no_exclusive_mode(machine: Machine, gpu: Any) -> None:
    machine.set(0, utilisation=40)
    assert code(pynvml.nvmlDeviceGetUtilizationRates, gpu) == NOT_SUPPORTED
    assert code(pynvml.nvmlDeviceSetComputeMode, gpu, 3) == NOT_SUPPORTED
    machine.set(0, mig_current=0, mig_pending=0)
    assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu == 40
    assert code(pynvml.nvmlDeviceSetComputeMode, gpu, 3) == 0


@pytest.mark.parametrize(
    ("caps", "listing", "making", "switching"),
    [
        ("none", NO_PERMISSION, NO_PERMISSION, NO_PERMISSION),
        ("monitor", 0, NO_PERMISSION, NO_PERMISSION),
        ("config", 0, 0, NO_PERMISSION),
        ("all", 0, 0, 0),
    ],
)
def test_privileges(machine: Machine, gpu: Any, caps: str, listing: int, making: int, switching: int) -> None:
    machine.activate(caps=caps)
    assert code(pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity, gpu, 19) == listing
    assert code(pynvml.nvmlDeviceGetGpuInstanceById, gpu, 3) == (listing or NOT_FOUND)
    assert code(make, gpu, 19, 0, 1) == making
    assert code(pynvml.nvmlDeviceSetMigMode, gpu, 1) == switching
    assert code(pynvml.nvmlDeviceGetMemoryInfo, gpu) == 0
    assert UNKNOWN not in (listing, making, switching)
