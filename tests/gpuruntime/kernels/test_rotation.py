"""The rotation of the residual stream: orthogonal, one for each size, and unseen by a decoder's logits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from gpuruntime.engine.native_weights import NativeWeights
from gpuruntime.kernels.native import pack
from gpuruntime.kernels.quantize import QuantizedWeight
from gpuruntime.kernels.rotation import rotate_columns, rotate_rows, unrotate_columns
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import load_model_config
from helpers.families import error, save_random_model

SIZES = [32, 64, 96, 128, 160, 256, 512, 576, 896, 960, 1024]


@pytest.mark.parametrize("size", SIZES)
def test_it_is_orthogonal(size: int) -> None:
    q = rotate_columns(torch.eye(size)).double()
    assert float((q @ q.T - torch.eye(size)).abs().max()) < 1e-6
    assert float((q - torch.eye(size)).abs().max()) > 0.5


@pytest.mark.parametrize("size", [32, 96, 576])
def test_columns_and_rows_are_products_with_one_matrix(size: int) -> None:
    random = torch.Generator().manual_seed(size)
    q = rotate_columns(torch.eye(size)).double()
    left, right = torch.randn(2, 3, size, generator=random), torch.randn(size, 5, generator=random)
    torch.testing.assert_close(rotate_columns(left).double(), left.double() @ q, rtol=0, atol=1e-5)
    torch.testing.assert_close(rotate_rows(right).double(), q.T @ right.double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(unrotate_columns(rotate_columns(left)), left, rtol=0, atol=1e-5)
    assert torch.equal(rotate_columns(left), rotate_columns(left))


def test_it_spreads_an_outlier() -> None:
    """A row of one large value is int8's worst case; rotated, its largest value is near the others."""
    row = torch.zeros(1, 576)
    row[0, 5] = 1.0
    assert float(rotate_columns(row).abs().max()) < 0.15


@pytest.mark.parametrize("hidden", [96, 160])
def test_a_rotated_decoder_has_the_same_logits(tmp_path: Path, hidden: int) -> None:
    """The weights of transformers' own model, changed as ``NativeWeights`` does it for int8, in fp32."""
    model = save_random_model(
        tmp_path, "llama", hidden_size=hidden, num_attention_heads=2, attention_bias=True, mlp_bias=True, head_dim=32
    )
    tokens = torch.tensor([[1, 50, 7, 200, 3, 3, 99]])
    with torch.no_grad():
        expected = model(tokens).logits
        _rotate(model)
        found = model(tokens).logits
    assert error(found, expected) < 1e-5


def _rotate(model: torch.nn.Module) -> None:
    weights = dict(model.named_parameters())

    def change(name: str, changed: Tensor) -> None:
        weights[name].copy_(changed)

    readers = {"lm_head.weight": "model.norm.weight"}
    for index in range(2):
        at = f"model.layers.{index}"
        readers |= {f"{at}.self_attn.{n}_proj.weight": f"{at}.input_layernorm.weight" for n in "qkv"}
        readers |= {f"{at}.mlp.{n}_proj.weight": f"{at}.post_attention_layernorm.weight" for n in ("gate", "up")}
        for name in (f"{at}.self_attn.o_proj", f"{at}.mlp.down_proj"):
            change(f"{name}.weight", rotate_rows(weights[f"{name}.weight"]))
            change(f"{name}.bias", rotate_columns(weights[f"{name}.bias"]))
    change("model.embed_tokens.weight", rotate_columns(weights["model.embed_tokens.weight"]))
    for name, norm in readers.items():
        change(name, rotate_columns(weights[name] * weights[norm]))
    for norm in set(readers.values()):
        change(norm, torch.ones_like(weights[norm]))


def test_rounding_is_the_only_error_of_int8_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``NativeWeights`` hands to be rounded has, with its own rotation, the products of the plain weights."""
    seen: list[Tensor] = []

    def keep(weight: Tensor) -> QuantizedWeight:
        seen.append(weight.clone())
        return QuantizedWeight(torch.zeros(weight.shape, dtype=torch.int8), torch.zeros(weight.shape[0]))

    model = save_random_model(tmp_path, "llama", hidden_size=96, intermediate_size=64, head_dim=32, num_hidden_layers=1)
    monkeypatch.setattr(pack, "quantize_rows", keep)
    NativeWeights(WeightSource(tmp_path, torch.float32), load_model_config(tmp_path), 64, int8=True)
    qkv, out, gate_up, down, head = seen
    weights = dict(model.named_parameters())
    q = rotate_columns(torch.eye(96))
    layer = "model.layers.0"
    norm = weights[f"{layer}.input_layernorm.weight"]
    expected = torch.cat([weights[f"{layer}.self_attn.{name}_proj.weight"] for name in "kqv"]) * norm
    torch.testing.assert_close(qkv @ q.T, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(q @ out, weights[f"{layer}.self_attn.o_proj.weight"], rtol=0, atol=1e-5)
    torch.testing.assert_close(q @ down, weights[f"{layer}.mlp.down_proj.weight"], rtol=0, atol=1e-5)
    assert gate_up.shape == (128, 96)
    expected = weights["lm_head.weight"] * weights["model.norm.weight"]
    torch.testing.assert_close(head @ q.T, expected, rtol=0, atol=1e-5)
