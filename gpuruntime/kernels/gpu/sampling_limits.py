"""Which tokens top_k, top_p and min_p leave to a row, as the least logit that is kept: nothing is sorted.

The border is searched between two logits of the row. Each pass counts, or weighs, what lies above three pivots, and
moves both ends to logits that occur, so that a pass leaves about a quarter of the candidates, and two equal ends are
the answer. (FlashInfer draws by rejection from such pivots; here the border itself is found, so that a row's draw
depends on its own noise alone.) Among equal logits the lowest ids are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuruntime.kernels.gpu.configuration import Configuration

CHUNK = 4096
LEAST_TEMPERATURE = 1e-5
_LEAST = tl.constexpr(LEAST_TEMPERATURE)
_BLOCK = 2048  # of the search, whose nine sums a value of the block must fit the registers
_WARPS = 16


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """How each of ``R`` rows is sampled; one tensor ``[R]`` a field, on the logits' device.

    temperatures: fp32, 0 takes the largest logit. top_ks: int32, 0 for all. top_ps, min_ps: fp32, 1 and 0 for all.
    seeds: int64, of the request. steps: int32, the place of the token in the request's output.
    """

    temperatures: Tensor
    top_ks: Tensor
    top_ps: Tensor
    min_ps: Tensor
    seeds: Tensor
    steps: Tensor


@dataclass(frozen=True, slots=True)
class Limits:
    """What a row may draw: logits above ``thresholds``, and of those equal to it the ids up to ``last_ties``.

    largest: fp32 ``[R]``, not finite where a logit is NaN or infinite, or where none is finite. thresholds: fp32
    ``[R]``, minus infinity where all are left. last_ties: int32 ``[R]``.
    """

    largest: Tensor
    thresholds: Tensor
    last_ties: Tensor


@triton.jit
def chunk_maxima_kernel(logits, maxima, vocab, stride, chunks, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    ids = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(logits + row * stride + ids, mask=ids < vocab, other=float("-inf")).to(tl.float32)
    x = tl.where(x < float("inf"), x, float("inf"))  # NaN as infinity, for a maximum may pass over it
    tl.store(maxima + row * chunks + tl.program_id(1), tl.max(x, axis=0))


@triton.jit
def limits_kernel(
    logits,
    maxima,
    temperatures,
    top_ks,
    top_ps,
    min_ps,
    largest,
    thresholds,
    last_ties,
    vocab,
    stride,
    chunks,
    CHUNKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    source = logits + row * stride
    parts = tl.arange(0, CHUNKS)
    top = tl.max(tl.load(maxima + row * chunks + parts, mask=parts < chunks, other=float("-inf")), axis=0)
    temperature = tl.load(temperatures + row)
    top_k = tl.load(top_ks + row)
    top_p = tl.load(top_ps + row)
    threshold = float("-inf")
    last_tie = vocab
    random = (top > float("-inf")) & (top < float("inf")) & (temperature > 0)
    by_count = (top_k > 0) & (top_k < vocab)
    inverse = 1.0 / tl.maximum(temperature, _LEAST)
    if random & (by_count | (top_p < 1.0)):
        low, count, mass = _survey(source, vocab, top, inverse, float("-inf"), BLOCK)
        threshold = low
        keep = vocab * 1.0
        if by_count:
            wanted = tl.minimum(top_k * 1.0, count)
            threshold, above = _search(source, vocab, low, top, wanted, top, inverse, False, BLOCK)
            keep = wanted - above
            _, _, mass = _survey(source, vocab, top, inverse, threshold, BLOCK)
            mass += keep * tl.exp((threshold - top) * inverse)
        if top_p < 1.0:
            wanted = top_p * mass
            border, above = _search(source, vocab, threshold, top, wanted, top, inverse, True, BLOCK)
            weight = tl.maximum(tl.exp((border - top) * inverse), 1.2e-38)
            needed = tl.maximum(tl.ceil((wanted - above) / weight), 1.0)
            keep = tl.where(border > threshold, needed, tl.minimum(needed, keep))
            threshold = border
        last_tie = _nth_tie(source, vocab, threshold, tl.minimum(keep, vocab * 1.0).to(tl.int32), BLOCK)
    least = top + tl.log(tl.load(min_ps + row)) * tl.maximum(temperature, _LEAST)
    stricter = random & (least > threshold)
    tl.store(largest + row, top)
    tl.store(thresholds + row, tl.where(stricter, least, threshold))
    tl.store(last_ties + row, tl.where(stricter, vocab, last_tie))


@triton.jit
def _survey(source, vocab, top, inverse, border, BLOCK: tl.constexpr):
    """Of the logits above ``border``: the least, how many, and the sum of their weights."""
    least = tl.full([BLOCK], float("inf"), tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    mass = tl.zeros([BLOCK], tl.float32)
    for start in range(0, vocab, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        x = tl.load(source + ids, mask=ids < vocab, other=float("-inf")).to(tl.float32)
        above = x > border
        least = tl.minimum(least, tl.where(above, x, float("inf")))
        count += tl.where(above, 1.0, 0.0)
        mass += tl.where(above, tl.exp((x - top) * inverse), 0.0)
    return tl.min(least, axis=0), tl.sum(count, axis=0), tl.sum(mass, axis=0)


@triton.jit
def _search(source, vocab, low, high, wanted, top, inverse, BY_MASS: tl.constexpr, BLOCK: tl.constexpr):
    """The largest logit that, with all above it, amounts to ``wanted``, and the amount above it.

    ``low`` and ``high`` occur in the row; what is at or above ``low`` suffices, what is above ``high`` does not.
    """
    beyond = 0.0
    while low < high:
        # On halves, so that no difference overflows; the last pivot is above ``low``, so that each pass excludes one.
        half, width = low * 0.5, high * 0.5 - low * 0.5
        pivot1 = (half + width * 0.25) * 2.0
        pivot2 = (half + width * 0.5) * 2.0
        pivot3 = (half + width * 0.75) * 2.0
        pivot3 = tl.where(pivot3 > low, pivot3, high)
        amount1 = tl.zeros([BLOCK], tl.float32)
        amount2 = tl.zeros([BLOCK], tl.float32)
        amount3 = tl.zeros([BLOCK], tl.float32)
        next1 = tl.full([BLOCK], float("inf"), tl.float32)
        next2 = tl.full([BLOCK], float("inf"), tl.float32)
        next3 = tl.full([BLOCK], float("inf"), tl.float32)
        last1 = tl.full([BLOCK], float("-inf"), tl.float32)
        last2 = tl.full([BLOCK], float("-inf"), tl.float32)
        last3 = tl.full([BLOCK], float("-inf"), tl.float32)
        for start in range(0, vocab, BLOCK):
            ids = start + tl.arange(0, BLOCK)
            x = tl.load(source + ids, mask=ids < vocab, other=float("-inf")).to(tl.float32)
            weight = tl.exp((x - top) * inverse) if BY_MASS else tl.full([BLOCK], 1.0, tl.float32)
            amount1 += tl.where(x >= pivot1, weight, 0.0)
            amount2 += tl.where(x >= pivot2, weight, 0.0)
            amount3 += tl.where(x >= pivot3, weight, 0.0)
            next1 = tl.minimum(next1, tl.where(x >= pivot1, x, float("inf")))
            next2 = tl.minimum(next2, tl.where(x >= pivot2, x, float("inf")))
            next3 = tl.minimum(next3, tl.where(x >= pivot3, x, float("inf")))
            last1 = tl.maximum(last1, tl.where(x < pivot1, x, float("-inf")))
            last2 = tl.maximum(last2, tl.where(x < pivot2, x, float("-inf")))
            last3 = tl.maximum(last3, tl.where(x < pivot3, x, float("-inf")))
        sum1, sum2, sum3 = tl.sum(amount1, axis=0), tl.sum(amount2, axis=0), tl.sum(amount3, axis=0)
        enough1 = (sum1 >= wanted) | (pivot1 <= low)
        enough2 = (sum2 >= wanted) | (pivot2 <= low)
        enough3 = sum3 >= wanted
        low, high, beyond = (
            tl.where(
                enough3,
                tl.min(next3, axis=0),
                tl.where(enough2, tl.min(next2, axis=0), tl.where(enough1, tl.min(next1, axis=0), low)),
            ),
            tl.where(
                enough3,
                high,
                tl.where(
                    enough2, tl.max(last3, axis=0), tl.where(enough1, tl.max(last2, axis=0), tl.max(last1, axis=0))
                ),
            ),
            tl.where(enough3, beyond, tl.where(enough2, sum3, tl.where(enough1, sum2, sum1))),
        )
    return low, beyond


@triton.jit
def _nth_tie(source, vocab, threshold, nth, BLOCK: tl.constexpr):
    """The id of the ``nth`` logit that equals ``threshold``; ``vocab`` where there are fewer."""
    found = vocab
    seen = 0
    for start in range(0, vocab, BLOCK):
        ids = start + tl.arange(0, BLOCK)
        x = tl.load(source + ids, mask=ids < vocab, other=float("-inf")).to(tl.float32)
        tie = (x == threshold).to(tl.int32)
        place = seen + tl.cumsum(tie, axis=0)
        found = tl.minimum(found, tl.min(tl.where((tie == 1) & (place == nth), ids, vocab), axis=0))
        seen += tl.sum(tie, axis=0)
    return found


def find_limits(logits: Tensor, parameters: SamplingParameters) -> Limits:
    """What each row of ``logits [R, vocab]`` (fp32, fp16 or bf16, rows apart by any stride) may draw."""
    rows, vocab = logits.shape
    chunks = triton.cdiv(vocab, CHUNK)
    maxima = logits.new_empty(rows, chunks, dtype=torch.float32)
    largest, thresholds = logits.new_empty(2, rows, dtype=torch.float32)
    last_ties = logits.new_empty(rows, dtype=torch.int32)
    if rows:
        chunk_maxima_kernel[(rows, chunks)](logits, maxima, vocab, logits.stride(0), chunks, CHUNK=_width(vocab, CHUNK))
        limits_kernel[(rows,)](
            logits,
            maxima,
            parameters.temperatures,
            parameters.top_ks,
            parameters.top_ps,
            parameters.min_ps,
            largest,
            thresholds,
            last_ties,
            vocab,
            logits.stride(0),
            chunks,
            CHUNKS=triton.next_power_of_2(chunks),
            BLOCK=_width(vocab, _BLOCK),
            num_warps=_WARPS,
        )
    return Limits(largest, thresholds, last_ties)


def kept_reference(logits: Tensor, parameters: SamplingParameters) -> Tensor:
    """bool ``[R, vocab]``: what ``find_limits`` leaves, in PyTorch by sorting."""
    ordered, ids = logits.float().sort(dim=-1, descending=True, stable=True)
    temperatures = parameters.temperatures.clamp_min(LEAST_TEMPERATURE).unsqueeze(1)
    weights = torch.exp((ordered - ordered[:, :1]).double() / temperatures)
    top_k = torch.where(parameters.top_ks > 0, parameters.top_ks, logits.shape[1]).unsqueeze(1)
    weights[torch.arange(logits.shape[1], device=logits.device) >= top_k] = 0
    cumulative = weights.cumsum(dim=-1)
    top_p = parameters.top_ps.double().unsqueeze(1)
    kept = (weights > 0) & ((cumulative - weights < top_p * cumulative[:, -1:]) | (top_p >= 1))
    kept &= weights >= parameters.min_ps.unsqueeze(1)
    kept[:, 0] = True
    return torch.zeros_like(kept).scatter_(1, ids, kept)


def _width(vocab: int, most: int) -> int:
    whole: int = triton.next_power_of_2(vocab)
    return min(most, whole)


def configurations() -> tuple[Configuration, ...]:
    """Llama 3's vocabulary, 32 chunks of fp32 logits."""
    sizes = {"vocab": "i32", "stride": "i32", "chunks": "i32"}
    per_row = dict.fromkeys(("temperatures", "top_ps", "min_ps", "largest", "thresholds"), "*fp32")
    per_row |= {"top_ks": "*i32", "last_ties": "*i32"}
    constants: dict[str, Any] = {"CHUNKS": 32, "BLOCK": _BLOCK}
    aligned = ("vocab", "stride")
    logits = {"logits": "*fp32", "maxima": "*fp32"}
    return (
        Configuration("chunk_maxima", chunk_maxima_kernel, logits | sizes, {"CHUNK": CHUNK}, aligned),
        Configuration("sampling_limits", limits_kernel, logits | per_row | sizes, constants, aligned, num_warps=_WARPS),
    )
