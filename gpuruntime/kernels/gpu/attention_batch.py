"""What attention on the GPU is launched with: a batch's requests and the rule of its scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton
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


def compiled_types(
    kv: str, *, group: int, kv_heads: int, head_dim: int, block_size: int, view: View = _ALL, softcap: bool = False
) -> tuple[dict[str, str], Mapping[str, Any]]:
    """Arguments that both kernels share, for bf16 queries and K and V of Triton's type ``kv``: signature, constants."""
    signature = dict.fromkeys(("begins", "lengths", "tables"), "*i32") | {"out": "*bf16", "q": "*bf16", "kv": f"*{kv}"}
    signature |= dict.fromkeys((*UNSPECIALIZED, "q_stride", "out_stride"), "i32") | {"scale": "fp32", "softcap": "fp32"}
    constants: dict[str, Any] = {
        "HAS_WINDOW": view.window is not None,
        "HAS_SINKS": view.sinks > 0,
        "HAS_FAR": view.sinks > 0,
        "HAS_SCALES": kv != "bf16",
        "HAS_SOFTCAP": softcap,
        "GROUP": group,
        "KV_HEADS": kv_heads,
        "BLOCK_SIZE": block_size,
        "HEAD_DIM": head_dim,
        "HEAD_PADDED": triton.next_power_of_2(head_dim),
        "DOT_DTYPE": tl.bfloat16,
    }
    for argument, pointer, used in (("far", "*bf16", view.sinks > 0), ("scales", "*fp32", kv != "bf16")):
        if used:
            signature[argument] = pointer
        else:
            constants[argument] = None
    return signature, constants


# What the engine launches: Llama 3.1 8B, SmolLM2 (three query heads to one of K and V), Gemma 3's heads of 256.
LLAMA: Mapping[str, Any] = {"group": 4, "kv_heads": 8, "head_dim": 128}
COMPILED: Mapping[str, tuple[str, int, Mapping[str, Any]]] = {
    "bf16 128": ("bf16", 80, {**LLAMA, "block_size": 64}),
    "bf16 128, blocks of 16": ("bf16", 80, {**LLAMA, "block_size": 16}),
    "int8 128": ("i8", 80, {**LLAMA, "block_size": 64}),
    "fp8 128": ("fp8e4nv", 89, {**LLAMA, "block_size": 64}),
    "bf16 128, window and sinks": ("bf16", 80, {**LLAMA, "block_size": 64, "view": View(4096, 4)}),
    "bf16 64, groups of 3": ("bf16", 80, {"group": 3, "kv_heads": 3, "head_dim": 64, "block_size": 16}),
    "bf16 256, window": (
        "bf16", 80, {"group": 2, "kv_heads": 4, "head_dim": 256, "block_size": 64, "view": View(1024)},
    ),
    "bf16 128, capped": ("bf16", 80, {**LLAMA, "block_size": 64, "softcap": True}),
}  # fmt: skip
