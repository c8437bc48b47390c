"""Cutting through NVML: calls that fail halfway, other tools, and what the errors say."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from helpers.mocknvml.control import PLAIN, UNKNOWN, Machine
from scheduler.node.providers.base import CutCode, CutError, Process
from scheduler.node.providers.nvml import NvmlProvider
from scheduler.node.providers.nvml_cutter import NvmlCutter
from scheduler.node.providers.nvml_permissions import Permissions

H100 = "h100-sxm-80gb"
MAKING = [
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetUUID",
]
REMOVING = ["nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """An H100 in MIG mode and an L40S."""
    with Machine.create(tmp_path / "state", [H100, PLAIN]) as made:
        made.enable_mig(0)
        made.activate()
        yield made
        made.clear_rules()


@pytest.fixture
def provider(machine: Machine) -> Iterator[NvmlProvider]:
    made = NvmlProvider(node="n", permissions=Permissions())
    made.devices([])
    yield made
    made.close()


@pytest.fixture
def cutter(provider: NvmlProvider) -> NvmlCutter:
    return provider.cutter


@pytest.fixture
def gpu(machine: Machine) -> str:
    return machine.uuids[0]


@pytest.mark.parametrize("after", [False, True], ids=["before its work", "after its work"])
@pytest.mark.parametrize("symbol", MAKING)
def test_making_is_completed_whatever_failed(
    machine: Machine, cutter: NvmlCutter, gpu: str, symbol: str, after: bool
) -> None:
    machine.fail(symbol, UNKNOWN, after=after)
    try:
        cutter.create(gpu, 9, 4)
    except CutError as error:
        assert error.code is CutCode.OTHER  # noqa: PT017
        assert "NVML 999" in str(error)  # noqa: PT017
    made = cutter.create(gpu, 9, 4)
    (found,) = cutter.instances(gpu)
    assert found == made
    assert made.uuid.startswith("MIG-")


@pytest.mark.parametrize("after", [False, True], ids=["before its work", "after its work"])
@pytest.mark.parametrize("symbol", REMOVING)
def test_removing_is_completed_whatever_failed(
    machine: Machine, cutter: NvmlCutter, gpu: str, symbol: str, after: bool
) -> None:
    made, other = cutter.create(gpu, 9, 4), cutter.create(gpu, 19, 0)
    machine.fail(symbol, UNKNOWN, after=after)
    try:
        cutter.destroy(gpu, made.gi_id)
    except CutError as error:
        assert error.code is CutCode.OTHER  # noqa: PT017
    cutter.destroy(gpu, made.gi_id)
    assert cutter.instances(gpu) == [other]


def test_one_without_a_compute_instance_is_seen_and_completed(machine: Machine, cutter: NvmlCutter, gpu: str) -> None:
    machine.outside_create(gpu, 9, 4, width=0)
    (half,) = cutter.instances(gpu)
    assert (half.uuid, half.profile_id, half.start, half.size) == ("", 9, 4, 4)
    made = cutter.create(gpu, 9, 4)
    assert (made.gi_id, bool(made.uuid)) == (half.gi_id, True)


def test_another_tools_parts_of_an_instance_are_not_a_slice(machine: Machine, cutter: NvmlCutter, gpu: str) -> None:
    machine.outside_create(gpu, 9, 4, width=1)
    (part,) = cutter.instances(gpu)
    assert part.uuid == ""
    with pytest.raises(CutError) as error:
        cutter.create(gpu, 9, 4)
    assert error.value.code is CutCode.NO_ROOM
    cutter.destroy(gpu, part.gi_id)
    assert cutter.instances(gpu) == []


def test_no_room_names_what_is_there(cutter: NvmlCutter, gpu: str) -> None:
    there = [cutter.create(gpu, 19, start).gi_id for start in (4, 6)]
    with pytest.raises(CutError) as error:
        cutter.create(gpu, 9, 4)
    assert error.value.code is CutCode.NO_ROOM
    assert f"instance {there[0]} and instance {there[1]} there" in str(error.value)
    assert "NVML 23" in str(error.value)
    cutter.create(gpu, 20, 0)
    with pytest.raises(CutError, match="allows no more of it"):
        cutter.create(gpu, 20, 1)


def test_a_place_or_profile_that_the_board_has_not(cutter: NvmlCutter, gpu: str) -> None:
    with pytest.raises(CutError, match="begins at 0, 4, never at 2"):
        cutter.create(gpu, 9, 2)
    with pytest.raises(CutError, match="it has 19, 14, 9, 5, 0, 20, 15"):
        cutter.create(gpu, 2, 0)


def test_in_use_names_who_holds_it(machine: Machine, cutter: NvmlCutter, gpu: str) -> None:
    made = cutter.create(gpu, 9, 4)
    machine.add_process(gpu, os.getpid(), 1 << 30, made.gi_id)
    with pytest.raises(CutError, match=f"held by pid {os.getpid()}, NVML 19") as error:
        cutter.destroy(gpu, made.gi_id)
    assert error.value.code is CutCode.IN_USE
    machine.end_process(os.getpid())
    machine.leak(gpu, made.gi_id)
    with pytest.raises(CutError, match="no process is on it"):
        cutter.destroy(gpu, made.gi_id)
    assert cutter.instances(gpu) == [made]


def test_an_instance_that_stays_in_use_for_a_while(machine: Machine, cutter: NvmlCutter, gpu: str) -> None:
    """Its compute instance is gone by then, which the next attempts must bear."""
    made = cutter.create(gpu, 9, 4)
    machine.stuck(gpu, 0.1)
    with pytest.raises(CutError) as error:
        cutter.destroy(gpu, made.gi_id)
    assert error.value.code is CutCode.IN_USE
    assert [found.uuid for found in cutter.instances(gpu)] == [""]
    time.sleep(0.12)
    cutter.destroy(gpu, made.gi_id)
    assert cutter.instances(gpu) == []


def test_makers_at_the_same_time_make_one(machine: Machine, cutter: NvmlCutter, gpu: str) -> None:
    machine.slow("nvmlDeviceCreateGpuInstanceWithPlacement", 0.01, 0.02)
    machine.slow("nvmlGpuInstanceCreateComputeInstance", 0.01, 0.02)
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(cutter.create(gpu, 14, 2).uuid)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert {found.uuid for found in cutter.instances(gpu)} == set(made)


def test_inventory_does_not_wait_for_a_slice_that_is_made(machine: Machine, provider: NvmlProvider, gpu: str) -> None:
    machine.slow("nvmlDeviceCreateGpuInstanceWithPlacement", 1.0)
    maker = threading.Thread(target=provider.cutter.create, args=(gpu, 9, 4))
    maker.start()
    time.sleep(0.05)
    provider.devices([])
    assert maker.is_alive()
    maker.join()


def test_a_mode_held_by_someone_whom_no_list_shows(machine: Machine, cutter: NvmlCutter, gpu: str) -> None:
    machine.add_process(gpu, 4_000_000, 1 << 20, linger_s=60)
    machine.end_process(4_000_000)
    with pytest.raises(CutError, match="does not change: NVML 19") as error:
        cutter.set_mig_mode(gpu, False)
    assert error.value.code is CutCode.IN_USE
    assert (cutter.mig_mode(gpu).current, cutter.mig_mode(gpu).pending) == (True, True)


def test_a_gpu_without_mig(machine: Machine, cutter: NvmlCutter) -> None:
    plain = machine.uuids[1]
    assert cutter.instances(plain) == []
    cutter.destroy(plain, 3)
    for call in (lambda: cutter.set_mig_mode(plain, True), lambda: cutter.create(plain, 19, 0)):
        with pytest.raises(CutError) as error:
            call()
        assert error.value.code is CutCode.NOT_SUPPORTED
    cutter.set_exclusive(plain, True)
    assert machine.get(1, "compute_mode") == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
    cutter.set_exclusive(plain, False)
    assert machine.get(1, "compute_mode") == 0


def test_clients_of_mps_are_told_apart(machine: Machine, cutter: NvmlCutter) -> None:
    plain = machine.uuids[1]
    before = cutter.used_bytes(plain)
    machine.add_process(plain, 4_000_000, 1 << 20)
    machine.add_process(plain, 4_000_001, 2 << 30, mps=True)
    assert cutter.processes(plain) == [
        Process(4_000_000, None, 1 << 20, mps=False),
        Process(4_000_001, None, 2 << 30, mps=True),
    ]
    assert before > 0
    assert cutter.used_bytes(plain) - before == (2 << 30) + (1 << 20)


def test_a_driver_that_goes_within_a_call_loses_the_device_not_the_agent(
    machine: Machine, cutter: NvmlCutter, gpu: str
) -> None:
    machine.reload_driver()
    with pytest.raises(CutError) as error:
        cutter.instances(gpu)
    assert error.value.code is CutCode.LOST
    assert cutter.instances(gpu) == []
    assert not cutter.mig_mode(gpu).current


class Killed(BaseException):
    """The agent is gone."""


class Mortal:
    """Dies at the ``left``-th moment: before a call of NVML's, or right after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        really = pynvml._nvmlGetFunctionPointer

        def function(name: str) -> Any:
            if name == "nvmlErrorString":  # asked for in an error's text, which changes nothing
                return really(name)

            def call(*arguments: Any) -> Any:
                self._moment()
                answer = really(name)(*arguments)
                self._moment()
                return answer

            return call

        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", function)

    def _moment(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed

    def dies_within(self, moment: int, call: Callable[[], object]) -> bool:
        self.left = moment
        try:
            call()
        except Killed:
            return True
        finally:
            self.left = 0
        return False


def test_an_agent_killed_between_any_two_calls_leaves_what_the_next_completes(
    machine: Machine, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mortal = Mortal(monkeypatch)

    def agent() -> NvmlCutter:
        return NvmlProvider(node="n", permissions=Permissions()).cutter

    states, moment = set(), 0
    while moment == 0 or mortal.dies_within(moment, lambda: agent().create(gpu, 9, 4)):
        states.add(tuple(bool(found.uuid) for found in agent().instances(gpu)))
        made = agent().create(gpu, 9, 4)
        (found,) = agent().instances(gpu)
        assert found == made
        moment += 1
        if mortal.dies_within(moment, lambda found=found: agent().destroy(gpu, found.gi_id)):  # type: ignore[misc]
            states.add(tuple(bool(one.uuid) for one in agent().instances(gpu)))
        agent().destroy(gpu, made.gi_id)
        assert agent().instances(gpu) == []
    assert states == {(), (False,), (True,)}
    assert moment > 40
