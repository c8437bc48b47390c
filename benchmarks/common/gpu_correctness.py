"""Every kernel on the device against its reference in PyTorch, over ragged batches whose unused blocks are poisoned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.common.gpu_attention import BLOCK, Heads
from benchmarks.common.gpu_clock import Bench, attempt
from gpuruntime.kernels.gpu.activation import gated_activation, gated_activation_reference
from gpuruntime.kernels.gpu.attention import attention, attention_reference, plan_attention
from gpuruntime.kernels.gpu.attention_batch import Requests, ScoreRule
from gpuruntime.kernels.gpu.kv_write import LIMITS, HeadNorms, KvPool, kv_write, kv_write_reference
from gpuruntime.kernels.gpu.norm import add_rms_norm, add_rms_norm_reference
from gpuruntime.kernels.gpu.quantized_linear import quantize_rows_fp8, quantized_linear
from gpuruntime.kernels.gpu.sampling import sample
from gpuruntime.kernels.gpu.sampling_limits import SamplingParameters
from gpuruntime.kernels.paged_attention import View
from gpuruntime.kernels.quantize import dequantize, quantize_rows

# Of the largest magnitude. bf16 rounds to 1/256 of a value, once in the kernel's operands and once in its result.
_TOLERANCE = {torch.bfloat16: 2e-2, torch.float32: 1e-3}


@dataclass(frozen=True, slots=True)
class Finding:
    """``error``: the largest difference over the reference's largest magnitude, or what was raised."""

    case: str
    error: float | str
    tolerance: float

    @property
    def holds(self) -> bool:
        return isinstance(self.error, float) and self.error <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        return {"case": self.case, "error": self.error, "tolerance": self.tolerance, "holds": self.holds}


def correctness(bench: Bench) -> Iterator[Finding]:
    tolerance = _TOLERANCE[bench.dtype]
    for case, check in _cases(bench).items():
        if bench.has_types(case) and bench.has_time(f"correctness of {case}"):
            yield Finding(case, attempt(check), tolerance)


def _cases(bench: Bench) -> dict[str, Callable[[], float]]:
    kinds = {"plain": bench.dtype, "int8": torch.int8, "fp8": torch.float8_e4m3fn}
    cases: dict[str, Callable[[], float]] = {
        f"attention, {name} K and V": partial(_attention, bench, dtype, View(), None) for name, dtype in kinds.items()
    }
    cases["attention, window and sinks"] = partial(_attention, bench, bench.dtype, View(20, 4), None)
    cases["attention, soft-capped"] = partial(_attention, bench, bench.dtype, View(), 30.0)
    cases |= {f"kv_write, {name}": partial(_kv_write, bench, dtype) for name, dtype in kinds.items()}
    cases["add_rms_norm"] = partial(_norm, bench)
    cases["gated_activation"] = partial(_activation, bench)
    cases |= {f"quantized_linear, {name}": partial(_product, bench, name) for name in ("int8", "fp8")}
    cases["sample"] = partial(_sample, bench)
    return cases


def _error(found: Tensor, expected: Tensor) -> float:
    """Infinite where a NaN leaked."""
    found, expected = found.double(), expected.double()
    if not bool(torch.isfinite(found).all()):
        return math.inf
    return float((found - expected).abs().max() / expected.abs().max())


def _attention(bench: Bench, dtype: torch.dtype, view: View, softcap: float | None) -> float:
    """Decodes and chunks of ragged lengths at the edges of blocks; what no context holds is NaN."""
    heads = Heads(bench)
    lengths = [1, 15, 16, 17, 40, 33, 31] if bench.dry else [1, 16, 17, 1000, 4097, 300, 2049]
    new = [1, 1, 1, 1, 1, 33, 7] if bench.dry else [1, 1, 1, 1, 1, 300, 129]
    pool, requests = _poisoned(bench, heads, lengths, new, dtype)
    q = bench.random(sum(new), heads.queries, heads.dim)
    plan = plan_attention(requests, ScoreRule(heads.scale, view, softcap), pool, decodes=new.count(1))
    healthy = KvPool(
        torch.nan_to_num(pool.values.float()).to(dtype),
        None if pool.scales is None else torch.nan_to_num(pool.scales),
    )
    return _error(attention(q, pool, plan), attention_reference(q.float(), healthy, plan))


