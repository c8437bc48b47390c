"""Embedding, layers and head: what every family shares around its own layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding

from gpuruntime.kernels.kv_memory import LayerKv
from gpuruntime.kernels.linear import Head
from gpuruntime.kernels.sink_attention import cache_positions
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.batch import ForwardBatch
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.layers import Layer, LayerInputs, RmsNorm
from gpuruntime.models.rope import RotaryTable


class Decoder:
    """A decoder-only model for contexts of up to ``max_len`` tokens. ``nbytes``: what its weights hold in memory."""

    def __init__(self, config: ModelConfig, weights: WeightSource, max_len: int, layers: Sequence[Layer]) -> None:
        shape = (config.vocab_size, config.hidden_size)
        self._embedding = weights.get("model.embed_tokens.weight", shape)
        # Gemma was trained with its scale rounded to the type of its weights.
        self._scale = float(torch.tensor(config.embedding_scale, dtype=weights.dtype))
        self._norm = RmsNorm(config, weights, "model.norm")
        tied = config.tied_head or not weights.has("lm_head.weight")
        head = self._embedding if tied else weights.get("lm_head.weight", shape)
        self._head = Head(head, int8=weights.int8)
        self._layers = layers
        self._ropes = config.layer_ropes
        self._tables = {rope: RotaryTable(rope, config.head_dim, max_len) for rope in set(config.layer_ropes)}
        # An int8 head keeps only its own rows.
        tables = self._embedding.nbytes + (0 if tied or weights.int8 else head.nbytes)
        self.nbytes = tables + self._head.nbytes + sum(layer.nbytes for layer in layers)

    def forward(self, batch: ForwardBatch, kv: Sequence[LayerKv]) -> Tensor:
        """Runs one batch over every layer's ``kv``; fp32 logits ``[R, vocab]``."""
        x = embedding(batch.token_ids, self._embedding).float() * self._scale
        inputs = self._layer_inputs(batch)
        for layer, layer_kv, layer_inputs in zip(self._layers, kv, inputs, strict=True):
            layer.forward(x, layer_kv, layer_inputs)
        return self._head(self._norm(x.index_select(0, batch.sample_rows)))

    def _layer_inputs(self, batch: ForwardBatch) -> list[LayerInputs]:
        made = {}
        keys = list(zip(self._ropes, batch.attention, strict=True))
        for rope, plan in keys:
            if (rope, plan.view) not in made:
                table = self._tables[rope]
                toward_sinks = table.at(cache_positions(plan.view, batch.positions)) if plan.view.sinks else None
                made[rope, plan.view] = LayerInputs(table.at(batch.positions), batch.slots, plan, toward_sinks)
        return [made[rope, plan.view] for rope, plan in keys]
