"""SiLU-and-mul and GELU-and-mul against their definitions in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gpuruntime.kernels.gpu.activation import gated_activation, gated_activation_reference


def silu(x):
    return x / (1 + math.exp(-x)) if x > -700 else 0.0


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


DEFINITIONS = {"silu": silu, "gelu_tanh": gelu_tanh}


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("width", [1, 96, 1024, 1536])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_equals_the_definition(activation, width, dtype):
    gate_up = (torch.randn(3, 2 * width, generator=torch.Generator().manual_seed(width)) * 3).to(dtype)
    gate, up = gate_up.double().numpy()[:, :width], gate_up.double().numpy()[:, width:]
    expected = np.vectorize(DEFINITIONS[activation])(gate) * up
    out = gated_activation(gate_up, activation)
    assert (out.dtype, out.shape) == (dtype, (3, width))
    np.testing.assert_allclose(out.double(), expected, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(gated_activation_reference(gate_up, activation), out, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gates_of_any_size_give_numbers(activation):
    gate = torch.tensor([-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4])
    out = gated_activation(torch.cat((gate, torch.ones(7))).view(1, 14), activation)
    torch.testing.assert_close(out[0], gate.clamp_min(0), rtol=1e-6, atol=1e-6)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="gate and up"):
        gated_activation(torch.ones(2, 7), "silu")
