"""How busy a real GPU is, over the mock of NVML: the rates outside MIG, the counters of its instances in it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from helpers.mocknvml.control import Machine
from scheduler.node.providers.nvml import NvmlProvider
from scheduler.node.providers.nvml_permissions import Permissions

NOT_SUPPORTED, NO_PERMISSION = 3, 4
APART_S = 0.11


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """An H100 and an A30, both in MIG mode."""
    with Machine.create(tmp_path / "state", ["h100-sxm-80gb", "a30-24gb"]) as made:
        made.enable_mig(0)
        made.enable_mig(1)
        made.activate()
        yield made


@pytest.fixture
def provider(machine: Machine) -> Iterator[NvmlProvider]:
    made = NvmlProvider(node="n", permissions=Permissions())
    yield made
    made.close()


def make(machine: Machine, profile_id: int, start: int, device: int = 0) -> int:
    """The instance's id."""
    machine.outside_create(device, profile_id, start)
    return {(0, 0): 0, (5, 0): 1, (9, 4): 1, (14, 4): 5, (19, 0): 7, (19, 6): 13}[profile_id, start]


def seen(provider: NvmlProvider, device: int = 0) -> float | None:
    return provider.devices([])[device].utilisation


def later(provider: NvmlProvider, device: int = 0) -> float | None:
    time.sleep(APART_S)
    return seen(provider, device)


def test_in_mig_mode_it_is_the_mean_of_the_instances_by_their_compute_slices(
    machine: Machine, provider: NvmlProvider
) -> None:
    assert seen(provider) == 0.0  # without an instance nothing can run
    large, small, idle = make(machine, 5, 0), make(machine, 14, 4), make(machine, 19, 6)
    machine.work(0, large, 50)
    machine.work(0, small, 80)
    assert seen(provider) is None  # one sample says nothing yet
    assert later(provider) == pytest.approx((4 * 0.5 + 2 * 0.8 + 1 * 0.0) / 7)
    machine.work(0, idle, 100)
    assert later(provider) == pytest.approx((4 * 0.5 + 2 * 0.8 + 1 * 1.0) / 7, abs=0.01)


def test_a_look_that_comes_too_early_tells_the_last_figure(machine: Machine) -> None:
    """Nearer than 100 ms to each other, two samples hold the same counters."""
    now = [0.0]
    provider = NvmlProvider(node="n", permissions=Permissions(), clock=lambda: now[0])
    machine.work(0, make(machine, 0, 0), 40)
    assert seen(provider) is None
    now[0] += 0.09
    assert later(provider) is None
    now[0] += 0.02
    assert later(provider) == pytest.approx(0.4)
    machine.fail("nvmlGpmMigSampleGet", times=-1)
    now[0] += 0.09
    assert seen(provider) == pytest.approx(0.4)
    provider.close()


def test_one_made_anew_at_the_same_place_has_no_figure_of_the_old(machine: Machine, provider: NvmlProvider) -> None:
    old = make(machine, 0, 0)
    machine.work(0, old, 100)
    assert seen(provider) is None
    time.sleep(APART_S)
    machine.outside_destroy(0, old)
    machine.outside_create(0, 0, 0)
    assert seen(provider) is None
    assert later(provider) == 0.0


def test_where_there_are_no_counters_nobody_knows(machine: Machine, provider: NvmlProvider) -> None:
    """Ampere, a driver without these calls, and an agent that may not use them."""
    make(machine, 0, 0, device=1)
    assert (seen(provider, 1), later(provider, 1)) == (None, None)
    make(machine, 0, 0)
    machine.fail("nvmlGpmMigSampleGet", NO_PERMISSION, times=-1)
    assert (seen(provider), later(provider)) == (None, None)
    machine.clear_rules()
    machine.fail("nvmlGpmQueryDeviceSupport", NOT_SUPPORTED, times=-1)
    other = NvmlProvider(node="n", permissions=Permissions())
    assert (seen(other), later(other)) == (None, None)


def test_neither_is_a_lost_gpu_idle(machine: Machine, provider: NvmlProvider) -> None:
    make(machine, 0, 0)
    seen(provider)
    assert later(provider) == 0.0
    machine.fall_off(0)
    assert seen(provider) is None


def test_outside_mig_mode_it_is_what_the_driver_says(machine: Machine, provider: NvmlProvider) -> None:
    machine.set(0, mig_current=0, mig_pending=0, utilisation=37)
    assert seen(provider) == 0.37
    machine.fail("nvmlDeviceGetUtilizationRates", NOT_SUPPORTED, times=-1)
    assert seen(provider) is None


def test_buffers_go_with_their_instances(machine: Machine, provider: NvmlProvider) -> None:
    make(machine, 9, 4)
    make(machine, 19, 0)
    seen(provider)
    assert machine.samples == 4
    machine.outside_destroy(0, 1)
    seen(provider)
    assert machine.samples == 2


def test_figures_begin_anew_with_the_driver(machine: Machine, provider: NvmlProvider) -> None:
    machine.work(0, make(machine, 0, 0), 70)
    seen(provider)
    assert later(provider) == pytest.approx(0.7)
    machine.reload_driver()
    machine.enable_mig(0)
    assert seen(provider) == 0.0  # its instances went with the driver
    machine.work(0, make(machine, 0, 0), 30)
    assert seen(provider) is None
    assert later(provider) == pytest.approx(0.3, abs=0.01)


def test_the_mock_counts_as_the_driver_does(machine: Machine) -> None:
    """The calls themselves, through the structures of nvidia-ml-py."""
    pynvml.nvmlInit()
    hopper, ampere = (pynvml.nvmlDeviceGetHandleByIndex(number) for number in (0, 1))
    assert pynvml.nvmlGpmQueryDeviceSupport(hopper).isSupportedDevice == 1
    assert pynvml.nvmlGpmQueryDeviceSupport(ampere).isSupportedDevice == 0
    one, two, three = (pynvml.nvmlGpmSampleAlloc() for _ in range(3))
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlGpmMigSampleGet(hopper, 3, one)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlGpmMigSampleGet(ampere, 0, one)
    machine.outside_create(0, 19, 6)
    machine.work(0, 13, 25)
    pynvml.nvmlGpmMigSampleGet(hopper, 13, one)
    pynvml.nvmlGpmMigSampleGet(hopper, 13, two)
    time.sleep(APART_S)
    pynvml.nvmlGpmMigSampleGet(hopper, 13, three)
    asked = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=3, sample1=one, sample2=three)
    for number, metric in enumerate((1, 2, 10)):
        asked.metrics[number].metricId = metric
    told = pynvml.nvmlGpmMetricsGet(asked).metrics
    assert [told[number].nvmlReturn for number in range(3)] == [0, 0, NOT_SUPPORTED]
    assert [told[number].value for number in range(2)] == pytest.approx([25.0, 25.0])
    asked.sample2 = two
    assert math.isnan(pynvml.nvmlGpmMetricsGet(asked).metrics[0].value)  # too near each other
    asked.version = 2
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        pynvml.nvmlGpmMetricsGet(asked)
    for sample in (one, two, three):
        pynvml.nvmlGpmSampleFree(sample)
    assert machine.samples == 0
    pynvml.nvmlShutdown()
