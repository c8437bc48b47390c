"""The C++ step's arithmetic in float64, and small checkpoints and batches for it.

``exact_logits`` rounds to bf16 (or int8) just where the step does and computes everything between in float64, one
token after another's matrix at a time, so that what is left of a difference is fp32's rounding and the roundings that
it tips over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executor import Executor, StepBatch
from gpuruntime.engine.native_executor import NativeExecutor
from gpuruntime.kernels.quantize import quantize_rows
from gpuruntime.kernels.rotation import rotate_columns, rotate_rows
from gpuruntime.models.config import ModelConfig, load_model_config
from gpuruntime.models.rope import RotaryTable
from helpers.families import save_random_model

# In multiples of 32, as the step needs them; an odd vocabulary.
SHAPE: dict[str, Any] = {
    "vocab_size": 211,
    "hidden_size": 96,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "initializer_range": 0.1,
}


def save_native_model(target: Path, family: str = "llama", **changes: Any) -> Any:
    """A random checkpoint whose weights are bf16 values; returns transformers' model with the same weights in fp32."""
    model = save_random_model(target, family, **{**SHAPE, **changes})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16().float())
    model.save_pretrained(target)
    return model


def change_weights(model_dir: Path, **changed: Tensor) -> None:
    """Replaces tensors of the checkpoint; a name's dots are written as double underscores."""
    path = model_dir / "model.safetensors"
    weights = load_file(path)
    for name, tensor in changed.items():
        key = name.replace("__", ".")
        assert weights[key].shape == tensor.shape
        weights[key] = tensor.contiguous()
    save_file(weights, path, metadata={"format": "pt"})


def native(model_dir: Path, **settings: Any) -> NativeExecutor:
    """The step over that model with one thread and 4 MiB of KV."""
    config = EngineConfig(model_dir, **{"threads": 1, "kv_bytes": 4 << 20, **settings})
    return NativeExecutor(config, load_model_config(model_dir), 512)


@dataclass(frozen=True)
class Row:
    """Tokens ``[start, start + count)`` of a request, K and V in ``blocks``; logits of the last token or of all."""

    tokens: Sequence[int]
    start: int
    count: int
    blocks: Sequence[int]
    every: bool = False
    wanted: bool = True


