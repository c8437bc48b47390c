"""The machine behind the mock of NVML: several processes, events, failures, and a driver that goes away."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from helpers.mocknvml.build import library_path
from helpers.mocknvml.calls import IN_USE, LOST, NOT_SUPPORTED, TIMEOUT, UNKNOWN, code, make
from helpers.mocknvml.control import Machine

H100 = "h100-sxm-80gb"
XID = pynvml.nvmlEventTypeXidCriticalError


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Two H100 in MIG mode."""
    with Machine.create(tmp_path / "state", [H100, H100]) as made:
        for index in range(2):
            made.enable_mig(index)
        made.activate()
        pynvml.nvmlInit()
        yield made
        made.clear_rules()
        pynvml.nvmlShutdown()


@pytest.fixture
def gpu(machine: Machine) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def small(gpu: Any, start: int) -> Any:
    """1g.10gb."""
    return make(gpu, 19, start, 1)


def python(machine: Machine, text: str) -> subprocess.CompletedProcess[str]:
    """Runs ``text`` in a process that finds the mock as any process finds NVML."""
    command = [sys.executable, "-S", "-c", text]
    environment = {**machine.environment, "PYTHONPATH": str(Path(pynvml.__file__).parent)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)


def test_processes_share_one_machine(machine: Machine, gpu: Any) -> None:
    done = python(
        machine,
        "from pynvml import *; from ctypes import byref; nvmlInit()\n"
        "gpu = nvmlDeviceGetHandleByIndex(0)\n"
        "place = c_nvmlGpuInstancePlacement_t(4, 4)\n"
        "made = nvmlDeviceCreateGpuInstanceWithPlacement(gpu, 9, byref(place))\n"
        "compute = nvmlGpuInstanceCreateComputeInstance(made, 2)\n"
        "print(nvmlDeviceGetUUID(nvmlComputeInstanceGetInfo(compute).device))",
    )
    assert (done.returncode, done.stderr) == (0, "")
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    assert pynvml.nvmlDeviceGetUUID(device) == done.stdout.strip()
    assert code(small, gpu, 5) == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES


def test_a_process_that_dies_within_a_call_holds_up_nobody(machine: Machine, gpu: Any) -> None:
    text = (
        "import ctypes\n"
        f"library = ctypes.CDLL({str(library_path())!r})\n"
        "library.mock_open.restype = ctypes.c_void_p\n"
        f"state = library.mock_open({str(machine.path)!r}.encode())\n"
        "library.mock_lock_and_die(ctypes.c_void_p(state))"
    )
    assert python(machine, text).returncode == 9
    assert code(small, gpu, 0) == 0


# --- events ---------------------------------------------------------------------------------------------------------


def test_an_xid_says_whose_it_is(machine: Machine, gpu: Any) -> None:
    events = pynvml.nvmlEventSetCreate()
    machine.xid(0, 13, 9)  # before anyone asked for it
    pynvml.nvmlDeviceRegisterEvents(gpu, XID, events)
    machine.xid(1, 48)  # of the other, for which nobody did
    assert code(pynvml.nvmlEventSetWait_v2, events, 0) == TIMEOUT
    machine.xid(0, 94, 3)
    machine.xid(0, 119)
    first, second = pynvml.nvmlEventSetWait_v2(events, 0), pynvml.nvmlEventSetWait_v2(events, 0)
    assert (first.eventType, first.eventData, first.gpuInstanceId) == (XID, 94, 3)
    assert (second.eventData, second.gpuInstanceId) == (119, 0xFFFFFFFF)
    assert pynvml.nvmlDeviceGetUUID(first.device) == machine.uuids[0]
    pynvml.nvmlEventSetFree(events)


def test_events_are_of_gpus_only(machine: Machine, gpu: Any) -> None:
    compute = pynvml.nvmlGpuInstanceCreateComputeInstance(small(gpu, 0), 0)
    device = pynvml.nvmlComputeInstanceGetInfo(compute).device
    events = pynvml.nvmlEventSetCreate()
    assert code(pynvml.nvmlDeviceRegisterEvents, device, XID, events) == NOT_SUPPORTED
    unknown = ~pynvml.nvmlDeviceGetSupportedEventTypes(gpu) & 0xFFFF
    assert code(pynvml.nvmlDeviceRegisterEvents, gpu, unknown, events) == NOT_SUPPORTED


