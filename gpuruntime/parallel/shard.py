"""How a model is dealt out to the ranks of tensor parallelism (Shoeybi et al., Megatron-LM, arXiv:1909.08053).

    by rows (columns in Megatron's transposed notation)      by columns
    q, k, v: whole heads                                     o_proj: the columns of the rank's heads
    gate, up: of every expert too                            down_proj: the columns of the rank's gate and up
    head: of the vocabulary, also where it is tied           -

What is dealt out by columns gives partial sums, which the ranks add up: twice a layer. The embedding, the norms and the
router are whole on every rank, so that all have the same stream. Where there are fewer K and V heads than ranks,
neighbours hold the same one, the one that their queries read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuruntime.models.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank of ``size``."""

    rank: int = 0
    size: int = 1

    def part(self, count: int, *, copies: int = 1) -> slice:
        """What this rank holds of ``count``: equal parts in order of rank, one shared by every ``copies`` neighbours.

        Where the number of parts does not divide ``count``, they differ by one.
        """
        parts, index = self.size // copies, self.rank // copies
        return slice(index * count // parts, (index + 1) * count // parts)

    def kv_copies(self, kv_heads: int) -> int:
        """How many neighbours hold the same K and V head."""
        return max(1, self.size // kv_heads)


def rank_config(config: ModelConfig, size: int) -> ModelConfig:
    """The model as the attention of one of ``size`` ranks sees it: with its own heads.

    Raises one ``ValueError`` that names every size of the model that cannot be dealt out.
    """
    heads, kv_heads, experts = config.num_heads, config.num_kv_heads, config.experts
    dense = experts is None or not all(experts.layers)
    checks = (
        (heads % size == 0, f"num_attention_heads {heads} is no multiple of it"),
        (
            kv_heads % size == 0 or size % kv_heads == 0,
            f"num_key_value_heads {kv_heads} is neither a multiple nor a divisor of it",
        ),
        (
            not dense or config.intermediate_size % size == 0,
            f"intermediate_size {config.intermediate_size} is no multiple of it",
        ),
        (
            experts is None or experts.intermediate_size % size == 0,
            f"moe_intermediate_size {experts.intermediate_size if experts else 0} is no multiple of it",
        ),
        (config.vocab_size >= size, f"vocab_size {config.vocab_size} is smaller"),
    )
    if errors := [message for holds, message in checks if not holds]:
        raise ValueError(f"tensor_parallel {size}: {'; '.join(errors)}")
    return replace(config, num_heads=heads // size, num_kv_heads=max(1, kv_heads // size))
