"""int8 rows against a brute force in float64 over every clip, and what rounding may cost at most."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.kernels.quantize import dequantize, quantize_rows


def squared_error(weight: np.ndarray, scale: float) -> float:
    """Of one row at ``scale``, in float64."""
    values = np.clip(np.rint(weight / scale), -127, 127) if scale > 0 else np.zeros_like(weight)
    return float(((weight - values * scale) ** 2).sum())


def errors(weight: torch.Tensor) -> np.ndarray:
    """Squared error of each quantized row, in float64."""
    quantized = quantize_rows(weight)
    back = quantized.values.double() * quantized.scales.double().unsqueeze(1)
    return ((weight.double() - back) ** 2).sum(1).numpy()


def random_rows(rows: int, columns: int, seed: int, tail: float) -> torch.Tensor:
    """Rows with a few outliers: Student's t with ``tail`` degrees of freedom."""
    numbers = np.random.default_rng(seed).standard_t(tail, (rows, columns)) * 0.02
    return torch.from_numpy(numbers.astype(np.float32))


@pytest.mark.parametrize("tail", [2.0, 4.0, 100.0])
def test_close_to_the_best_of_every_clip(tail: float) -> None:
    weight = random_rows(12, 96, 1, tail)
    for row, error in zip(weight.double().numpy(), errors(weight), strict=True):
        largest = np.abs(row).max() / 127
        best = min(squared_error(row, largest * clip) for clip in np.linspace(0.7, 1.0, 1201))
        assert error <= best * 1.15


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9), columns=st.integers(1, 300), seed=st.integers(0, 1 << 30), tail=st.sampled_from([2.0, 9.0])
)
def test_never_worse_than_the_largest_magnitude_as_127(rows: int, columns: int, seed: int, tail: float) -> None:
    weight = random_rows(rows, columns, seed, tail)
    plain = [squared_error(row, np.abs(row).max() / 127) for row in weight.double().numpy()]
    rounding = 1e-13 * weight.double().square().sum(1).numpy()  # of the scale itself, which is fp32
    assert (errors(weight) <= np.array(plain) * (1 + 1e-5) + rounding).all()


def test_the_error_of_an_unclipped_row_is_half_a_step_at_most() -> None:
    weight = torch.linspace(-1, 1, 4001).repeat(3, 1) * torch.tensor([[1e-20], [1.0], [1e20]])
    quantized = quantize_rows(weight)
    worst = (dequantize(quantized) - weight).abs().amax(1)
    assert (worst <= 0.51 * weight.abs().amax(1) / 127).all()
    assert quantized.values.dtype == torch.int8
    assert (quantized.values.min(), quantized.values.max()) == (-127, 127)


def test_rows_of_zeros_and_of_one_value_are_exact() -> None:
    weight = torch.zeros(3, 64)
    weight[1] = 3.5
    weight[2, 5] = -2e-30
    quantized = quantize_rows(weight)
    assert quantized.scales[0] == 0
    torch.testing.assert_close(dequantize(quantized), weight, rtol=1e-6, atol=0)


def test_every_type_and_every_chunk_border_gives_the_same_rows() -> None:
    weight = random_rows(700, 512, 3, 5.0).bfloat16()
    whole = quantize_rows(weight)
    alone = [quantize_rows(weight[index : index + 1].float()) for index in (0, 255, 256, 257, 699)]
    for index, row in zip((0, 255, 256, 257, 699), alone, strict=True):
        assert torch.equal(whole.values[index], row.values[0])
        assert whole.scales[index] == row.scales[0]
    assert whole.nbytes == 700 * 512 + 700 * 4


def test_values_that_are_not_finite_are_refused() -> None:
    for bad in (float("nan"), float("inf")):
        weight = torch.ones(4, 8)
        weight[2, 3] = bad
        with pytest.raises(ValueError, match="not finite"):
            quantize_rows(weight)
