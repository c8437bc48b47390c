"""Gemma 3, text (arXiv:2503.19786): a norm before and after attention and MLP, and normed heads of q and k.

Most layers see a sliding window and rotate with a base of their own; every sixth sees the whole context. That, the
scaled embedding and the norms' weights, stored less one, are data in ``ModelConfig``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpuruntime.kernels.backend import Attend
from gpuruntime.models.layers import Attention, Build, GatedMlp, RmsNorm, head_norms


class Gemma3Layer:
    """``x += norm(attention(norm(x)))``, then ``x += norm(mlp(norm(x)))``."""

    def __init__(self, build: Build, index: int) -> None:
        at = f"model.layers.{index}"
        self._before_attention = RmsNorm(build, f"{at}.input_layernorm")
        self._attention = Attention(build, f"{at}.self_attn", head_norms(build, f"{at}.self_attn"))
        self._after_attention = RmsNorm(build, f"{at}.post_attention_layernorm", dtype=torch.float32)
        self._before_mlp = RmsNorm(build, f"{at}.pre_feedforward_layernorm")
        self._mlp = GatedMlp(build, f"{at}.mlp", build.config.intermediate_size)
        self._after_mlp = RmsNorm(build, f"{at}.post_feedforward_layernorm", dtype=torch.float32)
        self.nbytes = self._attention.nbytes + self._mlp.nbytes

    def forward(self, stream: Tensor, delta: Tensor | None, attend: Attend) -> Tensor:
        delta = self._after_attention(self._attention(self._before_attention(stream, delta), attend))
        return self._after_mlp(self._mlp(self._before_mlp(stream, delta)))
