"""Log probabilities of tokens under the model's own distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gpuruntime.backend import TokenLogprob
from gpuruntime.sampling.largest import largest

LEAST = -9999.0
"""What leaves instead of anything smaller, as OpenAI's API has it."""

ROWS_AT_ONCE = 64


def prompt_logprobs(logits: Tensor, targets: Sequence[int], count: int) -> list[TokenLogprob]:
    """Of fp32 ``logits [T, vocab]``, each at the position before one of the ``T`` targets; ``count`` alternatives each.

    Raises ``FloatingPointError`` on logits that are not finite.
    """
    result: list[TokenLogprob] = []
    for begin in range(0, len(targets), ROWS_AT_ONCE):
        part = logits[begin : begin + ROWS_AT_ONCE]
        require_finite(part)
        result += token_logprobs(part, targets[begin : begin + ROWS_AT_ONCE], [count] * len(part))
    return result


def token_logprobs(logits: Tensor, tokens: Sequence[int], counts: Sequence[int]) -> list[TokenLogprob]:
    """Natural logarithms at temperature 1, of finite fp32 ``logits [R, vocab]``: each row's token and likeliest ids.

    Softmax goes over each row alone, so its largest weight is the inverse of the row's sum whatever the batch is.
    """
    width = max(counts, default=0)
    values, ids = largest(logits.numpy(), max(width, 1))
    weights = logits.softmax(dim=-1).numpy()
    rows = np.arange(len(tokens))
    norms = values[:, 0].astype(np.float64) - np.log(weights[rows, ids[:, 0]].astype(np.float64))
    chosen = np.maximum(logits.numpy()[rows, list(tokens)] - norms, LEAST).tolist()
    best = np.maximum(values - norms[:, None], LEAST).tolist()
    best_ids = ids.tolist()
    return [
        TokenLogprob(token, chosen[row], tuple(zip(best_ids[row][:count], best[row][:count], strict=True)))
        for row, (token, count) in enumerate(zip(tokens, counts, strict=True))
    ]


def require_finite(logits: Tensor) -> None:
    """Raises ``FloatingPointError`` unless all is finite; a row's sum shows it at a quarter of the cost of looking."""
    if not bool(torch.isfinite(logits.sum(dim=-1)).all()) and not bool(torch.isfinite(logits).all()):
        raise FloatingPointError("the model produced logits that are not finite")
