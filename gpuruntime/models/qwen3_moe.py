"""Qwen 3's mixture of experts (arXiv:2505.09388): Qwen 3's layer, where a router picks the MLPs of each token."""

from __future__ import annotations

from torch import Tensor, softmax, zeros_like
from torch.nn.functional import linear

from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ExpertConfig, ModelConfig
from gpuruntime.models.layers import Attention, GatedMlp, HeadNorm, Mlp, PreNormLayer, RmsNorm


class SparseMlp:
    """The weighted sum of each token's ``per_token`` likeliest experts.

    The router runs in fp32: rounded scores would send a token to another expert.
    """

    def __init__(self, config: ModelConfig, experts: ExpertConfig, weights: WeightSource, prefix: str) -> None:
        self._per_token = experts.per_token
        self._normalized = experts.normalized
        self._router = weights.get(f"{prefix}.gate.weight", (experts.count, config.hidden_size)).float()
        self._experts = [
            GatedMlp(config, weights, f"{prefix}.experts.{index}", experts.intermediate_size)
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
            mixed = self._experts[index](x[tokens])
            out.index_add_(0, tokens, mixed * shares[tokens, places].unsqueeze(-1))
        return out


def qwen3_moe_layer(config: ModelConfig, weights: WeightSource, index: int) -> PreNormLayer:
    at = f"model.layers.{index}"
    return PreNormLayer(
        RmsNorm(config, weights, f"{at}.input_layernorm"),
        Attention(config, weights, f"{at}.self_attn", HeadNorm(config, weights, f"{at}.self_attn")),
        RmsNorm(config, weights, f"{at}.post_attention_layernorm"),
        _mlp(config, weights, index, f"{at}.mlp"),
    )


def _mlp(config: ModelConfig, weights: WeightSource, index: int, prefix: str) -> Mlp:
    if config.experts is not None and config.experts.layers[index]:
        return SparseMlp(config, config.experts, weights, prefix)
    return GatedMlp(config, weights, prefix, config.intermediate_size)
