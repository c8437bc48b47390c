"""Matrix products of PyTorch's path: bf16 weights packed once for oneDNN, int8 weights with a scale a channel, or fp32.

A packed product beats an unpacked one at every batch size: measured on two cores in bf16, 23 against 63 us for
[1, 576] x [576, 960], 1.4 against 1.9 ms for the head.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from gpuruntime.kernels.quantize import quantize_rows

_INT8_DEPTH = 32  # PyTorch's int8 product reads past the ends of rows that are no multiple of a vector


class Linear:
    """``y = x W^T + b`` for ``x [T, in]``, ``W [out, in]``; ``nbytes``: what the weights hold in memory.

    ``int8`` keeps ``W`` as int8 rows and needs ``x`` in bf16; bf16 weights are packed, fp32 ones run as they are.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *, int8: bool = False) -> None:
        self._bias = bias
        self._scales: Tensor | None = None
        self.packed = weight.dtype == torch.bfloat16 and torch._C._has_mkldnn and not int8
        if int8:
            quantized = quantize_rows(weight)
            self._pad = -weight.shape[1] % _INT8_DEPTH
            weight, self._scales = functional.pad(quantized.values, (0, self._pad)), quantized.scales
            self._ones = torch.ones(weight.shape[0], dtype=torch.bfloat16)
        self.nbytes = weight.nbytes + (self._scales.nbytes if self._scales is not None else 0)
        if self.packed:
            weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        self._weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        if self._scales is not None:
            return self.unrounded(x).to(x.dtype)
        if not self.packed:
            return functional.linear(x, self._weight, self._bias)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return result

    def unrounded(self, x: Tensor) -> Tensor:
        """fp32 ``[T, out]``, where the weights are int8 without the rounding to ``x``'s type at the end."""
        if self._scales is None:
            return self(x).float()
        # The operator takes scales in x's type only: the fp32 ones are applied after it.
        padded = functional.pad(x, (0, self._pad)) if self._pad else x.contiguous()
        y = torch._weight_int8pack_mm(padded, self._weight, self._ones).float() * self._scales
        return y if self._bias is None else y + self._bias

    def rows(self, ids: Tensor) -> Tensor:
        """fp32 ``[*ids.shape, in]``: the weights' rows ``ids``. Raises ``ValueError`` for packed weights."""
        if self.packed:
            raise ValueError("packed weights cannot be read by rows")
        rows = self._weight[ids].float()
        if self._scales is None:
            return rows
        return rows[..., : rows.shape[-1] - self._pad] * self._scales[ids].unsqueeze(-1)


class Head:
    """Logits ``x W^T`` in fp32 for ``x [R, hidden]`` in fp32.

    ``nbytes``: what it holds; of a ``tied`` head without the weight it was given, which is the embedding's.

    A bf16 product rounds its result to 8 bits of mantissa, so near logits become equal: SmolLM2's first token tied
    between "The" and "L" at 25.375, and the lower id won. The largest ``_REFINED`` logits of each row are therefore
    computed again in fp32 from the same weights, which for int8 are the head's own and not the weight it was given.
    """

    _REFINED = 32

    def __init__(self, weight: Tensor, *, int8: bool = False, tied: bool = False) -> None:
        self._dtype = weight.dtype
        self._linear = Linear(weight, int8=int8)
        self._weight = weight if self._linear.packed else None
        copied = self._linear.nbytes if self._linear.packed or int8 else 0
        self.nbytes = copied + (0 if tied or int8 else weight.nbytes)

    def __call__(self, x: Tensor) -> Tensor:
        logits = self._linear.unrounded(x.to(self._dtype))
        if self._dtype == torch.float32:
            return logits
        ids = logits.topk(min(self._REFINED, logits.shape[1]), dim=-1, sorted=False).indices
        rows = self._linear.rows(ids) if self._weight is None else functional.embedding(ids, self._weight).float()
        return logits.scatter_(1, ids, torch.bmm(rows, x.unsqueeze(2)).squeeze(2))
