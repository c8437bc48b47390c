"""The kernels around attention at Llama 3 8B's sizes: all of them wait for memory alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear, rms_norm, silu

from benchmarks.common.gpu_attention import BLOCK, Heads
from benchmarks.common.gpu_clock import Bench, Rates, Row, attempt
from gpuruntime.kernels.gpu.activation import gated_activation
from gpuruntime.kernels.gpu.kv_write import KvPool, kv_write
from gpuruntime.kernels.gpu.norm import add_rms_norm
from gpuruntime.kernels.gpu.quantized_linear import quantize_rows_fp8, quantized_linear
from gpuruntime.kernels.gpu.sampling import sample
from gpuruntime.kernels.gpu.sampling_limits import SamplingParameters
from gpuruntime.kernels.quantize import quantize_rows


def layers(bench: Bench, rates: Rates) -> Iterator[Row]:
    """64 tokens, as a decode step has them."""
    tokens = 4 if bench.dry else 64
    for name, measure in {
        "quantized_linear, int8": partial(_product, "int8"),
        "quantized_linear, fp8": partial(_product, "fp8"),
        "kv_write": _kv_write,
        "add_rms_norm": _norm,
        "gated_activation": _activation,
        "sample": _sample,
    }.items():
        if bench.has_types(name) and bench.has_time(name):
            run, nbytes, peer = measure(bench, tokens)
            seconds = bench.seconds(run, cold=True)
            peers = {} if peer is None else {"torch": attempt(partial(bench.seconds, peer, cold=True))}
            floor_s = nbytes / rates.bytes_s
            yield Row("layers", f"{name}, {tokens} tokens", seconds, floor_s, "bandwidth", peers, {"tokens": tokens})


Measured = tuple[Callable[[], Any], int, Callable[[], Any] | None]


def _product(kind: str, bench: Bench, tokens: int) -> Measured:
    """The peer multiplies with weights that were not quantized, and reads twice as much."""
    rows, depth = (64, 128) if bench.dry else (28672, 4096)
    weight, x = bench.random(rows, depth), bench.random(tokens, depth)
    quantized = quantize_rows(weight) if kind == "int8" else quantize_rows_fp8(weight)
    nbytes = quantized.nbytes + x.nbytes + tokens * rows * x.itemsize
    return partial(quantized_linear, x, quantized), nbytes, partial(linear, x, weight)


def _kv_write(bench: Bench, tokens: int) -> Measured:
    heads = Heads(bench)
    qkv = bench.random(tokens, heads.queries + 2 * heads.kv, heads.dim)
    pool = KvPool(torch.zeros((tokens, BLOCK, 2, heads.kv, heads.dim), dtype=bench.dtype, device=bench.device))
    positions = torch.arange(tokens, device=bench.device)
    tables = (
        torch.rand(tokens, heads.dim // 2, device=bench.device),
        torch.rand(tokens, heads.dim // 2, device=bench.device),
    )
    return partial(kv_write, qkv, positions, positions * BLOCK, tables, pool), 2 * qkv.nbytes, None


def _norm(bench: Bench, tokens: int) -> Measured:
    width = 64 if bench.dry else 4096
    stream, delta = torch.randn(tokens, width, device=bench.device), bench.random(tokens, width)
    weight = torch.rand(width, device=bench.device)

    def peer() -> Any:
        stream.add_(delta)
        return rms_norm(stream, (width,), weight, 1e-5).to(bench.dtype)

    return (
        partial(add_rms_norm, stream, delta, weight, 1e-5, dtype=bench.dtype),
        2 * (stream.nbytes + delta.nbytes),
        peer,
    )


def _activation(bench: Bench, tokens: int) -> Measured:
    width = 64 if bench.dry else 14336
    x = bench.random(tokens, 2 * width)

    def peer() -> Any:
        gate, up = x.chunk(2, dim=-1)
        return silu(gate) * up

    return partial(gated_activation, x, "silu"), x.nbytes * 3 // 2, peer


def _sample(bench: Bench, tokens: int) -> Measured:
    """top_p over the whole vocabulary; the peer sorts."""
    logits = torch.randn(tokens, 300 if bench.dry else 128256, device=bench.device)
    ones = torch.ones(tokens, device=bench.device)
    parameters = SamplingParameters(
        temperatures=ones,
        top_ks=ones.int() * 0,
        top_ps=ones * 0.9,
        min_ps=ones * 0,
        seeds=torch.arange(tokens, device=bench.device),
        steps=ones.int(),
    )

    def peer() -> Any:
        weights, ids = torch.softmax(logits, dim=-1).sort(dim=-1, descending=True)
        weights[weights.cumsum(dim=-1) - weights > 0.9] = 0
        return ids.gather(1, torch.multinomial(weights, 1))

    return partial(sample, logits, parameters), logits.nbytes, peer
