"""The native step's plain C interface, by ctypes: structures mirror ``model.h`` field by field."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_double, c_float, c_int, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from gpuruntime.kernels.native.build import built_library

PHASES = ("norms", "qkv", "attention", "out", "gate_up", "down", "head")


class Matrix(Structure):
    _fields_ = (
        ("tiles", c_void_p),
        ("scale", c_void_p),
        ("bias", c_void_p),
        ("columns", c_int32),
        ("depth", c_int32),
    )


class Layer(Structure):
    _fields_ = (
        ("input_norm", c_void_p),
        ("post_norm", c_void_p),
        ("q_norm", c_void_p),
        ("k_norm", c_void_p),
        ("qkv", Matrix),
        ("out", Matrix),
        ("gate_up", Matrix),
        ("down", Matrix),
        ("window", c_int32),
        ("unused", c_int32),
    )


class Model(Structure):
    _fields_ = (
        ("layers", POINTER(Layer)),
        ("embedding", c_void_p),
        ("final_norm", c_void_p),
        ("cosines", c_void_p),
        ("sines", c_void_p),
        ("kv", c_void_p),
        ("head", Matrix),
        ("num_blocks", c_int64),
        ("num_layers", c_int32),
        ("hidden", c_int32),
        ("middle", c_int32),
        ("heads", c_int32),
        ("kv_heads", c_int32),
        ("head_dim", c_int32),
        ("vocab", c_int32),
        ("kv_bits", c_int32),
        ("eps", c_float),
        ("attention_scale", c_float),
    )


class Batch(Structure):
    _fields_ = (
        ("token_ids", c_void_p),
        ("begins", c_void_p),
        ("positions", c_void_p),
        ("tables", c_void_p),
        ("logits_rows", c_void_p),
        ("logits", c_void_p),
        ("states", c_void_p),
        ("picks", c_void_p),
        ("tokens", c_int32),
        ("rows", c_int32),
        ("width", c_int32),
        ("wanted", c_int32),
    )


@cache
def library() -> ctypes.CDLL:
    """The library for this machine. Raises ``build.NoCompiler``."""
    return load(built_library())


def load(path: Path) -> ctypes.CDLL:
    """The library at ``path`` with its functions' types."""
    lib = ctypes.CDLL(str(path))
    lib.berth_create.argtypes, lib.berth_create.restype = (POINTER(Model), c_int), c_void_p
    lib.berth_destroy.argtypes, lib.berth_destroy.restype = (c_void_p,), None
    lib.berth_amx.argtypes, lib.berth_amx.restype = (c_void_p,), c_int
    lib.berth_use_amx.argtypes, lib.berth_use_amx.restype = (c_void_p, c_int), None
    lib.berth_step.argtypes, lib.berth_step.restype = (c_void_p, POINTER(Batch), c_int), c_int
    lib.berth_seconds.argtypes, lib.berth_seconds.restype = (c_void_p,), POINTER(c_double)
    lib.berth_product_rate.argtypes, lib.berth_product_rate.restype = (c_int, c_int), c_double
    lib.berth_read_rate.argtypes, lib.berth_read_rate.restype = (c_void_p, c_uint64, c_int), c_double
    lib.berth_kv_block_bytes.argtypes, lib.berth_kv_block_bytes.restype = (c_int, c_int), c_uint64
    return lib
