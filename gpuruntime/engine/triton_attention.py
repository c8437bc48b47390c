"""Every layer's attention in Triton: one kernel from the fused product to the pool, one over the paged K and V."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpuruntime.kernels.backend import HeadNorms
from gpuruntime.kernels.gpu.attention import AttentionPlan, attention, plan_attention
from gpuruntime.kernels.gpu.attention_batch import Requests, ScoreRule
from gpuruntime.kernels.gpu.kv_write import KvPool, kv_write
from gpuruntime.kernels.paged_attention import View
from gpuruntime.kernels.sink_attention import cache_positions
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.rope import RotaryTable

Tables = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Places:
    """Where a step's ``T`` tokens stand: int64 ``positions`` and ``slots``; a negative slot has no K and V.

    far: where the queries stand inside a cache of sinks and window, under a view that has sinks.
    """

    positions: Tensor
    slots: Tensor
    far: Tensor | None = None


class TritonAttention:
    """The KV memory ``pools`` of each layer and its ``views``, for contexts of up to ``max_len`` tokens."""

    def __init__(self, config: ModelConfig, views: Sequence[View], pools: Sequence[KvPool], max_len: int) -> None:
        self._scale = config.attention_scale
        self._layers = list(zip(pools, config.layer_ropes, views, strict=True))
        device = pools[0].values.device
        self._tables: dict[object, Tables] = {}
        for rope in set(config.layer_ropes):
            cos, sin = RotaryTable(rope, config.head_dim, max_len).tables()
            self._tables[rope] = cos.to(device), sin.to(device)

    def step(self, positions: Tensor, slots: Tensor, requests: Requests, decodes: int) -> list[TritonLayerAttention]:
        """One for each layer; ``decodes`` of the requests, the first ones, have one new token each.

        What the device has to decide for a step is launched here, once for each view.
        """
        plans: dict[View, tuple[AttentionPlan, Places]] = {}
        for pool, _, view in self._layers:
            if view not in plans:
                plan = plan_attention(requests, ScoreRule(self._scale, view), pool, decodes=decodes)
                far = cache_positions(view, positions) if view.sinks else None
                plans[view] = plan, Places(positions, slots, far)
        return [TritonLayerAttention(pool, self._tables[rope], *plans[view]) for pool, rope, view in self._layers]


@dataclass(frozen=True, slots=True)
class TritonLayerAttention:
    """Implements ``kernels.backend.Attend``."""

    pool: KvPool
    rotation: Tables
    plan: AttentionPlan
    places: Places

    def __call__(self, qkv: Tensor, norms: HeadNorms | None) -> Tensor:
        places = self.places
        q = kv_write(qkv, places.positions, places.slots, self.rotation, self.pool, norms)
        far = None
        if places.far is not None:
            # The same norms at other angles; K and V are written already.
            nowhere = torch.full_like(places.slots, -1)
            far = kv_write(qkv, places.far, nowhere, self.rotation, self.pool, norms)
        return attention(q, self.pool, self.plan, far=far)
