"""What one forward pass reads: flat tokens, their positions, and where their K and V live."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gpuruntime.kernels.paged_attention import AttentionPlan


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """One mixed batch of decodes and prefill chunks, ``T`` tokens of which ``R`` rows are sampled.

    token_ids, positions, slots: int64 ``[T]``; a slot is ``block * block_size + offset`` in the KV pool.
    sample_rows: int64 ``[R]``, the rows whose logits are wanted.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    sample_rows: Tensor
    attention: AttentionPlan
