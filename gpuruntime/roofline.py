"""Ideal device time: the roofline that η = U·E·R·A (docs/goodput.md) is measured against. Pure Python."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the roofline needs of a model at its deployed precision.

    ``parameters`` P (embeddings excluded, head included), ``weight_bytes`` W, ``kv_bytes_per_token`` K, and
    ``attention_flops`` per (query token, context token) pair: 4 · layers · heads · head_dim.
    """

    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int
    attention_flops: int


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Measured once per host and device: matrix FLOP/s at the deployed precision and read bytes/s."""

    flops_per_s: float
    bytes_per_s: float


def ideal_prefill_s(shape: ModelShape, rates: DeviceRates, new_tokens: int, context_before: int = 0) -> float:
    """Prefill FLOPs / F for ``new_tokens`` tokens after ``context_before`` cached ones (causal attention)."""
    pairs = new_tokens * context_before + new_tokens * (new_tokens + 1) // 2
    return (2 * shape.parameters * new_tokens + shape.attention_flops * pairs) / rates.flops_per_s


def ideal_decode_s(shape: ModelShape, rates: DeviceRates, batch: int, context: int, tokens: int = 1) -> float:
    """Per output token max((W / B* + K · context) / BW, 2P / F), for ``tokens`` tokens around ``context``."""
    memory = (shape.weight_bytes / max(1, batch) + shape.kv_bytes_per_token * context) / rates.bytes_per_s
    return tokens * max(memory, 2 * shape.parameters / rates.flops_per_s)


def best_batch(
    shape: ModelShape, rates: DeviceRates, *, tpot_us: int | None, context: int, kv_capacity_tokens: int, most: int
) -> int:
    """B*: the largest batch whose modelled step is within TPOT and whose KV fits; at least 1."""
    fits = min(most, kv_capacity_tokens // max(1, context))
    if tpot_us is None:
        return max(1, fits)
    best = 1
    for batch in range(1, fits + 1):
        memory = (shape.weight_bytes + batch * shape.kv_bytes_per_token * context) / rates.bytes_per_s
        compute = batch * 2 * shape.parameters / rates.flops_per_s
        if max(memory, compute) * 1e6 > tpot_us:
            break
        best = batch
    return best
