"""Rotary position embedding in the half-split layout of Llama (Su et al., RoFormer, arXiv:2104.09864).

Scaling follows transformers' ``modeling_rope_utils``: linear divides every frequency; llama3 divides the low ones
and blends in between (Llama 3.1 model card).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gpuruntime.models.config import RopeConfig


def inverse_frequencies(config: RopeConfig, head_dim: int) -> Tensor:
    """Angles per position, fp32 ``[head_dim / 2]``."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    base = 1.0 / (config.theta**exponents)
    if config.kind == "linear":
        return base / config.factor
    if config.kind == "llama3":
        return _llama3(base, config)
    return base


def _llama3(base: Tensor, config: RopeConfig) -> Tensor:
    wavelength = 2 * math.pi / base
    low_wavelength = config.original_max_position / config.low_freq_factor
    high_wavelength = config.original_max_position / config.high_freq_factor
    scaled = torch.where(wavelength > low_wavelength, base / config.factor, base)
    span = config.high_freq_factor - config.low_freq_factor
    smooth = (config.original_max_position / wavelength - config.low_freq_factor) / span
    blended = (1 - smooth) * base / config.factor + smooth * base
    between = (wavelength <= low_wavelength) & (wavelength >= high_wavelength)
    return torch.where(between, blended, scaled)


class RotaryTable:
    """Cosines and sines of every position, fp32 ``[max_len, head_dim]``.

    The first half of the sines is negated, so that rotation is ``x * cos + roll(x) * sin`` without a split.
    """

    def __init__(self, config: RopeConfig, head_dim: int, max_len: int) -> None:
        angles = torch.outer(torch.arange(max_len).float(), inverse_frequencies(config, head_dim))
        self._cos = torch.cat((angles.cos(), angles.cos()), dim=-1)
        self._sin = torch.cat((-angles.sin(), angles.sin()), dim=-1)

    def tables(self) -> tuple[Tensor, Tensor]:
        """``(cos, sin)`` of each angle once and unsigned, each fp32 ``[max_len, head_dim / 2]``."""
        half = self._cos.shape[1] // 2
        return self._cos[:, :half].contiguous(), self._sin[:, half:].contiguous()

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """``(cos, sin)`` of int64 ``positions [T]``, each fp32 ``[T, 1, head_dim]``."""
        return self._cos.index_select(0, positions).unsqueeze(1), self._sin.index_select(0, positions).unsqueeze(1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates ``x [T, heads, head_dim]`` by the rows of ``RotaryTable.at``; the result is fp32."""
    x = x.float()
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)
