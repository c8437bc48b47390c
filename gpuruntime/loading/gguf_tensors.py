"""The tensors of a GGUF file under Hugging Face names, written to safetensors one at a time.

F32, F16 and BF16 stay as they are; quantized types become BF16. Three things are stored otherwise than Hugging Face
does: Llama's q and k have the rows of a head interleaved for llama.cpp's rotation, Gemma's norms have 1 added, and a
layer's experts are one tensor.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpuruntime.gguf_header import GgufHeader, GgufTensor

Array = np.ndarray[Any, Any]

_SAFETENSORS = {"F32": "F32", "F16": "F16", "BF16": "BF16"}
_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_NUMPY = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
_CHUNK_ELEMENTS = 1 << 22  # dequantized at once: some 50 MB with the library's temporaries
_ROPE_FACTORS = "rope_freqs.weight"

_GLOBAL = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
}
_GEMMA_LAYER = _LAYER | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_EXPERTS = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}


@dataclass(frozen=True, slots=True)
class _Output:
    """One tensor to write: ``shape`` is Hugging Face's; the source is rows ``first_row`` on of ``source``."""

    name: str
    shape: tuple[int, ...]
    source: GgufTensor
    first_row: int = 0
    heads: int = 0
    minus_one: bool = False

    @property
    def dtype(self) -> str:
        return _SAFETENSORS.get(self.source.type_name, "BF16")

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * _BYTES[self.dtype]


def read_rope_factors(path: Path, header: GgufHeader) -> Array | None:
    """The divisors of the rotation's frequencies that Llama 3.1 and later store as a tensor."""
    found = [tensor for tensor in header.tensors if tensor.name == _ROPE_FACTORS]
    if not found:
        return None
    tensor = found[0]
    if tensor.type_name != "F32":
        raise ValueError(f"tensor {_ROPE_FACTORS} has type {tensor.type_name}; expected F32")
    with path.open("rb") as file:
        file.seek(tensor.offset)
        return np.frombuffer(file.read(tensor.nbytes), np.float32)


def write_tensors(source: Path, header: GgufHeader, config: dict[str, Any], target: Path) -> None:
    """Writes every tensor of ``source`` to the safetensors file ``target``, holding one chunk of one in memory.

    Raises ``ValueError`` naming a tensor that is missing, unknown to the family, or of another shape or type than
    ``config`` implies.
    """
    outputs = _plan(header, config)
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for output in outputs:
        table[output.name] = {
            "dtype": output.dtype,
            "shape": list(output.shape),
            "data_offsets": [end, end + output.nbytes],
        }
        end += output.nbytes
    head = json.dumps(table, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with (
        source.open("rb") as reading,
        mmap.mmap(reading.fileno(), 0, prot=mmap.PROT_READ) as data,
        target.open("wb") as writing,
    ):
        writing.write(struct.pack("<Q", len(head)) + head)
        for output in outputs:
            _copy(output, data, writing)
        writing.flush()
        os.fsync(writing.fileno())


def _plan(header: GgufHeader, config: dict[str, Any]) -> list[_Output]:
    outputs = [output for tensor in header.tensors for output in _outputs(tensor, config)]
    expected = _expected_shapes(config)
    found = {output.name: output for output in outputs}
    if len(found) != len(outputs):
        raise ValueError("a tensor is there twice")
    for name, shape in expected.items():
        if name not in found:
            raise ValueError(f"tensor {name} is missing")
        if found[name].shape != shape:
            raise ValueError(f"tensor {name} has shape {list(found[name].shape)}, the metadata imply {list(shape)}")
    if strange := sorted(set(found) - set(expected)):
        raise ValueError(f"tensor {strange[0]} is not known to {config['architectures'][0]}")
    return outputs


def _outputs(tensor: GgufTensor, config: dict[str, Any]) -> Iterator[_Output]:
    """What one tensor of the file becomes: itself under another name, or one for each of its experts."""
    if tensor.name == _ROPE_FACTORS:
        return
    gemma = config["model_type"] == "gemma3_text"
    shape = tensor.shape[::-1]
    if tensor.name in _GLOBAL:
        yield _Output(_GLOBAL[tensor.name], shape, tensor, minus_one=gemma and "norm" in tensor.name)
        return
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", tensor.name)
    kind = match.group(2) if match else ""
    names = _GEMMA_LAYER if gemma else _LAYER
    if match and kind in names:
        heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}.get(kind, 0)
        interleaved = config["model_type"] in ("llama", "mistral")
        name = f"model.layers.{int(match.group(1))}.{names[kind]}.{match.group(3)}"
        yield _Output(name, shape, tensor, heads=heads if interleaved else 0, minus_one=gemma and "norm" in kind)
    elif match and kind in _EXPERTS and len(shape) == 3 and shape[0] == config.get("num_experts"):
        for expert in range(shape[0]):
            name = f"model.layers.{int(match.group(1))}.mlp.experts.{expert}.{_EXPERTS[kind]}.weight"
            yield _Output(name, shape[1:], tensor, first_row=expert * shape[1])
    else:
        raise ValueError(f"tensor {tensor.name} is not known to {config['architectures'][0]}")


