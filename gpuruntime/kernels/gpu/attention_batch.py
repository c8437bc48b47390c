"""What attention on the GPU is launched with: a batch's requests and the rule of its scores."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from gpuruntime.kernels.gpu.kv_write import KvPool
from gpuruntime.kernels.paged_attention import View

_DOT_DTYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}
QUANTIZED = (torch.int8, torch.float8_e4m3fn)
PLAIN = (torch.float32, torch.float16, torch.bfloat16)
BLOCK_SIZES = (16, 32, 64, 128)
# Integers of which a kernel is not compiled anew for 1 or for multiples of 16: a server must not wait for that.
UNSPECIALIZED = ("requests", "table_width", "window", "sinks")
HEAD_DIMS = range(16, 257, 16)
_ALL = View()


@dataclass(frozen=True, slots=True)
class Requests:
    """``R`` requests, each with some new tokens that stand last in its context; int32 tensors on one device.

    begins: ``[R + 1]``, request ``r`` has the batch's tokens ``begins[r] : begins[r + 1]``. lengths: ``[R]``, how many
    tokens each context has with the new ones. tables: ``[R, width]``, each context's block ids; what stands behind the
    last block of a context is never read. No kernel needs any of it on the host.
    """

    begins: Tensor
    lengths: Tensor
    tables: Tensor

    def __len__(self) -> int:
        return self.lengths.shape[0]

    def rows(self, start: int, end: int) -> Requests:
        """Some of the requests; their tokens keep their places in the batch."""
        return Requests(self.begins[start : end + 1], self.lengths[start:end], self.tables[start:end])


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """A score is ``scale * q k``, or ``softcap * tanh(scale * q k / softcap)``, of the keys that ``view`` shows."""

    scale: float
    view: View = _ALL
    softcap: float | None = None

    @property
    def window(self) -> int:
        return self.view.window or 0

    @property
    def sinks(self) -> int:
        return self.view.sinks if self.view.window is not None else 0


def check_pool(kv: KvPool) -> None:
    """Raises ``ValueError`` for K and V that the kernels cannot read."""
    shape, dtype = tuple(kv.values.shape), kv.values.dtype
    if len(shape) != 5 or shape[2] != 2 or not kv.values.is_contiguous():
        raise ValueError(f"K and V are one contiguous [blocks, block_size, 2, kv_heads, head_dim], not {shape}")
    if shape[1] not in BLOCK_SIZES or shape[4] not in HEAD_DIMS:
        raise ValueError(
            f"blocks of {shape[1]} tokens with heads of {shape[4]} values: attention has blocks of "
            f"{', '.join(map(str, BLOCK_SIZES))} tokens and heads of 16 to 256 values in steps of 16"
        )
    if dtype not in (*PLAIN, *QUANTIZED):
        raise ValueError(f"K and V cannot be kept as {dtype}")
    if (kv.scales is not None) != (dtype in QUANTIZED):
        raise ValueError(f"K and V as {dtype} {'need' if kv.scales is None else 'have no'} scales")
    if kv.scales is not None and (kv.scales.shape != shape[:4] or not kv.scales.is_contiguous()):
        raise ValueError(f"scales are one contiguous {shape[:4]}, not {tuple(kv.scales.shape)}")


def check_queries(q: Tensor, far: Tensor | None, kv: KvPool) -> None:
    """Raises ``ValueError`` unless ``q`` and ``far`` are ``[T, heads, head_dim]``, dense in heads, and fit ``kv``."""
    kv_heads, head_dim = kv.values.shape[3:]
    if q.ndim != 3 or q.shape[2] != head_dim or q.shape[1] % kv_heads:
        raise ValueError(f"queries {tuple(q.shape)} do not fit {kv_heads} heads of {head_dim} in K and V")
    if q.stride(2) != 1 or q.stride(1) != head_dim:
        raise ValueError("the heads of one token's query must lie one behind the other")
    if q.dtype not in PLAIN:
        raise ValueError(f"queries cannot be {q.dtype}")
    if far is not None and (far.shape != q.shape or far.stride() != q.stride() or far.dtype != q.dtype):
        raise ValueError("both rotations of the queries have one shape, one stride and one type")


def dot_dtype(q: Tensor) -> tl.dtype:
    """Operands of the products: the queries' type; on the CPU, which is the interpreter, fp32."""
    return _DOT_DTYPES[q.dtype] if q.is_cuda else tl.float32
