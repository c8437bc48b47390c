"""Temperature, top_k, top_p and min_p, in this order, and the draw from what they leave.

min_p comes last, as in transformers: it compares with the likeliest token, a ratio that no other filter changes, so
that top_p keeps its meaning of a share of the distribution that top_k left. Equal logits are kept from the lowest id
on, so top_k 1 is greedy. A filter looks at the largest ``CANDIDATES`` logits, and at the whole vocabulary only where
those do not reach ``top_p``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpuruntime.backend import SamplingParams
from gpuruntime.sampling.largest import Floats, Ids, largest, sort_keys
from gpuruntime.sampling.row import SampleRow

CANDIDATES = 256
CHUNK = 64
LEAST_TEMPERATURE = 1e-5

Doubles = NDArray[np.float64]


def filters(params: SamplingParams, vocab: int) -> bool:
    """Whether top_k or top_p is on; min_p alone needs no candidates."""
    return 0 < params.top_k < vocab or params.top_p < 1


def draw(logits: Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """One token a row of fp32 ``logits [R, vocab]``, under temperature and min_p."""
    weights = _weights(logits, rows)
    for line, row in zip(weights.numpy(), rows, strict=True):
        if row.params.min_p > 0:
            line[line < np.float32(row.params.min_p) * line.max()] = 0
    return _invert(weights, rows)


def draw_filtered(logits: Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """One token a row of fp32 ``logits [R, vocab]``, under every filter."""
    vocab = logits.shape[1]
    result = [0] * len(rows)
    undecided = []
    # A row's number of candidates is its own affair, so that its bits are too.
    counts = [_candidates(row.params, vocab) for row in rows]
    for count in set(counts):
        members = [index for index, own in enumerate(counts) if own == count]
        tokens, decided = _draw_candidates(take(logits, members), [rows[index] for index in members], count)
        for index, token, done in zip(members, tokens, decided, strict=True):
            result[index] = token
            if not done:
                undecided.append(index)
    for index in undecided:
        result[index] = _draw_wide(logits[index : index + 1], rows[index])
    return result


def take(logits: Tensor, members: Sequence[int]) -> Tensor:
    """The rows of ``members``, ascending; ``logits`` itself where that is all of them."""
    return logits if len(members) == len(logits) else logits.index_select(0, torch.tensor(members))


def _candidates(params: SamplingParams, vocab: int) -> int:
    return max(params.top_k, CANDIDATES) if params.top_k < vocab else CANDIDATES


def _draw_candidates(logits: Tensor, rows: Sequence[SampleRow], count: int) -> tuple[list[int], list[bool]]:
    """The picks, and whether the candidates held all that the filters keep."""
    vocab = logits.shape[1]
    values, ids = largest(logits.numpy(), count)
    limits = np.array([row.params.top_k if 0 < row.params.top_k < vocab else vocab for row in rows])
    temperatures = np.array([max(row.params.temperature, LEAST_TEMPERATURE) for row in rows])
    scores = (values.astype(np.float64) - values[:, :1]) / temperatures[:, None]
    weights = np.exp(scores)
    weights[np.arange(values.shape[1]) >= limits[:, None]] = 0
    cumulative = weights.cumsum(axis=1)
    totals = cumulative[:, -1].copy()
    unlimited = np.flatnonzero(limits > values.shape[1]).tolist()
    if unlimited:
        whole = _weights(take(logits, unlimited), [rows[index] for index in unlimited]).numpy()
        # The largest logit weighs exp(0) here, so its share is the inverse of the sum over the vocabulary.
        totals[unlimited] = 1 / whole[np.arange(len(unlimited)), ids[unlimited, 0]].astype(np.float64)
    wanted = np.array([row.params.top_p for row in rows]) * totals
    kept = cumulative - weights < wanted[:, None]
    kept &= weights >= np.array([row.params.min_p for row in rows])[:, None]
    kept[:, 0] = True
    decided = (limits <= values.shape[1]) | (cumulative[:, -1] >= wanted)
    weights[~kept] = 0
    places, _ = _locate(weights, np.array([row.uniform for row in rows]) * weights.cumsum(axis=1)[:, -1])
    tokens: list[int] = ids[np.arange(len(rows)), places].tolist()
    return tokens, decided.tolist()


def _draw_wide(logits: Tensor, row: SampleRow) -> int:
    """One row ``[1, vocab]`` whose top_p takes more than the candidates."""
    weights = _weights(logits, [row])
    line = weights.numpy()[0]
    threshold = np.float32(row.params.min_p) * line.max()
    kept = _smallest_set(line, row.params.top_p)
    line[~kept | (line < threshold)] = 0
    return _invert(weights, [row])[0]


def _weights(logits: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """Softmax under each row's temperature, shifted to a maximum of 0 first so that a tiny one cannot overflow."""
    if all(row.params.temperature == 1 for row in rows):
        return logits.softmax(dim=-1)
    temperatures = torch.tensor([max(row.params.temperature, LEAST_TEMPERATURE) for row in rows])
    scores = (logits - logits.amax(dim=-1, keepdim=True)).div_(temperatures.unsqueeze(1))
    return scores.softmax(dim=-1)


