"""The types and constants with which attention's kernels are launched for known models.

The engine serves these but Gemma 2, which stands here for its soft-capped scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import triton
import triton.language as tl

from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.kernels.gpu.attention_batch import UNSPECIALIZED
from gpuruntime.kernels.gpu.attention_decode import (
    attention_decode_kernel,
    decode_shape,
    join_shares_kernel,
    plan_shares_kernel,
)
from gpuruntime.kernels.gpu.attention_mixed import attention_mixed_kernel, mixed_shape
from gpuruntime.kernels.gpu.configuration import Configuration


@dataclass(frozen=True, slots=True)
class _Model:
    """What of a model the kernels are compiled for."""

    name: str
    kv_heads: int
    group: int
    head_dim: int
    window: bool = False
    sinks: bool = False
    softcap: bool = False


_LLAMA = _Model("Llama 8B", kv_heads=8, group=4, head_dim=128)
_SMOL = _Model("SmolLM2", kv_heads=3, group=3, head_dim=64)
_SMOL_SINKS = _Model("SmolLM2 with sinks", kv_heads=3, group=3, head_dim=64, window=True, sinks=True)
_GEMMA = _Model("Gemma 3 4B", kv_heads=4, group=2, head_dim=256, window=True)
_GEMMA_2 = _Model("Gemma 2 9B", kv_heads=8, group=2, head_dim=256, window=True, softcap=True)

_POOLS = {"bf16": "bf16", "int8": "i8", "fp8": "fp8e4nv"}
_STRIDES = ("q_stride", "out_stride")


def configurations() -> tuple[Configuration, ...]:
    """Decode first, as in a batch."""
    decodes = [(_LLAMA, "bf16"), (_LLAMA, "int8"), (_LLAMA, "fp8"), (_SMOL, "bf16"), (_SMOL, "int8")]
    decodes += [(_SMOL_SINKS, "int8"), (_GEMMA, "bf16"), (_GEMMA, "int8"), (_GEMMA_2, "bf16")]
    prefills = [(_LLAMA, "bf16"), (_LLAMA, "int8"), (_LLAMA, "fp8"), (_SMOL, "bf16"), (_SMOL_SINKS, "int8")]
    prefills += [(_GEMMA, "bf16"), (_GEMMA_2, "bf16")]
    return (
        *(_decode(model, pool) for model, pool in decodes),
        *_around_decode(_LLAMA),
        *(_mixed(model, pool, 1024) for model, pool in prefills),
        _mixed(_LLAMA, "bf16", 2),
    )


def _decode(model: _Model, pool: str) -> Configuration:
    shape = decode_shape(model.head_dim)
    signature, constants = _common(model, pool)
    signature |= {"partial": "*fp32", "logs": "*fp32", "share_begins": "*i32", "share_tiles": "*i32"}
    constants |= {"BLOCK_ROWS": max(16, triton.next_power_of_2(model.group)), "TILE": shape.tile}
    return Configuration(
        name=f"attention_decode {model.name}, {pool} KV",
        kernel=attention_decode_kernel,
        signature=signature,
        constants=constants,
        multiples_of_16=_STRIDES,
        num_warps=shape.warps,
        num_stages=shape.stages,
        dot=True,
        oldest=89 if pool == "fp8" else 80,
    )


def _mixed(model: _Model, pool: str, tokens: int) -> Configuration:
    return replace(_mixed_on(90, model, pool, tokens), elsewhere={80: _mixed_on(80, model, pool, tokens)})


def _mixed_on(architecture: int, model: _Model, pool: str, tokens: int) -> Configuration:
    shape = mixed_shape(model.head_dim, model.group, tokens, architecture)
    signature, constants = _common(model, pool)
    constants |= {"BLOCK_ROWS": shape.rows, "BLOCK_TOKENS": shape.rows // model.group, "TILE": shape.tile}
    return Configuration(
        name=f"attention_mixed {model.name}, {pool} KV, {tokens} tokens a request",
        kernel=attention_mixed_kernel,
        signature=signature,
        constants=constants,
        multiples_of_16=_STRIDES,
        num_warps=shape.warps,
        num_stages=shape.stages,
        dot=True,
        oldest=89 if pool == "fp8" else 80,
    )


def _common(model: _Model, pool: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The types and constants that both kernels share; queries are bf16."""
    signature = {"out": "*bf16", "q": "*bf16", "kv": f"*{_POOLS[pool]}"}
    signature |= {"begins": "*i32", "lengths": "*i32", "tables": "*i32", "scale": "fp32", "softcap": "fp32"}
    signature |= dict.fromkeys((*UNSPECIALIZED, *_STRIDES), "i32")
    constants: dict[str, Any] = {
        "HAS_WINDOW": model.window,
        "HAS_SINKS": model.sinks,
        "HAS_FAR": model.sinks,
        "HAS_SCALES": pool != "bf16",
        "HAS_SOFTCAP": model.softcap,
        "GROUP": model.group,
        "KV_HEADS": model.kv_heads,
        "BLOCK_SIZE": BLOCK_TOKENS,
        "HEAD_DIM": model.head_dim,
        "HEAD_PADDED": triton.next_power_of_2(model.head_dim),
        "DOT_DTYPE": tl.bfloat16,
    }
    for argument, kind, used in (("far", "*bf16", model.sinks), ("scales", "*fp32", pool != "bf16")):
        if used:
            signature[argument] = kind
        else:
            constants[argument] = None
    return signature, constants


def _around_decode(model: _Model) -> tuple[Configuration, Configuration]:
    """What decides on the shares before a decode, and what joins them after it."""
    planning = {"share_begins": "*i32", "share_tiles": "*i32", "lengths": "*i32"}
    planning |= dict.fromkeys(("requests", "window", "sinks", "programs", "smallest"), "i32")
    tile = decode_shape(model.head_dim).tile
    fixed: dict[str, Any] = {"HAS_WINDOW": False, "HAS_SINKS": False, "FIXED": False, "TILE": tile, "CHUNK": 256}
    joining = {"out": "*bf16", "partial": "*fp32", "logs": "*fp32", "begins": "*i32", "share_begins": "*i32"}
    joining |= {"out_stride": "i32"}
    heads: dict[str, Any] = {"HEADS": model.kv_heads * model.group, "JOINED": 16}
    heads |= {"HEAD_DIM": model.head_dim, "HEAD_PADDED": triton.next_power_of_2(model.head_dim)}
    return (
        Configuration("attention_plan_shares", plan_shares_kernel, planning, fixed),
        Configuration("attention_join_shares", join_shares_kernel, joining, heads, ("out_stride",)),
    )
