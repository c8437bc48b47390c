"""The k largest values of every row in one total order: value descending, then the lowest id.

Every comparison is of integers that are unique within a row, so a row's answer cannot depend on its neighbours, nor on
how the selection happens to visit equal values. Nothing sorts the vocabulary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

FOLD = 16


def largest(values: Floats, count: int) -> tuple[Floats, Ids]:
    """The ``count`` largest of each row of fp32 ``[R, vocab]`` without NaN: values and ids ``[R, min(count, vocab)]``.

    The row is folded into groups of ``FOLD``, whose maxima are cheap to take. ``count`` of them reach the ``count``-th
    largest maximum, so at least ``count`` values do, and only those are sorted.
    """
    num_rows, width = values.shape
    count = min(count, width)
    columns = -(-width // FOLD)
    if columns <= count:
        keys = sort_keys(values, np.broadcast_to(np.arange(width), values.shape))
        keys.partition(count - 1, axis=1)
        keys = keys[:, :count].copy()
        keys.sort(axis=1)
        return _decode(keys)
    maxima = values[:, : columns * (width // columns)].reshape(num_rows, -1, columns).max(axis=1)
    rest = values[:, columns * (width // columns) :]
    np.maximum(maxima[:, : rest.shape[1]], rest, out=maxima[:, : rest.shape[1]])
    thresholds = np.partition(maxima, columns - count, axis=1)[:, columns - count]
    return _decode(_sorted_hits(values, maxima, thresholds)[:, :count])


def sort_keys(values: Floats, ids: Ids) -> Ids:
    """int64 keys whose ascending order is that of this file; ids are below 2**32. Both zeros are one value."""
    patterns = (values + np.float32(0)).view(np.int32)
    ascending = patterns ^ ((patterns >> 31) & 0x7FFFFFFF)
    keys: Ids = (~ascending).astype(np.int64) << 32 | ids
    return keys


def _sorted_hits(values: Floats, maxima: Floats, thresholds: Floats) -> Ids:
    """Sorted keys of the values that reach their row's threshold, padded at the end."""
    num_rows, width = values.shape
    rows, groups = np.nonzero(maxima >= thresholds[:, None])
    ids = groups[:, None] + maxima.shape[1] * np.arange(-(-width // maxima.shape[1]))
    found = values[rows[:, None], np.minimum(ids, width - 1)]
    hit = (found >= thresholds[rows, None]) & (ids < width)
    counts = np.bincount(rows, weights=hit.sum(axis=1), minlength=num_rows).astype(np.int64)
    padded = np.full((num_rows, counts.max()), np.iinfo(np.int64).max)
    padded[np.arange(padded.shape[1]) < counts[:, None]] = sort_keys(found[hit], ids[hit])
    padded.sort(axis=1)
    return padded


def _decode(keys: Ids) -> tuple[Floats, Ids]:
    ascending = (~(keys >> 32)).astype(np.int32)
    patterns = ascending ^ ((ascending >> 31) & 0x7FFFFFFF)
    return patterns.view(np.float32), keys & 0xFFFFFFFF
