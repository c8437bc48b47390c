"""RMSNorm with residual against float64 sums over rows of every awkward width."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gpuruntime.kernels.gpu.norm import LONGEST_ROW, add_rms_norm, add_rms_norm_reference

EPS = 1e-5


def random(*shape, dtype=torch.float32, seed=0, scale=1.0):
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(dtype)


def oracle(stream, delta, weight):
    """The new stream and its norm, row by row in float64."""
    x = stream.double().numpy()
    if delta is not None:
        x = x + delta.double().numpy()
    normed = [row / np.sqrt(np.dot(row, row) / len(row) + EPS) * weight.double().numpy() for row in x]
    return x, np.array(normed)


@pytest.mark.parametrize("width", [1, 5, 64, 65, 576, 1024, 4096])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_equals_the_float64_norm(width, dtype):
    stream, delta, weight = random(3, width, dtype=dtype), random(3, width, dtype=dtype, seed=1), random(width, seed=2)
    x, normed = oracle(stream, delta, weight)
    out = add_rms_norm(stream, delta, weight, EPS)
    assert out.dtype == dtype
    np.testing.assert_allclose(stream.double(), x, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(out.double(), normed, rtol=2e-3, atol=1e-3)


def test_without_a_delta_the_stream_is_only_read():
    stream, weight = random(4, 100), random(100, seed=1)
    before = stream.clone()
    out = add_rms_norm(stream, None, weight, EPS, dtype=torch.float16)
    assert torch.equal(stream, before)
    np.testing.assert_allclose(out.double(), oracle(before, None, weight)[1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("scale", [0.0, 1e-18, 1e18])
def test_rows_of_zeros_and_of_extreme_size_stay_finite(scale):
    stream, weight = random(2, 64, scale=scale), torch.ones(64)
    expected = oracle(stream, None, weight)[1]
    np.testing.assert_allclose(add_rms_norm(stream, None, weight, EPS).double(), expected, rtol=1e-5, atol=1e-30)


def test_the_reference_agrees():
    streams = random(2, 300), random(2, 300)
    delta, weight = random(2, 300, seed=1), random(300, seed=2)
    out = add_rms_norm(streams[0], delta, weight, EPS)
    torch.testing.assert_close(add_rms_norm_reference(streams[1], delta, weight, EPS), out)
    torch.testing.assert_close(streams[0], streams[1])


def test_an_empty_batch_gives_an_empty_answer():
    assert add_rms_norm(torch.empty(0, 64), None, torch.ones(64), EPS).shape == (0, 64)


@pytest.mark.parametrize(
    ("stream", "delta", "weight"),
    [
        (torch.ones(2, 64), None, torch.ones(63)),
        (torch.ones(2, 64), torch.ones(1, 64), torch.ones(64)),
        (torch.ones(64, 2).T, None, torch.ones(64)),
        (torch.ones(1, LONGEST_ROW + 1), None, torch.ones(LONGEST_ROW + 1)),
    ],
)
def test_other_shapes_are_refused(stream, delta, weight):
    with pytest.raises(ValueError, match=r"expected|contiguous|longest"):
        add_rms_norm(stream, delta, weight, EPS)
