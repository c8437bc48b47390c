"""Products against float64, in each type of weights."""

from __future__ import annotations

import pytest
import torch

from gpuruntime.kernels.linear import Head, Linear


def random(*shape: int, seed: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("tokens", [1, 2, 17])
@pytest.mark.parametrize("shape", [(64, 32), (130, 96), (33, 70)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_int8_weights_multiply_as_their_rounded_selves(tokens: int, shape: tuple[int, int], with_bias: bool) -> None:
    weight, x = random(*shape, seed=1), random(tokens, shape[1], seed=2)
    bias = random(shape[0], seed=3) if with_bias else None
    linear = Linear(weight, bias, int8=True)
    rows = linear.rows(torch.arange(shape[0])).double()
    expected = x.double() @ rows.T + (0 if bias is None else bias.double())
    size = expected.abs().amax()
    assert (linear(x).double() - expected).abs().max() < 2**-7 * size
    assert linear(x).dtype == torch.bfloat16
    assert linear.nbytes == shape[0] * -(-shape[1] // 32) * 32 + 4 * shape[0]
    # The rows themselves are within half a step of the weights, clipping aside.
    assert (rows - weight.double()).abs().max() < 0.5 * weight.double().abs().max()
    assert (rows - weight.double()).square().mean() < 1e-4 * weight.double().square().mean()


@pytest.mark.parametrize(("dtype", "int8"), [(torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True)])
def test_the_head_orders_near_logits_as_float64_does(dtype: torch.dtype, int8: bool) -> None:
    """Rows that differ by less than bf16 resolves at their product's size."""
    weight = random(300, 64, seed=4, dtype=dtype)
    x = random(3, 64, seed=5, dtype=torch.float32)
    weight[:8] = weight[0] * 4 + random(8, 64, seed=6, dtype=torch.float32).to(dtype) * 0.01
    head = Head(weight, int8=int8)
    rows = head._linear.rows(torch.arange(300)) if int8 else weight
    expected = x.double() @ rows.double().T
    logits = head(x)
    assert logits.dtype == torch.float32
    for got, wanted in zip(logits, expected, strict=True):
        assert got.topk(20).indices.tolist() == wanted.topk(20).indices.tolist()
        assert (got.double() - wanted).abs().max() < 2**-6 * wanted.abs().max()
