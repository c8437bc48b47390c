"""Ideal time against sums over single tokens and positions, in float64 and integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.roofline import DeviceRates, ModelShape, best_batch, ideal_decode_s, ideal_prefill_s

SMOL = ModelShape(parameters=134_000_000, weight_bytes=268_000_000, kv_bytes_per_token=23_040, attention_flops=69_120)
CPU = DeviceRates(flops_per_s=4e11, bytes_per_s=2e10)

SHAPES = st.builds(
    ModelShape,
    parameters=st.integers(1, 10**10),
    weight_bytes=st.integers(1, 10**11),
    kv_bytes_per_token=st.integers(1, 10**6),
    attention_flops=st.integers(0, 10**6),
)
RATES = st.builds(DeviceRates, flops_per_s=st.floats(1e9, 1e15), bytes_per_s=st.floats(1e8, 1e13))


@given(SHAPES, RATES, st.integers(0, 200), st.integers(0, 500))
def test_prefill_is_the_sum_over_its_tokens(shape: ModelShape, rates: DeviceRates, new: int, before: int) -> None:
    """Token i multiplies all weights once and attends to everything before it and itself."""
    flops = sum(2 * shape.parameters + shape.attention_flops * (before + i + 1) for i in range(new))
    assert ideal_prefill_s(shape, rates, new, before) == pytest.approx(flops / rates.flops_per_s)


@given(SHAPES, RATES, st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_prefill_in_chunks_costs_what_it_costs_whole(
    shape: ModelShape, rates: DeviceRates, first: int, second: int, before: int
) -> None:
    chunks = ideal_prefill_s(shape, rates, first, before) + ideal_prefill_s(shape, rates, second, before + first)
    assert chunks == pytest.approx(ideal_prefill_s(shape, rates, first + second, before))


def test_a_token_alone_reads_all_weights_and_its_context() -> None:
    assert ideal_decode_s(SMOL, CPU, batch=1, context=1000) == pytest.approx((268e6 + 1000 * 23_040) / 2e10)


def test_a_batch_shares_the_weights_until_compute_is_the_limit() -> None:
    assert ideal_decode_s(SMOL, CPU, batch=8, context=0) == pytest.approx(268e6 / 8 / 2e10)
    assert ideal_decode_s(SMOL, CPU, batch=1000, context=0) == pytest.approx(2 * 134e6 / 4e11)
    assert ideal_decode_s(SMOL, CPU, batch=0, context=0) == ideal_decode_s(SMOL, CPU, batch=1, context=0)


@given(SHAPES, RATES, st.integers(1, 300), st.integers(0, 4000), st.integers(1, 50))
def test_decode_grows_with_tokens_and_context_and_falls_with_batch(
    shape: ModelShape, rates: DeviceRates, batch: int, context: int, tokens: int
) -> None:
    one = ideal_decode_s(shape, rates, batch, context)
    assert ideal_decode_s(shape, rates, batch, context, tokens) == pytest.approx(one * tokens)
    assert ideal_decode_s(shape, rates, batch, context + 100) >= one
    assert ideal_decode_s(shape, rates, batch + 1, context) <= one


@given(SHAPES, RATES, st.integers(1, 10**6), st.integers(0, 2000), st.integers(0, 10**5), st.integers(1, 64))
def test_the_best_batch_is_the_largest_that_fits_and_is_in_time(
    shape: ModelShape, rates: DeviceRates, tpot_us: int, context: int, capacity: int, most: int
) -> None:
    def in_time(batch: int) -> bool:
        read = (shape.weight_bytes + batch * shape.kv_bytes_per_token * context) / rates.bytes_per_s
        return max(read, 2 * shape.parameters * batch / rates.flops_per_s) * 1e6 <= tpot_us

    fitting = [b for b in range(1, most + 1) if b * max(1, context) <= capacity and in_time(b)]
    found = best_batch(shape, rates, tpot_us=tpot_us, context=context, kv_capacity_tokens=capacity, most=most)
    assert found == max(fitting, default=1)


def test_without_a_tpot_only_the_kv_limits_the_batch() -> None:
    limits = {"tpot_us": None, "context": 100, "kv_capacity_tokens": 1050}
    assert best_batch(SMOL, CPU, **limits, most=64) == 10
    assert best_batch(SMOL, CPU, **limits, most=4) == 4
    assert best_batch(SMOL, CPU, tpot_us=None, context=100, kv_capacity_tokens=5, most=64) == 1
