"""What one forward pass reads: flat tokens, and how each layer attends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from gpuruntime.kernels.backend import Attend


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """One mixed batch of decodes and prefill chunks, ``T`` tokens of which ``R`` rows are sampled.

    token_ids: int32 or int64 ``[T]``. sample_rows: likewise ``[R]``, the rows whose logits are wanted. attention: one
    for each layer; it knows the tokens' positions and where their K and V go.
    """

    token_ids: Tensor
    sample_rows: Tensor
    attention: Sequence[Attend]