def _expected_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, vocab, dim = config["hidden_size"], config["vocab_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    kind = config["model_type"]
    embedding = (vocab, hidden)
    expected: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": embedding, "model.norm.weight": (hidden,)}
    if not config["tie_word_embeddings"]:
        expected["lm_head.weight"] = (vocab, hidden)
    norms = {"input_layernorm", "post_attention_layernorm"}
    if kind == "gemma3_text":
        norms |= {"pre_feedforward_layernorm", "post_feedforward_layernorm"}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        expected |= {f"{at}.{norm}.weight": (hidden,) for norm in norms}
        for name, rows in (("q_proj", q), ("k_proj", kv), ("v_proj", kv)):
            expected[f"{at}.self_attn.{name}.weight"] = (rows, hidden)
            if kind == "qwen2":
                expected[f"{at}.self_attn.{name}.bias"] = (rows,)
        expected[f"{at}.self_attn.o_proj.weight"] = (hidden, q)
        if kind in ("qwen3", "qwen3_moe", "gemma3_text"):
            expected |= {f"{at}.self_attn.{name}.weight": (dim,) for name in ("q_norm", "k_norm")}
        expected |= _expected_mlp(config, f"{at}.mlp")
    return expected


def _expected_mlp(config: dict[str, Any], at: str) -> dict[str, tuple[int, ...]]:
    hidden, experts = config["hidden_size"], config.get("num_experts", 0)
    width = config["moe_intermediate_size"] if experts else config["intermediate_size"]
    expected: dict[str, tuple[int, ...]] = {f"{at}.gate.weight": (experts, hidden)} if experts else {}
    for prefix in [f"{at}.experts.{expert}" for expert in range(experts)] or [at]:
        expected |= {
            f"{prefix}.gate_proj.weight": (width, hidden),
            f"{prefix}.up_proj.weight": (width, hidden),
            f"{prefix}.down_proj.weight": (hidden, width),
        }
    return expected


def _copy(output: _Output, data: mmap.mmap, target: BinaryIO) -> None:
    """Writes one tensor in chunks of whole rows; a reordered one in chunks of whole heads."""
    columns = output.shape[-1] if len(output.shape) > 1 else 1
    rows = output.shape[0] if len(output.shape) > 1 else int(np.prod(output.shape))
    group = rows // output.heads if output.heads else 1
    step = max(1, _CHUNK_ELEMENTS // (columns * group)) * group
    if len(output.shape) == 1 and output.source.type_name not in ("F32", "F16"):
        raise ValueError(f"tensor {output.source.name}: a vector of type {output.source.type_name}")
    read = _reader(output, data, columns)
    for start in range(0, rows, step):
        values = read(output.first_row + start, min(step, rows - start))
        if output.heads:
            values = values.reshape(-1, group // 2, 2, columns).swapaxes(1, 2).reshape(values.shape)
        if output.minus_one:
            values = (values.astype(np.float32) - 1).astype(values.dtype)
        target.write(np.ascontiguousarray(values).data)


def _reader(output: _Output, data: mmap.mmap, columns: int) -> Callable[[int, int], Array]:
    """A function of first row and number of rows that gives ``[rows, columns]`` in the bytes of the output's type."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize, quantize

    source = output.source
    kind = GGMLQuantizationType[source.type_name]
    block, block_bytes = GGML_QUANT_SIZES[kind]
    if columns % block:
        raise ValueError(f"tensor {source.name}: rows of {columns} do not fill blocks of {block} ({source.type_name})")
    row_bytes = columns // block * block_bytes

    def read(first: int, count: int) -> Array:
        raw = data[source.offset + first * row_bytes : source.offset + (first + count) * row_bytes]
        if source.type_name in _NUMPY:
            return np.frombuffer(raw, _NUMPY[source.type_name]).reshape(count, columns)
        values = dequantize(np.frombuffer(raw, np.uint8).reshape(count, row_bytes), kind)
        return quantize(values, GGMLQuantizationType.BF16).view(np.uint16).reshape(count, columns)

    return read
