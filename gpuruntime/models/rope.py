"""Rotary position embedding in the half-split layout of Llama (Su et al., RoFormer, arXiv:2104.09864).

Scaling follows transformers' ``modeling_rope_utils``: linear divides every frequency; llama3 divides the low ones
and blends in between (Llama 3.1 model card); YaRN (arXiv:2309.00071) blends by rotations over the original context.

Dynamic NTK raises the base with the length of the sequence. transformers raises it anew with every token past the
original length, so a K that was cached earlier is of another rotation than its query; and a K whose rotation depends
on the length of its request cannot be shared by a prefix cache. Here the base is raised once, for the longest context
that the engine is started for: frequencies equal transformers' for a sequence of just that length, and for any
sequence where that length is within the original one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gpuruntime.models.config import RopeConfig


def inverse_frequencies(config: RopeConfig, head_dim: int, max_len: int) -> Tensor:
    """Angles per position, fp32 ``[head_dim / 2]``; ``max_len``, in tokens, counts for dynamic scaling only."""
    theta = config.theta
    if config.kind == "dynamic":
        theta = _dynamic_theta(config, head_dim, max_len)
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    base = 1.0 / (theta**exponents)
    if config.kind == "linear":
        return base / config.factor
    if config.kind == "llama3":
        return _llama3(base, config)
    if config.kind == "yarn":
        return _yarn(base, config, head_dim)
    return base


def _dynamic_theta(config: RopeConfig, head_dim: int, max_len: int) -> float:
    stretch = max(1.0, max_len / config.original_max_position)
    raised: float = (config.factor * stretch - (config.factor - 1)) ** (head_dim / (head_dim - 2))
    return config.theta * raised


def _yarn(base: Tensor, config: RopeConfig, head_dim: int) -> Tensor:
    """Keeps frequencies of many rotations over the original context, divides those of few, and blends between."""

    def dimension(rotations: float) -> float:
        turns = config.original_max_position / (rotations * 2 * math.pi)
        return head_dim * math.log(turns) / (2 * math.log(config.theta))

    low, high = dimension(config.beta_fast), dimension(config.beta_slow)
    if config.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low if high != low else 0.001
    divided = ((torch.arange(head_dim // 2).float() - low) / width).clamp(0, 1)
    return base / config.factor * divided + base * (1 - divided)


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
        angles = torch.outer(torch.arange(max_len).float(), inverse_frequencies(config, head_dim, max_len))
        cos, sin = angles.cos() * config.attention_factor, angles.sin() * config.attention_factor
        self._cos = torch.cat((cos, cos), dim=-1)
        self._sin = torch.cat((-sin, sin), dim=-1)

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
