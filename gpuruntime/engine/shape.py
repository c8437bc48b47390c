"""What a model's steps cost at least, from its configuration."""

from __future__ import annotations

from gpuruntime.models.config import ModelConfig
from gpuruntime.roofline import ModelShape


def model_shape(config: ModelConfig, element_bytes: int, kv_bytes_per_token: int | None = None) -> ModelShape:
    """The roofline's view: products only, the head included, the embedding lookup not.

    Of a mixture the experts that one token asks count as work, all of them as weights. K and V without their own
    ``kv_bytes_per_token`` are of ``element_bytes`` too.
    """
    attention = config.hidden_size * (2 * config.q_size + 2 * config.kv_size)
    dense = 3 * config.hidden_size * config.intermediate_size
    head = config.vocab_size * config.hidden_size
    worked = stored = head + config.num_layers * attention
    experts = config.experts
    for sparse in experts.layers if experts else (False,) * config.num_layers:
        if experts is None or not sparse:
            worked, stored = worked + dense, stored + dense
            continue
        router, expert = config.hidden_size * experts.count, 3 * config.hidden_size * experts.intermediate_size
        worked += router + experts.per_token * expert
        stored += router + experts.count * expert
    return ModelShape(
        parameters=worked,
        weight_bytes=stored * element_bytes,
        kv_bytes_per_token=kv_bytes_per_token or config.kv_bytes_per_token(element_bytes),
        attention_flops=4 * config.num_layers * config.num_heads * config.head_dim,
    )
