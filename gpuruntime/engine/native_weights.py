"""One model's weights as the native step reads them: packed matrices, fp32 norms, rotation tables."""

from __future__ import annotations

import torch
from torch import Tensor

from gpuruntime.kernels.native import library
from gpuruntime.kernels.native.memory import Arena
from gpuruntime.kernels.native.pack import interleave, pack
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.rope import RotaryTable


class NativeWeights:
    """Fills ``library.Model`` but for the KV memory, and keeps alive what it points to. ``nbytes``: of all weights."""

    def __init__(self, weights: WeightSource, config: ModelConfig, max_len: int, *, int8: bool) -> None:
        self._weights = weights
        self._config = config
        self._int8 = int8
        self._arena = Arena()
        self._kept: list[object] = []
        self.nbytes = 0
        self.model = self._build(max_len)
        del self._weights  # its map would keep the whole file resident

    def _build(self, max_len: int) -> library.Model:
        config = self._config
        shape = (config.vocab_size, config.hidden_size)
        embedding = self._keep(self._weights.get("model.embed_tokens.weight", shape))
        tied = config.tied_head or not self._weights.has("lm_head.weight")
        head = embedding if tied else self._weights.get("lm_head.weight", shape)
        cosines, sines = RotaryTable(config.rope, config.head_dim, max_len).tables()
        layers = (library.Layer * config.num_layers)(*map(self._layer, range(config.num_layers)))
        self._kept += [layers, cosines, sines]
        return library.Model(
            layers=layers,
            embedding=embedding.data_ptr(),
            final_norm=self._vector("model.norm.weight", config.hidden_size),
            cosines=cosines.data_ptr(),
            sines=sines.data_ptr(),
            head=self._matrix(head, None),
            num_layers=config.num_layers,
            hidden=config.hidden_size,
            middle=config.intermediate_size,
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            vocab=config.vocab_size,
            eps=config.rms_norm_eps,
            attention_scale=config.attention_scale,
        )

    def _layer(self, index: int) -> library.Layer:
        config = self._config
        prefix = f"model.layers.{index}"
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        hidden, middle, dim = config.hidden_size, config.intermediate_size, config.head_dim
        return library.Layer(
            input_norm=self._vector(f"{prefix}.input_layernorm.weight", hidden),
            post_norm=self._vector(f"{prefix}.post_attention_layernorm.weight", hidden),
            q_norm=self._vector(f"{attention}.q_norm.weight", dim) if config.qk_norm else None,
            k_norm=self._vector(f"{attention}.k_norm.weight", dim) if config.qk_norm else None,
            qkv=self._query_key_value(attention),
            out=self._linear(f"{attention}.o_proj", hidden, config.q_size, config.output_bias),
            gate_up=self._gate_up(mlp),
            down=self._linear(f"{mlp}.down_proj", hidden, middle, config.mlp_bias),
            window=config.sliding_windows[index] or 0,
        )

    def _query_key_value(self, prefix: str) -> library.Matrix:
        config = self._config
        rows = {"q_proj": config.q_size, "k_proj": config.kv_size, "v_proj": config.kv_size}
        weight = torch.cat([self._weight(f"{prefix}.{name}", n, config.hidden_size) for name, n in rows.items()])
        if not config.attention_bias:
            return self._matrix(weight, None)
        return self._matrix(weight, torch.cat([self._bias(f"{prefix}.{name}", n) for name, n in rows.items()]))

    def _gate_up(self, prefix: str) -> library.Matrix:
        config = self._config
        names, middle = (f"{prefix}.gate_proj", f"{prefix}.up_proj"), config.intermediate_size
        weight = interleave(*(self._weight(name, middle, config.hidden_size) for name in names))
        bias = interleave(*(self._bias(name, middle) for name in names)) if config.mlp_bias else None
        return self._matrix(weight, bias)

    def _linear(self, name: str, rows: int, depth: int, has_bias: bool) -> library.Matrix:
        return self._matrix(self._weight(name, rows, depth), self._bias(name, rows) if has_bias else None)

    def _weight(self, name: str, rows: int, depth: int) -> Tensor:
        return self._weights.get(f"{name}.weight", (rows, depth))

    def _bias(self, name: str, rows: int) -> Tensor:
        return self._weights.get(f"{name}.bias", (rows,))

    def _matrix(self, weight: Tensor, bias: Tensor | None) -> library.Matrix:
        packed = pack(self._arena, weight, bias, int8=self._int8)
        self._kept.append(packed)
        self.nbytes += packed.nbytes
        return packed.struct

    def _vector(self, name: str, size: int) -> int:
        return self._keep(self._weights.get(name, (size,)).float()).data_ptr()

    def _keep(self, tensor: Tensor) -> Tensor:
        self._kept.append(tensor)
        self.nbytes += tensor.nbytes
        return tensor