def _smallest_set(weights: Floats, share: float) -> NDArray[np.bool_]:
    """The fewest of ``weights [vocab]`` that sum to ``share`` of them all, the lowest ids among equals.

    Bisection over fp32 bit patterns, which order like positive floats; only the weights between the bounds are looked
    at again, and once few are left they are sorted. Those too small to matter together never take part.
    """
    total = weights.sum(dtype=np.float64)
    patterns = weights.view(np.int32)
    negligible = np.array(0.5 * (1 - share) * total / len(weights), dtype=np.float32)
    low, high = int(negligible.view(np.int32)), int(patterns.max()) + 1
    active = patterns[patterns >= low]
    above = 0.0
    while len(active) > CANDIDATES and high - low > 1:
        middle = (low + high) // 2
        upper = active >= middle
        mass = float(active[upper].view(np.float32).sum(dtype=np.float64))
        if above + mass >= share * total:
            low, active = middle, active[upper]
        else:
            high, above, active = middle, above + mass, active[~upper]
    ids = np.flatnonzero((patterns >= low) & (patterns < high))
    keys = sort_keys(weights[ids], ids)
    order = ids[keys.argsort()]
    before = above + weights[order].cumsum(dtype=np.float64) - weights[order]
    kept = patterns >= high
    kept[order[before < share * total]] = True
    return kept


def _invert(weights: Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """The id at which each row's running sum of fp32 ``weights [R, vocab]`` passes its uniform number's share of it.

    Sums of chunks find the chunk, and a running sum the place in it.
    """
    num_rows, width = weights.shape
    whole = width // CHUNK
    sums = torch.zeros(num_rows, -(-width // CHUNK))
    sums[:, :whole] = weights[:, : whole * CHUNK].view(num_rows, whole, CHUNK).sum(dim=-1)
    if whole * CHUNK < width:
        sums[:, whole] = weights[:, whole * CHUNK :].sum(dim=-1)
    totals = sums.numpy().astype(np.float64)
    points = np.array([row.uniform for row in rows]) * totals.cumsum(axis=1)[:, -1]
    chunks, points = _locate(totals, points)
    ids = chunks[:, None] * CHUNK + np.arange(CHUNK)
    inside = weights.numpy()[np.arange(num_rows)[:, None], np.minimum(ids, width - 1)].astype(np.float64)
    inside[ids >= width] = 0
    places, _ = _locate(inside, points)
    result: list[int] = (chunks * CHUNK + places).tolist()
    return result


def _locate(weights: Doubles, points: Doubles) -> tuple[Ids, Doubles]:
    """The first place of each row whose running sum exceeds the row's point, and how far the point lies in it.

    Rounding may leave a point at or beyond the sum of all; it then falls to the last place of any weight. A place of
    weight 0 is never answered.
    """
    cumulative = weights.cumsum(axis=1)
    last = weights.shape[1] - 1 - (weights[:, ::-1] > 0).argmax(axis=1)
    places = np.minimum((cumulative <= points[:, None]).sum(axis=1), last)
    rows = np.arange(len(weights))
    before = np.where(places > 0, cumulative[rows, places - 1], 0)
    return places, points - before