def _poisoned(
    bench: Bench, heads: Heads, lengths: list[int], new: list[int], dtype: torch.dtype
) -> tuple[KvPool, Requests]:
    counts = [-(-length // BLOCK) for length in lengths]
    spare = 3
    shape = (sum(counts) + spare, BLOCK, 2, heads.kv, heads.dim)
    order = torch.randperm(shape[0], device=bench.device)[spare:].to(torch.int32)
    tables = torch.full((len(lengths), max(counts)), -1, dtype=torch.int32, device=bench.device)
    held = torch.zeros(shape[:2], dtype=torch.bool, device=bench.device)
    for row, (blocks, length) in enumerate(zip(order.split(counts), lengths, strict=True)):
        tables[row, : len(blocks)] = blocks
        tokens = torch.arange(length, device=bench.device)
        held[blocks.long()[tokens // BLOCK], tokens % BLOCK] = True
    values, scales = torch.randn(shape, device=bench.device), None
    if dtype in LIMITS:
        scales = values.abs().amax(dim=-1) / LIMITS[dtype]
        values = values / scales.unsqueeze(-1)
        values = values.round() if dtype == torch.int8 else values
        scales[~held] = torch.nan
    if dtype != torch.int8:
        values[~held] = torch.nan
    begins = torch.tensor([0, *new], device=bench.device).cumsum(0).to(torch.int32)
    requests = Requests(begins, torch.tensor(lengths, dtype=torch.int32, device=bench.device), tables)
    return KvPool(values.to(dtype), scales), requests


def _kv_write(bench: Bench, dtype: torch.dtype) -> float:
    """What is stored, dequantized, and the queries; the first token is padding and writes nothing."""
    heads, tokens, blocks = Heads(bench), 20, 4
    qkv = bench.random(tokens, heads.queries + 2 * heads.kv, heads.dim)
    positions = torch.randint(0, 64, (tokens,), device=bench.device)
    slots = torch.randperm(blocks * BLOCK, device=bench.device)[:tokens]
    slots[0] = -1
    angles = torch.rand(64, heads.dim // 2, device=bench.device) * 6
    norms = HeadNorms(*(torch.rand(heads.dim, device=bench.device) + 0.5 for _ in range(2)), 1e-6)
    pools = []
    for _ in range(2):
        values = torch.zeros((blocks, BLOCK, 2, heads.kv, heads.dim), device=bench.device).to(dtype)
        scales = torch.zeros(values.shape[:-1], device=bench.device) if dtype in LIMITS else None
        pools.append(KvPool(values, scales))
    rotation = angles.cos(), angles.sin()
    q = kv_write(qkv, positions, slots, rotation, pools[0], norms)
    expected = kv_write_reference(qkv.float(), positions, slots, rotation, pools[1], norms)
    stored = [pool.values.float() * (1 if pool.scales is None else pool.scales.unsqueeze(-1)) for pool in pools]
    # Two roundings to a grid may fall on either side of its middle: one step of int8's, of fp8's an eighth.
    step = {torch.int8: 1 / 127, torch.float8_e4m3fn: 1 / 8}.get(dtype, 0.0)
    return max(_error(q, expected), _error(*stored) - step)


def _norm(bench: Bench) -> float:
    width = 100 if bench.dry else 4096
    stream, delta = torch.randn(9, width, device=bench.device), bench.random(9, width)
    weight, expected_stream = torch.rand(width, device=bench.device), stream.clone()
    found = add_rms_norm(stream, delta, weight, 1e-5, dtype=bench.dtype)
    expected = add_rms_norm_reference(expected_stream, delta, weight, 1e-5, dtype=torch.float32)
    return max(_error(found, expected), _error(stream, expected_stream))


def _activation(bench: Bench) -> float:
    x = bench.random(5, 2 * (70 if bench.dry else 14336))
    return max(
        _error(gated_activation(x, kind), gated_activation_reference(x.float(), kind)) for kind in ("silu", "gelu_tanh")
    )


def _product(bench: Bench, kind: str) -> float:
    rows, depth, tokens = (80, 256, 3) if bench.dry else (4096, 4096, 17)
    weight = torch.randn(rows, depth, device=bench.device)
    quantized = quantize_rows(weight) if kind == "int8" else quantize_rows_fp8(weight)
    x = bench.random(tokens, depth)
    return _error(quantized_linear(x, quantized), x.float() @ dequantize(quantized).T)


def _sample(bench: Bench) -> float:
    """The share of rows whose token is wrong: the largest logit's, or one that top_k does not leave."""
    rows, vocab, top_k = 8, 300 if bench.dry else 128256, 5
    logits = torch.randn(rows, vocab, device=bench.device)
    temperatures = torch.tensor([0.0, 1.0] * (rows // 2), device=bench.device)
    ones = torch.ones(rows, device=bench.device)
    parameters = SamplingParameters(
        temperatures=temperatures,
        top_ks=(ones * top_k).int(),
        top_ps=ones,
        min_ps=ones * 0,
        seeds=torch.arange(rows, device=bench.device),
        steps=ones.int(),
    )
    tokens = sample(logits, parameters)
    largest = logits.topk(top_k, dim=-1).indices
    kept = (largest == tokens.unsqueeze(1)).any(dim=1)
    right = torch.where(temperatures == 0, largest[:, 0] == tokens, kept)
    return float((~right).double().mean())
