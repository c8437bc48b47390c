"""The fit check of a model, with the settings that its request leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from berth.catalog.api import FitSettingsSerializer
from berth.catalog.models import Model
from berth.core.errors import Invalid
from berth.deployments.fit import Fit, fit_of
from berth.deployments.needs import needs_of_deployment
from berth.fleet.models import Seat
from berth.slas.models import ServiceClass
from gpuruntime import protocol
from helpers.factories import GIB, cut_device, device, make_deployment, make_model, make_node
from scheduler.geometry.boards import board

pytestmark = pytest.mark.django_db
MIB = 1 << 20
H100 = board("h100-sxm-80gb")
SETTINGS: dict[str, Any] = {
    "engine": "native", "dtype": "bf16", "max_model_len": None, "max_num_seqs": 32, "kv_bytes": 256 * MIB,
    "kv_dtype": "auto", "replicas": 1,
}  # fmt: skip


def h100(index: int = 0) -> protocol.Device:
    return cut_device(H100.key, index, memory_bytes=80 * GIB)


def asked(model: Model, **settings: Any) -> Fit:
    request = FitSettingsSerializer(data=settings)
    request.is_valid(raise_exception=True)
    return fit_of(model, **request.validated_data)


def test_a_bare_request_asks_for_what_a_bare_deployment_takes() -> None:
    deployment = make_deployment()
    assert asked(deployment.model).needs == needs_of_deployment(deployment)


def test_a_device_too_small_for_bf16_may_hold_int8() -> None:
    model = make_model()
    plain, int8 = asked(model).needs, asked(model, dtype="int8").needs
    between = (plain.total_bytes + int8.total_bytes) // 2
    make_node(None, device(memory_bytes=between, units=1))
    assert [asked(model, dtype=dtype).fits for dtype in ("fp32", "bf16", "int8")] == [False, False, True]


def test_int8_kv_holds_the_length_that_bf16_kv_does_not() -> None:
    model = make_model()
    settings = {"max_model_len": 8192, "kv_bytes": 100 * MIB}
    with pytest.raises(Invalid, match="one request may have 8192") as refused:
        asked(model, **settings)
    assert refused.value.field == "kv_bytes"
    # 30 layers, 3 heads, keys and values: 64 bytes and a scale of 4 each.
    assert asked(model, **settings, kv_dtype="int8").needs.kv_capacity_tokens == 100 * MIB // (12_240 * 16) * 16


def test_gpus_that_are_cut_answer_with_a_slot_a_start_and_the_goodput_to_expect() -> None:
    make_node(None, h100())
    fit = asked(make_model(), replicas=2, isolation="mig")
    assert fit.gpus is not None
    assert (fit.fits, fit.gpus.fits, fit.reason) == (False, False, fit.gpus.reason)  # two replicas, one GPU
    assert "hold a replica of it on the same GPU" in fit.reason
    fit = asked(make_model(), isolation="mig")
    assert fit.gpus is not None
    (seat,) = fit.gpus.seats
    assert (seat.gpu, seat.kind, seat.opens, seat.measured) == ("gpu-0", "mig", True, False)
    assert seat.start in H100.mig.profile(seat.profile).starts
    assert fit.fits
    assert fit.gpus.goodput == seat.rate > 0
    assert fit.gpus.opens == 1
    assert Seat.objects.count() == 0  # asked, not done


def test_isolation_is_a_hard_filter_and_says_so_of_each_slot() -> None:
    make_node(None, h100())
    make_node(None, device())
    fit = asked(make_model(), isolation="whole")
    assert fit.gpus is not None
    assert [slot.kind for slot in fit.gpus.slots if not slot.why_not] == ["whole"]
    refused = next(slot for slot in fit.gpus.slots if slot.kind == "mig")
    assert refused.why_not == "mig isolates less than whole, which is required"
    (cpu,) = fit.devices
    assert (cpu.fits, cpu.reason) == (False, "its processes share memory and faults; it needs whole isolation")


def test_a_class_whose_step_no_slot_keeps_has_the_reason() -> None:
    make_node(None, h100())
    impatient = ServiceClass(name="impatient", tpot_ms=1, isolation="mig")
    fit = fit_of(make_model(), service_class=impatient, **SETTINGS)
    assert fit.gpus is not None
    assert not fit.fits
    assert "the SLA allows 1 ms" in fit.gpus.slots[0].why_not


def test_a_guarantee_asks_for_as_many_seats_as_it_takes() -> None:
    make_node(None, h100(0), h100(1))
    model = make_model()
    alone = asked(model, isolation="whole").gpus
    assert alone is not None
    twice = asked(model, isolation="whole", guaranteed_tokens_per_s=1.5 * alone.goodput).gpus
    assert twice is not None
    assert (len(alone.seats), len(twice.seats)) == (1, 2)


def test_a_fleet_without_gpus_says_nothing_of_them() -> None:
    make_node()
    assert asked(make_model()).gpus is None
