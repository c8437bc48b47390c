"""Weight-only products against float64 sums over the same quantized weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gpuruntime.kernels.gpu.quantized_linear import quantize_rows_fp8, quantized_linear, quantized_linear_reference
from gpuruntime.kernels.quantize import QuantizedWeight, quantize_rows

QUANTIZERS = {"int8": quantize_rows, "fp8": quantize_rows_fp8}


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check(kind, tokens, rows, depth, *, dtype=torch.float32, bias=False):
    weight = QUANTIZERS[kind](normal(rows, depth, seed=1))
    x, added = normal(tokens, depth, dtype=dtype), normal(rows, seed=2) if bias else None
    out = quantized_linear(x, weight, added)
    expected = x.double().numpy() @ (weight.values.double() * weight.scales.double().unsqueeze(1)).numpy().T
    if added is not None:
        expected += added.double().numpy()
    assert (out.dtype, out.shape) == (dtype, (tokens, rows))
    assert np.linalg.norm(out.double().numpy() - expected) <= 1e-3 * np.linalg.norm(expected)
    reference = quantized_linear_reference(x, weight, added)
    torch.testing.assert_close(reference, out, rtol=2e-3, atol=2e-3 * float(expected.std()))


@pytest.mark.parametrize("kind", ["int8", "fp8"])
@pytest.mark.parametrize(
    ("tokens", "rows", "depth"),
    [(1, 1, 1), (1, 64, 128), (3, 65, 129), (16, 100, 48), (17, 64, 576), (65, 63, 256), (2, 96, 1536)],
)
def test_equals_the_float64_product(kind, tokens, rows, depth):
    check(kind, tokens, rows, depth, bias=rows % 2 == 0)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["int8", "fp8"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("tokens", [1, 16, 17, 64, 129])
@pytest.mark.parametrize("rows", [1, 63, 65, 576])
@pytest.mark.parametrize("depth", [127, 576, 4096])
def test_all_shapes(kind, dtype, tokens, rows, depth):
    check(kind, tokens, rows, depth, dtype=dtype, bias=tokens % 2 == 1)


def test_nothing_past_the_ends_is_read_into_a_result():
    """Weights and x are views into memory that is NaN all around."""
    rows, depth, tokens = 65, 130, 3
    memory = torch.full((rows * depth + 512,), float("nan")).to(torch.float8_e4m3fn)
    values = memory[256 : 256 + rows * depth].view(rows, depth)
    weight = quantize_rows_fp8(normal(rows, depth))
    values.copy_(weight.values)
    around = torch.full((tokens * depth + 512,), float("nan"))
    x = around[256 : 256 + tokens * depth].view(tokens, depth)
    x.copy_(normal(tokens, depth, seed=1))
    out = quantized_linear(x, QuantizedWeight(values, weight.scales))
    torch.testing.assert_close(out, quantized_linear_reference(x, weight), rtol=1e-3, atol=1e-3)


def test_a_channel_of_zeros_gives_its_bias():
    for quantize in QUANTIZERS.values():
        weight = quantize(torch.zeros(4, 32))
        assert torch.equal(quantized_linear(normal(2, 32), weight, torch.arange(4.0)), torch.arange(4.0).expand(2, 4))


def test_fp8_keeps_the_largest_weight_of_a_row_and_the_rest_within_a_sixteenth():
    weight = normal(20, 300)
    quantized = quantize_rows_fp8(weight)
    restored = quantized.values.double() * quantized.scales.double().unsqueeze(1)
    largest = weight.abs().argmax(dim=1, keepdim=True)
    torch.testing.assert_close(restored.gather(1, largest).float(), weight.gather(1, largest), rtol=1e-6, atol=0)
    step = weight.abs().amax(dim=1, keepdim=True) * 2.0**-18  # below the smallest normal value steps stay equal
    assert bool(((restored - weight).abs() <= torch.maximum(weight.abs() / 16, step) * 1.001).all())
    with pytest.raises(ValueError, match="not finite"):
        quantize_rows_fp8(torch.tensor([[1.0, float("nan")]]))


def test_no_tokens_give_no_rows():
    assert quantized_linear(torch.empty(0, 32), quantize_rows(normal(4, 32))).shape == (0, 4)


def test_what_does_not_fit_is_refused():
    weight = quantize_rows(normal(4, 32))
    with pytest.raises(ValueError, match="does not fit"):
        quantized_linear(torch.ones(2, 31), weight)
    with pytest.raises(ValueError, match=r"no product of torch\.float32"):
        quantized_linear(torch.ones(2, 32), QuantizedWeight(weight.values.short(), weight.scales))