def test_who_waits_hears_of_another_tools_change(machine: Machine, gpu: Any) -> None:
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventMigConfigChange, events)
    later = threading.Timer(0.05, lambda: machine.outside_create(0, 14, 2))
    later.start()
    event = pynvml.nvmlEventSetWait_v2(events, 5000)
    later.join()
    assert (event.eventType, event.gpuInstanceId) == (0x100, 4)


# --- failures -------------------------------------------------------------------------------------------------------


def test_a_call_can_fail_once_with_or_without_its_work_done(machine: Machine, gpu: Any) -> None:
    symbol = "nvmlDeviceCreateGpuInstanceWithPlacement"
    machine.fail(symbol, UNKNOWN)
    assert code(small, gpu, 0) == UNKNOWN
    assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 19) == 7
    machine.fail(symbol, UNKNOWN, after=True)
    assert code(small, gpu, 0) == UNKNOWN
    assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 19) == 6
    assert code(small, gpu, 1) == 0


def test_a_gpu_can_be_stuck_for_a_while(machine: Machine, gpu: Any) -> None:
    made, other = small(gpu, 0), small(pynvml.nvmlDeviceGetHandleByIndex(1), 0)
    machine.stuck(0, 0.1)
    assert code(pynvml.nvmlGpuInstanceDestroy, made) == IN_USE
    assert code(pynvml.nvmlGpuInstanceDestroy, other) == 0
    time.sleep(0.12)
    assert code(pynvml.nvmlGpuInstanceDestroy, made) == 0


def test_a_slow_call_is_slow_for_its_caller_alone(machine: Machine, gpu: Any) -> None:
    machine.slow("nvmlDeviceGetMemoryInfo", 0.6)
    slow = threading.Thread(target=pynvml.nvmlDeviceGetMemoryInfo, args=(gpu,))
    began = time.monotonic()
    slow.start()
    while slow.is_alive() and time.monotonic() - began < 0.1:
        pynvml.nvmlDeviceGetName(gpu)
    assert slow.is_alive()
    slow.join()
    assert time.monotonic() - began >= 0.6


def test_one_off_the_bus_answers_nothing_and_comes_back_with_the_driver(machine: Machine, gpu: Any) -> None:
    other = pynvml.nvmlDeviceGetHandleByIndex(1)
    machine.fall_off(0)
    assert [code(call, gpu) for call in (pynvml.nvmlDeviceGetName, pynvml.nvmlDeviceGetMigMode)] == [LOST, LOST]
    assert code(pynvml.nvmlDeviceGetHandleByIndex, 0) == LOST
    assert code(pynvml.nvmlDeviceGetName, other) == 0
    assert pynvml.nvmlDeviceGetCount() == 2
    machine.unload_driver()
    assert code(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    machine.load_driver()
    assert code(pynvml.nvmlDeviceGetName, other) == UNKNOWN  # a session does not outlive its driver
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert code(pynvml.nvmlDeviceGetHandleByIndex, 0) == 0
    assert code(pynvml.nvmlDeviceGetName, other) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_health_is_what_was_injected(machine: Machine, gpu: Any) -> None:
    machine.ecc(0, 3)
    machine.set(0, remap_pending=1, recovery_action=2, temperature=91, clocks_reasons=0x40)
    ask = pynvml.nvmlDeviceGetTotalEccErrors
    assert [ask(gpu, kind, counter) for kind in (0, 1) for counter in (0, 1)] == [0, 0, 3, 3]
    assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (0, 0, 1, 0)
    pending, action, resetless, unknown = pynvml.nvmlDeviceGetFieldValues(gpu, [144, 230, 184, 9])
    assert [value.value.uiVal for value in (pending, action, resetless)] == [1, 2, 1]
    assert (action.nvmlReturn, unknown.nvmlReturn) == (0, NOT_SUPPORTED)
    assert pynvml.nvmlDeviceGetTemperatureV(gpu, 0) == pynvml.nvmlDeviceGetTemperature(gpu, 0) == 91
    machine.reset(0)
    assert ask(gpu, 1, 0) == 0
    assert ask(gpu, 1, 1) == 3
    assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (0, 1, 0, 0)
