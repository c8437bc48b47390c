"""The mock of NVML, through the real nvidia-ml-py: what goes before what, who may do what, and how modes change."""

from __future__ import annotations

import os
import subprocess
import time
from ctypes import byref, c_uint
from typing import Any

import pynvml
import pytest

from helpers.mocknvml.calls import (
    IN_USE,
    INVALID,
    NO_PERMISSION,
    NO_ROOM,
    NOT_FOUND,
    NOT_SUPPORTED,
    code,
    device_of,
    make,
    start_of,
)
from helpers.mocknvml.control import Machine, MockError
from scheduler.geometry.boards import board

H100, A100 = "h100-sxm-80gb", "a100-40gb"


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
