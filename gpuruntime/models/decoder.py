"""Embedding, layers and head: what every family shares around its own layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding

from gpuruntime.models.batch import ForwardBatch
from gpuruntime.models.layers import Build, Layer, RmsNorm


class Decoder:
    """A decoder-only model, or one rank of it. ``nbytes``: what its weights hold in memory."""

    def __init__(self, build: Build, layers: Sequence[Layer]) -> None:
        config, weights, backend = build.config, build.weights, build.backend
        shape = (config.vocab_size, config.hidden_size)
        self._embedding = weights.get("model.embed_tokens.weight", shape)
        # Gemma was trained with its scale rounded to the type of its weights.
        self._scale = float(torch.tensor(config.embedding_scale, dtype=weights.dtype))
        self._norm = RmsNorm(build, "model.norm", dtype=torch.float32)
        tied = config.tied_head or not weights.has("lm_head.weight")
        rows = build.group.shard.part(config.vocab_size)
        head = self._embedding[rows] if tied else weights.get("lm_head.weight", shape, rows)
        self._head = backend.head(head, tied=tied)
        self._concatenate, self._vocab_size = build.group.concatenate, config.vocab_size
        self._layers = layers
        self.nbytes = self._embedding.nbytes + self._head.nbytes + sum(layer.nbytes for layer in layers)

    def forward(self, batch: ForwardBatch) -> Tensor:
        """Runs one batch, which writes its K and V; fp32 logits ``[R, vocab]``."""
        return self._concatenate(self._head(self.states(batch)), self._vocab_size)

    def states(self, batch: ForwardBatch) -> Tensor:
        """As ``forward``, without the head: what it would read, ``[R, hidden]``."""
        stream = embedding(batch.token_ids, self._embedding).float() * self._scale
        delta = None
        for layer, attend in zip(self._layers, batch.attention, strict=True):
            delta = layer.forward(stream, delta, attend)
        rows = batch.sample_rows
        last = None if delta is None else delta.index_select(0, rows)
        return self._norm(stream.index_select(0, rows), last)