def make_batch(rows: Sequence[Row]) -> StepBatch:
    begins = np.cumsum([0, *(row.count for row in rows)]).astype(np.int32)
    needed = [-(-(row.start + row.count) // 16) for row in rows]
    tables = np.zeros((len(rows), max(needed)), dtype=np.int32)
    for index, (row, count) in enumerate(zip(rows, needed, strict=True)):
        tables[index, :count] = row.blocks[:count]
    logits_rows: list[int] = []
    for begin, end, row in zip(begins, begins[1:], rows, strict=False):
        if row.wanted:
            logits_rows += range(begin if row.every else end - 1, end)
    return StepBatch(
        token_ids=np.concatenate([row.tokens[row.start : row.start + row.count] for row in rows]).astype(np.int32),
        begins=begins,
        positions=np.array([row.start for row in rows], dtype=np.int32),
        tables=tables,
        logits_rows=np.array(logits_rows, dtype=np.int32),
    )


def all_logits(executor: Executor, tokens: Sequence[int], blocks: Sequence[int]) -> Tensor:
    """``[len(tokens), vocab]`` of one pass."""
    return executor.logits(make_batch([Row(tokens, 0, len(tokens), blocks, every=True)])).clone()


# --- The same arithmetic in float64 -----------------------------------------------------------------------------


def bf16(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).double()


class _Weights:
    """A checkpoint's matrices as the step multiplies them, in float64; int8 ones rotated and rounded."""

    def __init__(self, model_dir: Path, config: ModelConfig, *, int8: bool) -> None:
        self._raw = {name: tensor.float() for name, tensor in load_file(model_dir / "model.safetensors").items()}
        self._config = config
        self.int8 = int8

    def norm(self, name: str) -> Tensor:
        weight = self._raw[f"{name}.weight"]
        return (torch.ones_like(weight) if self.int8 and "self_attn" not in name else weight).double()

    def embedding(self) -> Tensor:
        table = self._raw["model.embed_tokens.weight"]
        return bf16(rotate_columns(table) if self.int8 else table)

    def reader(self, name: str, norm: str) -> tuple[Tensor, Tensor | float]:
        weight = self._raw.get(f"{name}.weight", self._raw["model.embed_tokens.weight"])
        if self.int8:
            weight = rotate_columns(weight * self._raw[f"{norm}.weight"])
        return self._rounded(weight), self._bias(name)

    def writer(self, name: str) -> tuple[Tensor, Tensor | float]:
        weight, bias = self._raw[f"{name}.weight"], self._bias(name)
        if not self.int8:
            return weight.double(), bias
        rotated = bias if isinstance(bias, float) else rotate_columns(bias.float()).double()
        return self._rounded(rotate_rows(weight)), rotated

    def _bias(self, name: str) -> Tensor | float:
        return self._raw[f"{name}.bias"].double() if f"{name}.bias" in self._raw else 0.0

    def _rounded(self, weight: Tensor) -> Tensor:
        if not self.int8:
            return weight.double()
        quantized = quantize_rows(weight)
        return quantized.values.double() * quantized.scales.double().unsqueeze(1)


def _sixteen_bits(x: Tensor) -> Tensor:
    """Rows as 16-bit integers with a scale each, as int8 weights meet them."""
    scale = x.abs().amax(-1, keepdim=True) / 32767
    return torch.round(x / scale) * scale


def exact_logits(model_dir: Path, tokens: Sequence[int], *, int8: bool = False, int8_kv: bool = False) -> Tensor:
    """``[len(tokens), vocab]`` in float64."""
    config = load_model_config(model_dir)
    weights = _Weights(model_dir, config, int8=int8)

    def product(x: Tensor, matrix: tuple[Tensor, Tensor | float]) -> Tensor:
        return (_sixteen_bits(x) if int8 else bf16(x)) @ matrix[0].T + matrix[1]

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + config.rms_norm_eps) * weight

    x = weights.embedding()[torch.tensor(tokens)]
    for index in range(config.num_layers):
        at = f"model.layers.{index}"
        h = norm(x, weights.norm(f"{at}.input_layernorm"))
        parts = [
            product(h, weights.reader(f"{at}.self_attn.{name}_proj", f"{at}.input_layernorm")).unflatten(
                -1, (-1, config.head_dim)
            )
            for name in "qkv"
        ]
        for part, name in enumerate("qk" if config.qk_norm else ""):
            parts[part] = norm(parts[part], weights.norm(f"{at}.self_attn.{name}_norm"))
        mixed = _attention(config, config.sliding_windows[index], parts, int8_kv=int8_kv)
        x = x + product(bf16(mixed), weights.writer(f"{at}.self_attn.o_proj"))
        h = norm(x, weights.norm(f"{at}.post_attention_layernorm"))
        gate, up = (
            product(h, weights.reader(f"{at}.mlp.{name}_proj", f"{at}.post_attention_layernorm"))
            for name in ("gate", "up")
        )
        x = x + product(bf16(gate * torch.sigmoid(gate) * up), weights.writer(f"{at}.mlp.down_proj"))
    return product(norm(x, weights.norm("model.norm")), weights.reader("lm_head", "model.norm"))


def _attention(config: ModelConfig, window: int | None, parts: list[Tensor], *, int8_kv: bool) -> Tensor:
    """``[T, heads * head_dim]`` of unrotated ``q, k, v [T, heads, head_dim]``."""
    q, k, v = parts
    count, half = q.shape[0], config.head_dim // 2
    cos, sin = (
        table[:count].double().unsqueeze(1) for table in RotaryTable(config.rope, config.head_dim, 512).tables()
    )

    def rotated(x: Tensor) -> Tensor:
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def kept(x: Tensor) -> tuple[Tensor, Tensor]:
        """Values and scales ``[T, heads, 1]`` as K and V keep them."""
        if not int8_kv:
            return bf16(x), torch.ones_like(x[..., :1])
        scale = x.abs().amax(-1, keepdim=True) / 127
        return torch.round(x / scale), scale

    q, (k, k_scale), (v, v_scale) = bf16(rotated(q)), kept(rotated(k)), kept(v)
    repeats = config.num_heads // config.num_kv_heads
    k, k_scale, v, v_scale = (part.repeat_interleave(repeats, 1) for part in (k, k_scale, v, v_scale))
    scores = torch.einsum("thd,shd->hts", q, k) * config.attention_scale * k_scale.permute(1, 2, 0)
    ago = torch.arange(count).unsqueeze(1) - torch.arange(count)
    seen = (ago >= 0) & (ago < (window or count))
    scores = scores.masked_fill(~seen, -torch.inf)
    p = torch.exp(scores - scores.amax(-1, keepdim=True))
    mixed = torch.einsum("hts,shd->thd", bf16(p * v_scale.permute(1, 2, 0)), v)
    return (mixed / p.sum(-1).T.unsqueeze(-1)).flatten(1)
