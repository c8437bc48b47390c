"""The fit check of a model, with the settings that its request leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from berth.catalog.api import FitSettingsSerializer
from berth.catalog.models import Model
from berth.core.errors import Invalid
from berth.deployments.fit import Fit, fit_of
from berth.deployments.needs import needs_of_deployment
from helpers.factories import device, make_deployment, make_model, make_node

pytestmark = pytest.mark.django_db
MIB = 1 << 20


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
