"""Temperature, top_k, top_p and min_p, in this order, and the draw from what they leave.

min_p comes last, as in transformers: it compares with the likeliest token, a ratio that no other filter changes, so
that top_p keeps its meaning of a share of the distribution that top_k left. Among equal logits the lowest ids are kept,
so top_k 1 is greedy. Nothing sorts the vocabulary: top_k sorts its candidates, top_p selects a threshold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpuruntime.backend import SamplingParams
from gpuruntime.sampling.largest import Floats, Ids, largest
from gpuruntime.sampling.row import SampleRow

CANDIDATES = 64
CHUNK = 64
LEAST_TEMPERATURE = 1e-5

Doubles = NDArray[np.float64]


def limits(params: SamplingParams, vocab: int) -> bool:
    """Whether top_k leaves out anything; only then are there few candidates."""
    return 0 < params.top_k < vocab


def draw(logits: Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """One token a row of fp32 ``logits [R, vocab]``, under temperature, top_p and min_p."""
    weights = _weights(logits, rows)
    for line, row in zip(weights.numpy(), rows, strict=True):
        _drop(line, row.params)
    return _invert(weights, rows)


def _drop(weights: Floats, params: SamplingParams) -> None:
    """Sets the weights that top_p and min_p leave out to 0."""
    least = np.float32(params.min_p) * weights.max() if params.min_p > 0 else 0
    if params.top_p < 1:
        weights *= smallest_set(weights, params.top_p)
    if params.min_p > 0:
        weights *= weights >= least


def draw_limited(logits: Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """One token a row of fp32 ``logits [R, vocab]``, where every row has a top_k below ``vocab``."""
    result = [0] * len(rows)
    # A row's number of candidates is its own affair, so that its bits are too.
    counts = [max(row.params.top_k, CANDIDATES) for row in rows]
    for count in set(counts):
        members = [index for index, own in enumerate(counts) if own == count]
        tokens = _draw_candidates(take(logits, members), [rows[index] for index in members], count)
        for index, token in zip(members, tokens, strict=True):
            result[index] = token
    return result


def take(logits: Tensor, members: Sequence[int]) -> Tensor:
    """The rows of ``members``, ascending; ``logits`` itself where that is all of them."""
    return logits if len(members) == len(logits) else logits.index_select(0, torch.tensor(members))


def smallest_set(weights: Floats, share: float) -> NDArray[np.bool_]:
    """The fewest of ``weights [vocab]``, none negative, that sum to ``share`` of them all; among equals the lowest ids.

    Quickselect by mass: the upper part of what is undecided is summed, and either holds the border or lies above it.
    The cuts are steep, because most distributions are. Bit patterns of such floats order like the floats, and
    integers partition three times as fast.
    """
    wanted = share * float(weights.sum(dtype=np.float64))
    active = weights.view(np.int32).copy()
    above, num_above, part = 0.0, 0, 16
    while len(active) > CANDIDATES:
        cut = len(active) - len(active) // part
        active.partition(cut)
        mass = float(active[cut:].view(np.float32).sum(dtype=np.float64))
        if above + mass >= wanted:
            active = active[cut:]
        else:
            above, num_above, active = above + mass, num_above + len(active) - cut, active[:cut]
        part = 4
    active.sort()
    ordered = active[::-1].view(np.float32).astype(np.float64)
    num_kept = max(1, int((above + ordered.cumsum() - ordered < wanted).sum()))
    threshold = np.float32(ordered[num_kept - 1])
    kept = weights > threshold
    missing = num_above + num_kept - int(np.count_nonzero(kept))
    kept[np.flatnonzero(weights == threshold)[:missing]] = True
    return kept


def _draw_candidates(logits: Tensor, rows: Sequence[SampleRow], count: int) -> list[int]:
    """One token a row from its ``count`` largest logits, where no top_k is above ``count``."""
    values, ids = largest(logits.numpy(), count)
    temperatures = np.array([max(row.params.temperature, LEAST_TEMPERATURE) for row in rows])
    weights = np.exp((values.astype(np.float64) - values[:, :1]) / temperatures[:, None])
    weights[np.arange(values.shape[1]) >= np.array([[row.params.top_k] for row in rows])] = 0
    cumulative = weights.cumsum(axis=1)
    kept = cumulative - weights < np.array([[row.params.top_p] for row in rows]) * cumulative[:, -1:]
    kept &= weights >= np.array([[row.params.min_p] for row in rows])
    kept[:, 0] = True
    weights *= kept
    places, _ = _locate(weights, np.array([row.uniform for row in rows]) * weights.cumsum(axis=1)[:, -1])
    result: list[int] = ids[np.arange(len(rows)), places].tolist()
    return result


def _weights(logits: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """Softmax under each row's temperature, shifted to a maximum of 0 first so that a tiny one cannot overflow."""
    if all(row.params.temperature == 1 for row in rows):
        return logits.softmax(dim=-1)
    temperatures = torch.tensor([max(row.params.temperature, LEAST_TEMPERATURE) for row in rows])
    scores = (logits - logits.amax(dim=-1, keepdim=True)).div_(temperatures.unsqueeze(1))
    return torch.softmax(scores, dim=-1, out=scores)


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
