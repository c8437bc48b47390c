"""The Llama family (Touvron et al., arXiv:2302.13971): RMSNorm, rotary positions, grouped queries, SwiGLU."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import embedding, rms_norm, silu

from gpuruntime.kernels.linear import Head, Linear
from gpuruntime.kernels.paged_attention import AttentionPlan, paged_attention
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.batch import ForwardBatch
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.rope import RotaryTable, rotate


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """What every layer of one pass shares: the rotation ``[T, 1, head_dim]``, KV slots ``[T]`` and who sees whom."""

    cos: Tensor
    sin: Tensor
    slots: Tensor
    attention: AttentionPlan


class LlamaLayer:
    """One block: attention and MLP, each behind its norm and added to the residual stream ``x [T, hidden]``.

    The stream, the norms and the rotation stay in fp32 also for bf16 weights: rounding the stream after each of 60
    additions moved greedy answers away from fp32's.
    """

    def __init__(self, config: ModelConfig, weights: WeightSource, index: int) -> None:
        self._config = config
        prefix = f"model.layers.{index}"
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        hidden, middle = config.hidden_size, config.intermediate_size
        self._eps = config.rms_norm_eps
        self._input_norm = weights.get(f"{prefix}.input_layernorm.weight", (hidden,)).float()
        self._post_norm = weights.get(f"{prefix}.post_attention_layernorm.weight", (hidden,)).float()
        qkv = {"q_proj": config.q_size, "k_proj": config.kv_size, "v_proj": config.kv_size}
        self._qkv = fused_linear(weights, attention, qkv, hidden, bias=config.attention_bias)
        self._out = fused_linear(weights, attention, {"o_proj": hidden}, config.q_size, bias=config.output_bias)
        gate_up = {"gate_proj": middle, "up_proj": middle}
        self._gate_up = fused_linear(weights, mlp, gate_up, hidden, bias=config.mlp_bias)
        self._down = fused_linear(weights, mlp, {"down_proj": hidden}, middle, bias=config.mlp_bias)
        self.nbytes = sum(part.nbytes for part in (self._qkv, self._out, self._gate_up, self._down))

    def forward(self, x: Tensor, pool: Tensor, inputs: LayerInputs) -> None:
        """Adds the block's output to ``x`` (fp32, in place) and writes the tokens' K and V to ``pool``."""
        config = self._config
        qkv = self._qkv(rms_norm(x, (config.hidden_size,), self._input_norm, self._eps).to(pool.dtype))
        heads = qkv.view(x.shape[0], config.num_heads + 2 * config.num_kv_heads, config.head_dim)
        rotated = config.num_heads + config.num_kv_heads
        heads[:, :rotated] = rotate(heads[:, :rotated], inputs.cos, inputs.sin)
        rows = pool.view(pool.shape[0] * pool.shape[1], -1)
        rows.index_copy_(0, inputs.slots, qkv[:, config.q_size :])
        x += self._out(paged_attention(heads[:, : config.num_heads], pool, inputs.attention)).float()
        normed = rms_norm(x, (config.hidden_size,), self._post_norm, self._eps).to(pool.dtype)
        gate, up = self._gate_up(normed).chunk(2, dim=-1)
        x += self._down(silu(gate).mul_(up)).float()


class LlamaModel:
    """The decoder with its head. ``nbytes`` counts what the weights hold in memory."""

    def __init__(self, config: ModelConfig, weights: WeightSource, max_len: int) -> None:
        self.config = config
        shape = (config.vocab_size, config.hidden_size)
        self._embedding = weights.get("model.embed_tokens.weight", shape)
        self._norm = weights.get("model.norm.weight", (config.hidden_size,)).float()
        tied = config.tied_head or not weights.has("lm_head.weight")
        head = self._embedding if tied else weights.get("lm_head.weight", shape)
        self._head = Head(head)
        self._layers = [LlamaLayer(config, weights, index) for index in range(config.num_layers)]
        self._rotary = RotaryTable(config.rope, config.head_dim, max_len)
        tables = self._embedding.nbytes + (0 if tied else head.nbytes)
        self.nbytes = tables + self._head.nbytes + sum(layer.nbytes for layer in self._layers)

    def forward(self, batch: ForwardBatch, pools: Tensor) -> Tensor:
        """Runs one batch over ``pools [layers, blocks, 16, 2, kv_heads, head_dim]``; fp32 logits ``[R, vocab]``."""
        x = embedding(batch.token_ids, self._embedding).float()
        inputs = LayerInputs(*self._rotary.at(batch.positions), batch.slots, batch.attention)
        for layer, pool in zip(self._layers, pools, strict=True):
            layer.forward(x, pool, inputs)
        x = x.index_select(0, batch.sample_rows)
        x = rms_norm(x, (self.config.hidden_size,), self._norm, self.config.rms_norm_eps)
        return self._head(x)


def fused_linear(weights: WeightSource, prefix: str, parts: dict[str, int], in_size: int, *, bias: bool) -> Linear:
    """Stacks the named projections (name -> rows) of ``prefix`` into one product over the same input."""
    weight = weights.stack({f"{prefix}.{name}.weight": (rows, in_size) for name, rows in parts.items()})
    biases = {f"{prefix}.{name}.bias": (rows,) for name, rows in parts.items()} if bias else {}
    return Linear(weight, weights.stack(biases) if biases else None)
