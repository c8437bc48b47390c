"""One model's weights as the native step reads them: packed matrices, fp32 norms, rotation tables."""

from __future__ import annotations

import torch
from torch import Tensor

from gpuruntime.kernels.native import library
from gpuruntime.kernels.native.memory import Arena, Bytes
from gpuruntime.kernels.native.pack import interleave, pack
from gpuruntime.kernels.rotation import rotate_columns, rotate_rows, unrotate_columns
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.rope import RotaryTable


class NativeWeights:
    """Fills ``library.Model`` but for the KV memory, and keeps alive what it points to. ``nbytes``: of all weights.

    int8 weights are those of the same model with a rotated residual stream (``kernels.rotation``).
    """

    def __init__(self, weights: WeightSource, config: ModelConfig, max_len: int, *, int8: bool) -> None:
        self._weights = weights
        self._config = config
        self._int8 = int8
        self._arena = Arena()
        self._kept: list[object] = []
        self.nbytes = 0
        self.model = self._build(max_len)
        del self._weights  # its map would keep the whole file resident

    @property
    def largest(self) -> Bytes:
        """The longest run of weights in memory."""
        return self._arena.largest

    def plain_states(self, states: Tensor) -> Tensor:
        """The model's own states ``[R, hidden]`` of those that the step's head reads."""
        return unrotate_columns(states) * self._final_norm if self._int8 else states

    def _build(self, max_len: int) -> library.Model:
        config = self._config
        shape = (config.vocab_size, config.hidden_size)
        embedding = self._weights.get("model.embed_tokens.weight", shape)
        tied = config.tied_head or not self._weights.has("lm_head.weight")
        head = embedding if tied else self._weights.get("lm_head.weight", shape)
        table = self._keep((rotate_columns(embedding) if self._int8 else embedding).to(torch.bfloat16))
        final_norm = self._final_norm = self._norm("model.norm")
        cosines, sines = RotaryTable(config.rope, config.head_dim, max_len).tables()
        layers = (library.Layer * config.num_layers)(*map(self._layer, range(config.num_layers)))
        self._kept += [layers, cosines, sines]
        return library.Model(
            layers=layers,
            embedding=table.data_ptr(),
            final_norm=self._stream_norm(final_norm),
            cosines=cosines.data_ptr(),
            sines=sines.data_ptr(),
            head=self._matrix(self._reader(head, final_norm), None),
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
        input_norm, post_norm = (
            self._norm(f"{prefix}.input_layernorm"),
            self._norm(f"{prefix}.post_attention_layernorm"),
        )
        return library.Layer(
            input_norm=self._stream_norm(input_norm),
            post_norm=self._stream_norm(post_norm),
            q_norm=self._head_norm(f"{attention}.q_norm"),
            k_norm=self._head_norm(f"{attention}.k_norm"),
            qkv=self._query_key_value(attention, input_norm),
            out=self._writer(f"{attention}.o_proj", config.q_size, config.output_bias),
            gate_up=self._gate_up(mlp, post_norm),
            down=self._writer(f"{mlp}.down_proj", config.intermediate_size, config.mlp_bias),
            window=config.sliding_windows[index] or 0,
        )

    def _query_key_value(self, prefix: str, norm: Tensor) -> library.Matrix:
        config = self._config
        # Keys first and values last, so that two threads have the same number of heads to write to the cache.
        rows = {"k_proj": config.kv_size, "q_proj": config.q_size, "v_proj": config.kv_size}
        weight = torch.cat([self._weight(f"{prefix}.{name}", n, config.hidden_size) for name, n in rows.items()])
        bias = (
            torch.cat([self._bias(f"{prefix}.{name}", n) for name, n in rows.items()])
            if config.attention_bias
            else None
        )
        return self._matrix(self._reader(weight, norm), bias)

    def _gate_up(self, prefix: str, norm: Tensor) -> library.Matrix:
        config = self._config
        names, middle = (f"{prefix}.gate_proj", f"{prefix}.up_proj"), config.intermediate_size
        weight = interleave(*(self._weight(name, middle, config.hidden_size) for name in names))
        bias = interleave(*(self._bias(name, middle) for name in names)) if config.mlp_bias else None
        return self._matrix(self._reader(weight, norm), bias)

    def _reader(self, weight: Tensor, norm: Tensor) -> Tensor:
        """A matrix that reads the residual stream behind a norm."""
        return rotate_columns(weight.float() * norm) if self._int8 else weight

    def _writer(self, name: str, depth: int, has_bias: bool) -> library.Matrix:
        """The matrix ``name``, which adds to the residual stream."""
        weight = self._weight(name, self._config.hidden_size, depth)
        bias = self._bias(name, self._config.hidden_size) if has_bias else None
        if self._int8:
            weight = rotate_rows(weight)
            bias = None if bias is None else rotate_columns(bias)
        return self._matrix(weight, bias)

    def _norm(self, name: str) -> Tensor:
        return self._weights.get(f"{name}.weight", (self._config.hidden_size,)).float()

    def _stream_norm(self, norm: Tensor) -> int:
        """What is left of a norm of the residual stream once its weights have moved into the matrices."""
        return self._keep(torch.ones_like(norm) if self._int8 else norm).data_ptr()

    def _head_norm(self, name: str) -> int | None:
        if not self._config.qk_norm:
            return None
        return self._keep(self._weights.get(f"{name}.weight", (self._config.head_dim,)).float()).data_ptr()

    def _weight(self, name: str, rows: int, depth: int) -> Tensor:
        return self._weights.get(f"{name}.weight", (rows, depth))

    def _bias(self, name: str, rows: int) -> Tensor:
        return self._weights.get(f"{name}.bias", (rows,)).float()

    def _matrix(self, weight: Tensor, bias: Tensor | None) -> library.Matrix:
        packed = pack(self._arena, weight, bias, int8=self._int8)
        self._kept.append(packed)
        self.nbytes += packed.nbytes
        return packed.struct

    def _keep(self, tensor: Tensor) -> Tensor:
        self._kept.append(tensor)
        self.nbytes += tensor.nbytes
        return tensor
