"""What the sampler is told of one row, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gpuruntime.backend import SamplingParams, TokenLogprob


class Picking(IntEnum):
    """What it takes to pick a request's next token, the least first.

    The largest of the untouched logits, a draw from them, or the host's sampler, which reads logits and text.
    """

    LARGEST = 0
    DRAW = 1
    READ = 2


TokenIds = Sequence[int] | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SampleRow:
    """How one row is sampled; ``uniform`` is in [0, 1).

    ``prompt`` and ``output`` (the tokens generated before this position, drafts included) matter only where
    ``penalizes`` says so; an array is taken as it is, so a long prompt is best converted once. ``banned``: ids that
    cannot be picked now, such as the end of the text before ``min_tokens``. Every id is in the vocabulary. ``allowed``:
    ``[vocab]``, what a grammar lets come next; where the bans leave nothing of it, it wins.
    """

    params: SamplingParams
    uniform: float
    prompt: TokenIds = ()
    output: TokenIds = ()
    banned: tuple[int, ...] = ()
    allowed: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Picked:
    """One row's next token; ``logprob`` where it was asked for."""

    token: int
    logprob: TokenLogprob | None = None


def penalizes(params: SamplingParams) -> bool:
    """Whether ``prompt`` and ``output`` change what is picked."""
    return params.repetition_penalty != 1 or params.presence_penalty != 0 or params.frequency_penalty != 0


def picking(params: SamplingParams) -> Picking:
    """What the parameters ask for; where ids are banned or the prompt is scored the host reads logits besides."""
    if params.logprobs is not None or params.logit_bias or params.grammar is not None or penalizes(params):
        return Picking.READ
    return Picking.LARGEST if params.temperature == 0 else Picking.DRAW
