"""The provider of real GPUs over the mock of NVML: what it offers, what it says of health, and a driver that goes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from gpuruntime.protocol import Device
from helpers.mocknvml.control import PLAIN, Machine
from scheduler.geometry.boards import board
from scheduler.node.providers.base import CutCode, CutError, ProviderError
from scheduler.node.providers.nvml import NvmlProvider
from scheduler.node.providers.nvml_permissions import Permissions

H100, A30 = "h100-sxm-80gb", "a30-24gb"
ALL = ["whole", "mig", "mps", "time-slice"]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """An H100, an A30 and an L40S."""
    with Machine.create(tmp_path / "state", [H100, A30, PLAIN]) as made:
        made.activate()
        yield made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def provider(machine: Machine, clock: Clock) -> Iterator[NvmlProvider]:
    made = NvmlProvider(node="n", permissions=Permissions(), clock=clock)
    yield made
    made.close()


def first(provider: NvmlProvider) -> Device:
    return provider.devices([])[0]


# --- what is offered ------------------------------------------------------------------------------------------------


def test_inventory(machine: Machine, provider: NvmlProvider) -> None:
    machine.set(0, utilisation=37, temperature=64, power_mw=412_500)
    machine.add_process(0, os.getpid(), 3 << 30)
    hopper, ampere, plain = provider.devices([])
    assert [device.uuid for device in (hopper, ampere, plain)] == machine.uuids
    assert [device.index for device in (hopper, ampere, plain)] == [0, 1, 2]
    assert [device.board for device in (hopper, ampere, plain)] == [H100, A30, ""]
    assert {device.kind for device in (hopper, ampere, plain)} == {"gpu"}
    assert (hopper.memory_bytes, hopper.memory_used_bytes) == (board(H100).memory_bytes, 3 << 30)
    assert (hopper.utilisation, hopper.temperature_c, hopper.power_w) == (0.37, 64.0, 412.5)
    assert (plain.units, plain.memory_bytes) == (1, 46068 << 20)
    assert provider.host().cpu_count >= 1


def test_a_gpu_that_no_table_knows_is_whole_and_says_why(provider: NvmlProvider) -> None:
    plain = provider.devices([])[2]
    assert plain.kinds == ["whole"]
    assert set(plain.unable) == {"mig", "mps", "time-slice"}
    assert "26B9" in plain.unable["mig"]


def test_a_mode_that_needs_a_reset_is_not_offered(machine: Machine, provider: NvmlProvider) -> None:
    """On Ampere: what the GPU is not now, it becomes by hand only."""
    assert first(provider).kinds == ALL
    ampere = provider.devices([])[1]
    assert ampere.kinds == ["whole", "mps", "time-slice"]
    assert f"nvidia-smi -i {ampere.uuid} -mig 1" in ampere.unable["mig"]
    mode = provider.cutter.set_mig_mode(ampere.uuid, True)
    assert (mode.current, mode.pending) == (False, True)
    ampere = provider.devices([])[1]
    assert ampere.kinds == []
    assert all("--gpu-reset" in reason for reason in ampere.unable.values())
    machine.reset(1)
    assert provider.devices([])[1].kinds == ["mig"]


def test_memory_of_a_gpu_that_is_cut(machine: Machine, provider: NvmlProvider) -> None:
    before = first(provider)
    provider.cutter.set_mig_mode(before.uuid, True)
    made = provider.cutter.create(before.uuid, 9, 4)
    machine.add_process(0, os.getpid(), 1 << 30, made.gi_id)
    after = first(provider)
    assert (after.memory_bytes, after.memory_used_bytes) == (before.memory_bytes, 1 << 30)
    assert after.kinds == ALL
    assert made.memory_bytes == board(H100).mig.profile("3g.40gb").memory_bytes + (128 << 20)  # a live reading


# --- health ---------------------------------------------------------------------------------------------------------


def test_signals(machine: Machine, provider: NvmlProvider) -> None:
    calm = first(provider).signals
    assert calm is not None
    assert (calm.ecc_uncorrected, calm.recovery_action, calm.thermal_slowdown, calm.lost) == (0, "none", False, False)
    machine.ecc(0, 2)
    machine.set(0, remap_pending=1, remap_failed=1, recovery_action=4, clocks_reasons=0x20)
    signals = first(provider).signals
    assert signals is not None
    assert (signals.epoch, signals.ecc_uncorrected) == (calm.epoch, 2)
    assert (signals.row_remap_pending, signals.row_remap_failed) == (True, True)
    assert (signals.recovery_action, signals.thermal_slowdown) == ("drain_and_reset", True)
    machine.set(0, clocks_reasons=0x4, recovery_action=99)
    signals = first(provider).signals
    assert signals is not None
    assert (signals.recovery_action, signals.thermal_slowdown) == ("action_99", False)
    machine.reset(0)
    signals = first(provider).signals
    assert signals is not None
    assert signals.ecc_uncorrected == 0
    assert signals.epoch != calm.epoch


def test_one_off_the_bus_is_lost_alone_and_comes_back_with_the_driver(machine: Machine, provider: NvmlProvider) -> None:
    uuid, epoch = first(provider).uuid, first(provider).signals.epoch  # type: ignore[union-attr]
    machine.fall_off(0)
    lost, other, _ = provider.devices([])
    assert lost.signals is not None
    assert other.signals is not None
    assert (lost.uuid, lost.signals.lost, other.signals.lost) == (uuid, True, False)
    assert lost.kinds == []
    assert "NVML 15" in lost.unable["whole"]
    assert [(event.code, event.gi_id) for event in provider.cutter.xid_events()] == [(79, None)]
    with pytest.raises(CutError) as error:
        provider.cutter.mig_mode(uuid)
    assert error.value.code is CutCode.LOST
    machine.reload_driver()
    back = first(provider)
    assert back.signals is not None
    assert not back.signals.lost
    assert back.signals.epoch != epoch
    assert back.kinds == ALL


def test_one_that_was_lost_before_the_agent_came_is_not_known(machine: Machine) -> None:
    machine.fall_off(1)
    provider = NvmlProvider(node="n", permissions=Permissions())
    assert [device.index for device in provider.devices([])] == [0, 2]
    provider.close()


def test_xids_are_heard_again_after_a_reload(machine: Machine, provider: NvmlProvider) -> None:
    uuid = first(provider).uuid
    machine.xid(0, 43)
    machine.reload_driver()
    provider.devices([])
    machine.xid(0, 31, 9)
    found = [(event.device_uuid, event.code, event.gi_id) for event in provider.cutter.xid_events()]
    assert found[-1] == (uuid, 31, 9)


# --- no driver ------------------------------------------------------------------------------------------------------


def test_a_driver_that_goes_is_tried_again_less_and_less_often(
    machine: Machine, provider: NvmlProvider, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = provider.devices([])
    machine.unload_driver()
    gone = provider.devices([])
    assert [device.uuid for device in gone] == [device.uuid for device in before]
    assert all(device.signals is not None and device.signals.lost for device in gone)
    assert "NVML 9" in gone[0].unable["mig"]
    with pytest.raises(CutError, match="NVML 9") as error:
        provider.cutter.instances(gone[0].uuid)
    assert error.value.code is CutCode.LOST

    attempts, really = [], pynvml.nvmlInit

    def counted() -> None:
        attempts.append(clock.now)
        really()

    monkeypatch.setattr(pynvml, "nvmlInit", counted)
    while clock.now < 100:
        clock.now += 0.5
        provider.devices([])
    assert attempts == [1, 3, 7, 15, 31, 61, 91]
    machine.load_driver()
    clock.now = 121
    assert [device.kinds for device in provider.devices([])] == [device.kinds for device in before]


def test_without_nvml_construction_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", missing)
    with pytest.raises(ProviderError, match=r"node gpu-7 .*NVML 12.*libnvidia-ml\.so\.1 is not found"):
        NvmlProvider(node="gpu-7")


def test_an_agent_without_a_driver_ends_with_one_sentence(tmp_path: Path, machine: Machine) -> None:
    machine.unload_driver()
    arguments = ["--provider", "nvml", "--join", "ws://127.0.0.1:1", "--name", "gpu-7", "--token", "t"]
    done = subprocess.run(
        [sys.executable, "-m", "scheduler.node", "--state-dir", str(tmp_path / "node"), *arguments],
        env={**os.environ, **machine.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("berth node agent: node gpu-7 has no GPUs that NVML can reach, NVML 9 (")
    assert "modprobe nvidia" in line


# --- permissions ----------------------------------------------------------------------------------------------------


def test_what_nvml_refuses_is_told_until_it_is_granted(machine: Machine, provider: NvmlProvider) -> None:
    uuid = first(provider).uuid
    provider.cutter.set_mig_mode(uuid, True)
    machine.activate(caps="monitor")
    with pytest.raises(CutError, match="NVIDIA_MIG_CONFIG_DEVICES") as error:
        provider.cutter.create(uuid, 19, 0)
    assert error.value.code is CutCode.NO_PERMISSION
    assert provider.cutter.instances(uuid) == []
    assert "capabilities/mig/config" in first(provider).unable["mig"]
    machine.activate(caps="none")
    with pytest.raises(CutError, match="NVIDIA_MIG_MONITOR_DEVICES"):
        provider.cutter.instances(uuid)
    assert "capabilities/mig/monitor" in first(provider).unable["mig"]
    machine.activate(caps="config")
    provider.cutter.create(uuid, 19, 0)
    provider.cutter.instances(uuid)
    assert first(provider).unable == {}
    provider.cutter.destroy(uuid, provider.cutter.instances(uuid)[0].gi_id)
    with pytest.raises(CutError, match="CAP_SYS_ADMIN") as error:
        provider.cutter.set_mig_mode(uuid, False)
    assert error.value.code is CutCode.NO_PERMISSION
    assert first(provider).kinds == ["mig"]
    assert "MIG mode is on" in first(provider).unable["whole"]


@pytest.mark.parametrize(
    ("denied", "mode", "kinds"),
    [
        ({"switch"}, 0, ["whole", "time-slice"]),
        ({"switch"}, 1, ["mig"]),
        ({"switch", "configure"}, 1, []),
        ({"configure"}, 0, ["whole", "mps", "time-slice"]),
        ({"monitor"}, 1, ["whole", "mps", "time-slice"]),
    ],
)
def test_a_gpu_is_offered_as_what_this_process_may_make_of_it(
    machine: Machine, denied: set[str], mode: int, kinds: list[str]
) -> None:
    machine.set(0, mig_current=mode, mig_pending=mode)
    provider = NvmlProvider(node="n", permissions=Permissions(frozenset(denied)))  # type: ignore[arg-type]
    device = first(provider)
    provider.close()
    assert device.kinds == kinds
    assert set(device.unable) == set(ALL) - set(kinds)
    assert all(device.unable.values())


def _proc(folder: Path, capabilities: str, readable: bool) -> Callable[[], Permissions]:
    mig = folder / "proc/driver/nvidia/capabilities/mig"
    mig.mkdir(parents=True)
    (folder / "proc/self").mkdir()
    (folder / "proc/self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
    (folder / "dev/nvidia-caps").mkdir(parents=True)
    for number, name in ((1, "config"), (2, "monitor")):
        (mig / name).write_text(f"DeviceFileMinor: {number}\nDeviceFileMode: 256\nDeviceFileModify: 1\n")
        (folder / f"dev/nvidia-caps/nvidia-cap{number}").touch(mode=0o400)
    if not readable:
        # Root reads every file: what stands for one that is denied is one that cannot be opened at all.
        (mig / "config").unlink()
        (mig / "config").mkdir()
    return lambda: Permissions.of_process(folder / "proc", folder / "dev")


@pytest.mark.parametrize(
    ("capabilities", "readable", "denied"),
    [
        ("000001ffffffffff", True, set()),
        ("00000000a80425fb", True, {"switch"}),  # a container as root
        ("0000000000000000", False, {"switch", "configure"}),
    ],
)
def test_what_the_kernel_says_of_this_process(
    tmp_path: Path, capabilities: str, readable: bool, denied: set[str]
) -> None:
    assert _proc(tmp_path, capabilities, readable)().denied == denied


def test_a_kernel_that_says_nothing_leaves_it_to_nvml(tmp_path: Path) -> None:
    assert Permissions.of_process(tmp_path, tmp_path).denied <= {"switch"}
