"""The next token of each row by Gumbel's maximum: the largest of ``logit / temperature + noise`` is a fair draw.

The noise of a token is Philox 4x32-10 (Salmon et al., SC'11) at the counter (id, step) under the request's seed: no
state, and no share in anything of the batch. All that spans a row besides are comparisons, which no order changes, so
the same seed and step give the same token in any batch and for any number of chunks.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuruntime.kernels.gpu.configuration import Configuration
from gpuruntime.kernels.gpu.sampling_limits import (
    CHUNK,
    LEAST_TEMPERATURE,
    Limits,
    SamplingParameters,
    find_limits,
    kept_reference,
)

NOT_FINITE = -1
_LEAST = tl.constexpr(LEAST_TEMPERATURE)
_WARPS = 8
_WORD = 0xFFFFFFFF


@triton.jit
def draw_kernel(
    logits,
    largest,
    thresholds,
    last_ties,
    temperatures,
    seeds,
    steps,
    best_scores,
    best_ids,
    rows,
    vocab,
    stride,
    chunks,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    ids = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)[None, :]
    real = row < rows
    inside = real[:, None] & (ids < vocab)
    x = tl.load(logits + row.to(tl.int64)[:, None] * stride + ids, mask=inside, other=float("-inf")).to(tl.float32)
    top = tl.load(largest + row, mask=real, other=0.0)[:, None]
    threshold = tl.load(thresholds + row, mask=real, other=0.0)[:, None]
    last_tie = tl.load(last_ties + row, mask=real, other=0)[:, None]
    temperature = tl.load(temperatures + row, mask=real, other=0.0)[:, None]
    seed = tl.load(seeds + row, mask=real, other=0)[:, None]
    step = tl.load(steps + row, mask=real, other=0)[:, None]
    noise = _exponential(seed, step, ids)
    score = (x - top) / tl.maximum(temperature, _LEAST) - tl.log(noise)
    score = tl.where(temperature > 0, score, x)
    kept = (x > threshold) | ((x == threshold) & (ids <= last_tie))
    best, place = tl.max(tl.where(kept, score, float("-inf")), axis=1, return_indices=True)
    partial = row.to(tl.int64) * chunks + tl.program_id(1)
    tl.store(best_scores + partial, best, mask=real)
    tl.store(best_ids + partial, tl.program_id(1) * CHUNK + place, mask=real)


@triton.jit
def _exponential(seed, step, ids):
    """Exponential noise: a token's chance to have the least of ``noise / weight`` is its weight's share."""
    zero = ids * 0
    word, _, _, _ = tl.philox(seed, ids + zero, step + zero, zero, zero)
    share = (word.to(tl.float32) + 0.5) * 2.3283064365386963e-10
    share = tl.minimum(share, 0.99999994)
    # -log(1 - share), which near 0, where winners are, keeps all bits only as a series.
    series = share * (1.0 + share * (0.5 + share * (0.3333333333 + share * 0.25)))
    return tl.where(share < 0.015625, series, -tl.log(1.0 - share))


@triton.jit
def choose_kernel(best_scores, best_ids, largest, tokens, rows, chunks, ROWS: tl.constexpr, CHUNKS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = row < rows
    parts = tl.arange(0, CHUNKS)[None, :]
    inside = real[:, None] & (parts < chunks)
    scores = tl.load(best_scores + row[:, None] * chunks + parts, mask=inside, other=float("-inf"))
    place = tl.argmax(scores, axis=1)
    token = tl.load(best_ids + row * chunks + place, mask=real, other=0).to(tl.int64)
    top = tl.load(largest + row, mask=real, other=0.0)
    finite = (top > float("-inf")) & (top < float("inf"))
    tl.store(tokens + row, tl.where(finite, token, -1), mask=real)


def sample(logits: Tensor, parameters: SamplingParameters) -> Tensor:
    """int64 ``[R]``: a token of each row of ``logits [R, vocab]`` of fp32, fp16 or bf16.

    ``NOT_FINITE`` for a row that has a NaN or an infinite logit, or that has nothing but minus infinity.
    top_k, top_p and min_p come after the temperature, in this order, as on the CPU (``gpuruntime.sampling``); where the
    temperature is 0 the token is the largest logit's, the lowest id among equals. A logit of minus infinity is never
    drawn. Launches are the same whatever the parameters, so that a graph can capture them. Raises ``ValueError`` for
    parameters of another number of rows and for logits whose vocabulary is not contiguous.
    """
    for name in SamplingParameters.__slots__:
        if getattr(parameters, name).shape != logits.shape[:1]:
            raise ValueError(f"{name} must be [{logits.shape[0]}], found {tuple(getattr(parameters, name).shape)}")
    if logits.ndim != 2 or logits.stride(1) != 1:
        raise ValueError(f"expected logits [R, vocab] with a contiguous vocabulary, found strides {logits.stride()}")
    return draw(logits, find_limits(logits, parameters), parameters)


def draw(logits: Tensor, limits: Limits, parameters: SamplingParameters) -> Tensor:
    """int64 ``[R]``: a token of each row among what ``limits`` leaves it."""
    rows, vocab = logits.shape
    tokens = torch.empty(rows, dtype=torch.int64, device=logits.device)
    if not rows:
        return tokens
    chunk = min(CHUNK, triton.next_power_of_2(vocab))
    tile_rows = CHUNK // chunk  # a small vocabulary takes several rows a program
    chunks = triton.cdiv(vocab, chunk)
    scores = logits.new_empty(rows, chunks, dtype=torch.float32)
    ids = logits.new_empty(rows, chunks, dtype=torch.int32)
    draw_kernel[(triton.cdiv(rows, tile_rows), chunks)](
        logits,
        limits.largest,
        limits.thresholds,
        limits.last_ties,
        parameters.temperatures,
        parameters.seeds,
        parameters.steps,
        scores,
        ids,
        rows,
        vocab,
        logits.stride(0),
        chunks,
        ROWS=tile_rows,
        CHUNK=chunk,
        num_warps=_WARPS,
    )
    padded = triton.next_power_of_2(chunks)
    choose_kernel[(triton.cdiv(rows, tile_rows),)](
        scores, ids, limits.largest, tokens, rows, chunks, ROWS=tile_rows, CHUNKS=padded, num_warps=1
    )
    return tokens


def sample_reference(logits: Tensor, parameters: SamplingParameters) -> Tensor:
    """What ``sample`` does, in PyTorch; its float64 noise may choose another of two tokens that all but tie."""
    x = logits.double()
    ids = torch.arange(logits.shape[1], device=logits.device)
    words = torch.stack(
        [_philox(int(seed), ids, int(step)) for seed, step in zip(parameters.seeds, parameters.steps, strict=True)]
    )
    gumbel = -torch.log(-torch.log1p(-((words.double() + 0.5) / (_WORD + 1))))
    scores = x / parameters.temperatures.double().clamp_min(LEAST_TEMPERATURE).unsqueeze(1) + gumbel
    scores = scores.masked_fill(~kept_reference(logits, parameters), float("-inf"))
    tokens = torch.where(parameters.temperatures > 0, scores.argmax(dim=-1), x.argmax(dim=-1))
    finite = ~((x.isnan() | x.isposinf()).any(dim=-1) | x.isneginf().all(dim=-1))
    return torch.where(finite, tokens, NOT_FINITE)


def _philox(seed: int, ids: Tensor, step: int) -> Tensor:
    """The first word of Philox 4x32-10 at the counters ``(id, step, 0, 0)``, as int64 ``[vocab]``."""
    counter = [ids.clone(), torch.full_like(ids, step), torch.zeros_like(ids), torch.zeros_like(ids)]
    keys = [seed & _WORD, seed >> 32 & _WORD]
    for _ in range(10):
        high0, low0 = _product(0xD2511F53, counter[0])
        high2, low2 = _product(0xCD9E8D57, counter[2])
        counter = [high2 ^ counter[1] ^ keys[0], low2, high0 ^ counter[3] ^ keys[1], low0]
        keys = [(keys[0] + 0x9E3779B9) & _WORD, (keys[1] + 0xBB67AE85) & _WORD]
    return counter[0]


def _product(factor: int, words: Tensor) -> tuple[Tensor, Tensor]:
    """The upper and lower 32 bits of products of 32 bits, which together overflow int64."""
    low, high = (words & 0xFFFF) * factor, (words >> 16) * factor
    carried = high + (low >> 16)
    return carried >> 16, ((carried & 0xFFFF) << 16) | (low & 0xFFFF)


def configurations() -> tuple[Configuration, ...]:
    """Llama 3's vocabulary of 128256 fp32 logits."""
    per_row = dict.fromkeys(("largest", "thresholds", "temperatures", "best_scores"), "*fp32")
    per_row |= {"last_ties": "*i32", "best_ids": "*i32", "seeds": "*i64", "steps": "*i32"}
    sizes = dict.fromkeys(("rows", "vocab", "stride", "chunks"), "i32")
    constants: dict[str, Any] = {"ROWS": 1, "CHUNK": CHUNK}
    drawing = {"logits": "*fp32"} | per_row | sizes
    choosing = {"chunks": "i32"} | {
        "best_scores": "*fp32",
        "best_ids": "*i32",
        "largest": "*fp32",
        "tokens": "*i64",
        "rows": "i32",
    }
    return (
        Configuration("sampling_draw", draw_kernel, drawing, constants, ("vocab", "stride"), num_warps=_WARPS),
        Configuration("sampling_choose", choose_kernel, choosing, {"ROWS": 1, "CHUNKS": 32}, num_warps=1),
    )
