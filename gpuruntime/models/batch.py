"""What one forward pass reads: flat tokens, their positions, and where their K and V live."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gpuruntime.kernels.paged_attention import AttentionPlan


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """One mixed batch of decodes and prefill chunks, ``T`` tokens of which ``R`` rows are sampled.

    token_ids, positions, slots: int64 ``[T]``; a slot is ``block * block_size + offset`` in the KV memory.
    sample_rows: int64 ``[R]``, the rows whose logits are wanted.
    attention: who sees whom, one plan for each layer; layers with the same view share theirs.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    sample_rows: Tensor
    attention: tuple[AttentionPlan, ...]
