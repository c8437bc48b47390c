"""Picks the next token of every row of a batch.

A row's pick depends only on its logits, its parameters and one uniform number made from its seed and position, so
the same seed gives the same text whatever else is in the batch. Greedy rows take a maximum and never sort; filtered
rows look at the largest ``CANDIDATES`` logits, and at the whole vocabulary only where those do not decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpuruntime.backend import SamplingParams

CANDIDATES = 256


@dataclass(frozen=True, slots=True)
class SampleRow:
    """How one row is sampled; ``uniform`` is in [0, 1)."""

    params: SamplingParams
    uniform: float


def uniform(seed: int, index: int) -> float:
    """The number in [0, 1) for output token ``index`` of a request: counter-based, so it needs no state."""
    digest = hashlib.blake2b(seed.to_bytes(8, "little") + index.to_bytes(8, "little"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


def sample(logits: Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """Token ids for fp32 ``logits [R, vocab]``. Raises ``FloatingPointError`` on logits that are not finite."""
    best, picks = logits.max(dim=-1)
    if not bool(torch.isfinite(best).all()):
        raise FloatingPointError("the model produced logits that are not finite")
    random = [index for index, row in enumerate(rows) if row.params.temperature > 0]
    plain = [index for index in random if rows[index].params.top_k == 0 and rows[index].params.top_p >= 1]
    filtered = [index for index in random if rows[index].params.top_k > 0 or rows[index].params.top_p < 1]
    if plain:
        chosen = [rows[index] for index in plain]
        picks[plain] = _pick(_scaled(logits[plain], chosen).softmax(dim=-1), chosen)
    if filtered:
        chosen = [rows[index] for index in filtered]
        picks[filtered] = _sample_filtered(_scaled(logits[filtered], chosen), chosen)
    result: list[int] = picks.tolist()
    return result


def _scaled(logits: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """Shifted to a maximum of 0 before the division, so that a tiny temperature cannot overflow."""
    temperatures = torch.tensor([row.params.temperature for row in rows]).clamp_min(1e-5)
    return (logits - logits.amax(dim=-1, keepdim=True)) / temperatures.unsqueeze(1)


def _pick(weights: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """Inverse of the cumulative distribution at each row's uniform number, in double precision."""
    cumulative = weights.double().cumsum(dim=-1)
    points = torch.tensor([row.uniform for row in rows], dtype=torch.float64).unsqueeze(1) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, points, right=True).squeeze(1).clamp_max(weights.shape[1] - 1)


def _sample_filtered(scores: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """top_k first, then top_p of what is left, as transformers does: the smallest set that reaches ``top_p``."""
    values, ids = scores.topk(min(CANDIDATES, scores.shape[1]), dim=-1)
    top_k = torch.tensor([row.params.top_k for row in rows]).unsqueeze(1)
    top_p = torch.tensor([row.params.top_p for row in rows], dtype=torch.float64).unsqueeze(1)
    beyond = (top_k > 0) & (torch.arange(values.shape[1]) >= top_k)
    kept = values.masked_fill(beyond, float("-inf"))
    total = torch.where(top_k > 0, kept.logsumexp(-1, keepdim=True), scores.logsumexp(-1, keepdim=True))
    weights = (kept - total).double().exp()
    before = weights.cumsum(dim=-1) - weights
    picks = ids.gather(1, _pick(weights.masked_fill(before >= top_p, 0.0), rows).unsqueeze(1)).squeeze(1)
    reached = before[:, -1] + weights[:, -1] >= top_p.squeeze(1)
    decided = torch.where(top_k.squeeze(1) > 0, top_k.squeeze(1) <= values.shape[1], reached)
    for index in torch.nonzero(~decided).flatten().tolist():
        picks[index] = _sample_wide(scores[index], rows[index])
    return picks


def _sample_wide(scores: Tensor, row: SampleRow) -> int:
    """One row over the whole vocabulary by thresholds; tokens tied at the threshold are all kept."""
    if 0 < row.params.top_k < scores.shape[0]:
        scores = scores.masked_fill(scores < scores.topk(row.params.top_k).values[-1], float("-inf"))
    weights = scores.softmax(dim=-1)
    if row.params.top_p < 1:
        weights = weights.masked_fill(weights < _mass_threshold(weights, row.params.top_p), 0.0)
    return int(_pick(weights.unsqueeze(0), [row]).item())


def _mass_threshold(weights: Tensor, top_p: float) -> Tensor:
    """The largest weight such that those at or above it sum to ``top_p``: bisection over fp32 bit patterns.

    Patterns of positive floats order like the floats, so 31 halvings are exact and nothing is sorted.
    """
    patterns = weights.view(torch.int32)
    low, high = 0, int(patterns.max().item())
    while low < high:
        middle = (low + high + 1) // 2
        if float(weights[patterns >= middle].sum(dtype=torch.float64)) >= top_p:
            low = middle
        else:
            high = middle - 1
    return torch.tensor(low, dtype=torch.int32).view(torch.float32)
