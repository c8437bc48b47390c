"""Picks the next token of every row of a batch.

The order is that of vLLM and OpenAI: log probabilities are of the untouched logits; then come bias, penalties and
bans (``penalties``), then the largest or temperature, top_k, top_p and min_p (``filters``), then one draw.

A row's pick depends on its logits, its parameters and its uniform number alone, in every bit, so the same seed gives
the same text whatever else is in the batch. What runs over the batch is therefore either exact (comparisons, one
subtraction, one division) or goes over each row by itself (softmax, running sums).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from gpuruntime.sampling.filters import draw, draw_limited, limits, take
from gpuruntime.sampling.logprobs import require_finite, token_logprobs
from gpuruntime.sampling.penalties import adjust, adjusts
from gpuruntime.sampling.row import Picked, SampleRow


def uniform(seed: int, index: int) -> float:
    """The number in [0, 1) for output token ``index`` of a request: counter-based, so it needs no state."""
    digest = hashlib.blake2b(seed.to_bytes(8, "little") + index.to_bytes(8, "little"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


def sample(logits: Tensor, rows: Sequence[SampleRow]) -> list[Picked]:
    """One pick for each row of fp32 ``logits [R, vocab]`` on the CPU, which are left as they are.

    Raises ``FloatingPointError`` on logits that are not finite.
    """
    logits = logits.contiguous()
    require_finite(logits)
    tokens = [0] * len(rows)
    greedy = [index for index, row in enumerate(rows) if row.params.temperature == 0]
    random = [index for index, row in enumerate(rows) if row.params.temperature > 0]
    whole = [index for index in random if not limits(rows[index].params, logits.shape[1])]
    limited = [index for index in random if limits(rows[index].params, logits.shape[1])]
    for members, pick in ((greedy, _largest), (whole, draw), (limited, draw_limited)):
        if members:
            chosen = [rows[index] for index in members]
            for index, token in zip(members, pick(_adjusted(logits, members, chosen), chosen), strict=True):
                tokens[index] = token
    picked = [Picked(token) for token in tokens]
    asked = [(index, row.params.logprobs) for index, row in enumerate(rows) if row.params.logprobs is not None]
    if asked:
        members = [index for index, _ in asked]
        found = token_logprobs(take(logits, members), [tokens[index] for index in members], [n for _, n in asked])
        for index, logprob in zip(members, found, strict=True):
            picked[index] = Picked(tokens[index], logprob)
    return picked


def _adjusted(logits: Tensor, members: list[int], rows: Sequence[SampleRow]) -> Tensor:
    """The rows of ``members`` after bias, penalties and bans; ``logits`` itself where nothing has to change."""
    if not any(adjusts(row) for row in rows):
        return take(logits, members)
    taken = logits.index_select(0, torch.tensor(members))
    adjust(taken.numpy(), rows)
    return taken


def _largest(logits: Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """The lowest id among equals."""
    result: list[int] = logits.numpy().argmax(axis=1).tolist()
    return result
