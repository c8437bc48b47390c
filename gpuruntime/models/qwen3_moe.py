"""Qwen 3's mixture of experts (arXiv:2505.09388): Qwen 3's layer, where a router picks the MLPs of each token."""

from __future__ import annotations

import torch
from torch import Tensor, softmax, zeros_like
from torch.nn.functional import linear

from gpuruntime.models.config import ExpertConfig
from gpuruntime.models.layers import Attention, Build, GatedMlp, Mlp, PreNormLayer, RmsNorm, head_norms


class SparseMlp:
    """The weighted sum of each token's ``per_token`` likeliest experts.

    The router takes its norm's fp32: rounded scores would send a token to another expert.
    """

    def __init__(self, build: Build, experts: ExpertConfig, prefix: str) -> None:
        self._per_token = experts.per_token
        self._normalized = experts.normalized
        self._dtype = build.backend.dtype
        shape = (experts.count, build.config.hidden_size)
        self._router = build.weights.get(f"{prefix}.gate.weight", shape).float()
        self._sum = build.group.sum
        self._experts = [
            GatedMlp(build, f"{prefix}.experts.{index}", experts.intermediate_size, summed=False)
            for index in range(experts.count)
        ]
        self.nbytes = self._router.nbytes + sum(expert.nbytes for expert in self._experts)

    def __call__(self, x: Tensor) -> Tensor:
        shares, chosen = softmax(linear(x, self._router), dim=-1).topk(self._per_token, dim=-1)
        if self._normalized:
            shares = shares / shares.sum(dim=-1, keepdim=True)
        out = zeros_like(x)
        # In order of expert, so that a token's sum does not depend on who else is in the batch.
        for index in sorted(set(chosen.flatten().tolist())):
            tokens, places = (chosen == index).nonzero(as_tuple=True)
            mixed = self._experts[index](x[tokens].to(self._dtype))
            out.index_add_(0, tokens, mixed * shares[tokens, places].unsqueeze(-1))
        return self._sum(out)


def qwen3_moe_layer(build: Build, index: int) -> PreNormLayer:
    at, experts = f"model.layers.{index}", build.config.experts
    sparse = experts if experts is not None and experts.layers[index] else None
    mlp: Mlp
    if sparse is not None:
        mlp = SparseMlp(build, sparse, f"{at}.mlp")
    else:
        mlp = GatedMlp(build, f"{at}.mlp", build.config.intermediate_size)
    return PreNormLayer(
        RmsNorm(build, f"{at}.input_layernorm"),
        Attention(build, f"{at}.self_attn", head_norms(build, f"{at}.self_attn")),
        RmsNorm(build, f"{at}.post_attention_layernorm", dtype=torch.float32 if sparse else None),
        mlp,
    )
