"""The mock of NVML, through the real nvidia-ml-py, against what is known of the hardware."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint
from pathlib import Path
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pynvml import NVMLError

from helpers.mocknvml.calls import INVALID, NO_ROOM, NOT_SUPPORTED, code, make, start_of
from helpers.mocknvml.control import Machine
from scheduler.geometry.boards import board
from scheduler.geometry.layouts import Layouts

H100, A100, A30, RTX = "h100-sxm-80gb", "a100-40gb", "a30-24gb", "rtx-pro-6000-96gb"


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
