"""What a model is, from its headers alone: sizes, memory needs, and whether our engine can run it. No torch.

Reads a Hugging Face directory (``config.json`` and the header of each safetensors file) or one GGUF file.
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gpuruntime.gguf_header import GgufError, GgufHeader, is_gguf, read_gguf_header

SUPPORTED_ARCHITECTURES = (
    *("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"),
    *("Qwen3MoeForCausalLM", "Gemma3ForCausalLM"),
)
SUPPORTED_ROPE = ("default", "linear", "dynamic", "yarn", "llama3")
SUPPORTED_SAFETENSORS = ("BF16", "F16", "F32")
SUPPORTED_GGUF = (
    *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"),
)
DEFAULT_CONTEXT = 4096
MAX_HEADER_BYTES = 100 << 20  # safetensors' own limit

# A weight of a product, and a value of the embedding table and, where kv_dtype is "auto", of K and V.
_WEIGHT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "int8": 1, "fp8": 1}
_ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "int8": 2, "fp8": 2}
_GGUF_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3moe": "Qwen3MoeForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
}
_TYPE_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}

# Measured on a CPU with SmolLM2-135M and 64 requests at once: the interpreter, the door and torch with its compiled
# products; and what the tokenizer holds for each entry of its vocabulary.
_PROCESS_BYTES = 240 << 20
# Of it, pages of the libraries' files. How many the kernel maps follows from how those files came into its cache (93
# or 165 MiB of the same process), it shares them between replicas and may drop them: a measurement leaves them out.
LIBRARY_BYTES = 93 << 20
_TOKENIZER_BYTES = 700


class ModelFileError(ValueError):
    """The files cannot be read as a model; one sentence says which and why."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """``name`` is relative to the model. Names with the SHA-256 of their contents make the model's digest."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """``dtype``: the type most parameters are stored in, as the file names it. ``rope_scaling``: "default" is none."""

    format: Literal["safetensors", "gguf"]
    architecture: str
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    context_length: int
    dtype: str
    tensor_types: tuple[str, ...]
    quantization: str | None
    rope_scaling: str
    tied_embeddings: bool
    parameter_count: int
    tensor_bytes: int
    files: tuple[ModelFile, ...]

    @property
    def file_bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """Bytes of one replica on a CPU, with all KV memory in use.

    ``weights_bytes`` is what the engine's tensors hold, a packed copy of a tied head included; ``workspace_bytes``
    activations, logits, the tokenizer and the process itself; ``total_bytes`` is weights + KV memory + workspace.
    """

    weights_bytes: int
    kv_bytes_per_token: int
    kv_bytes: int
    kv_capacity_tokens: int
    workspace_bytes: int
    total_bytes: int


def read_model(path: Path) -> ModelInfo:
    """Reads headers only. Raises ``ModelFileError`` for missing, truncated or corrupt files."""
    try:
        if path.is_dir():
            return _read_directory(path)
        if path.is_file() and is_gguf(path):
            return _read_gguf(path)
    except OSError as error:
        raise ModelFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except GgufError as error:
        raise ModelFileError(str(error)) from error
    if not path.exists():
        raise ModelFileError(f"{path} does not exist")
    raise ModelFileError(f"{path.name} is neither a GGUF file nor a directory with config.json and safetensors")


def supports(info: ModelInfo) -> list[str]:
    """Every reason why the native engine cannot run the model; empty when it can."""
    reasons = []
    if info.architecture not in SUPPORTED_ARCHITECTURES:
        reasons.append(
            f"architecture {info.architecture} is not supported; supported: {_join(SUPPORTED_ARCHITECTURES)}"
        )
    if info.quantization is not None and info.format == "safetensors":
        reasons.append(f"quantization {info.quantization} is not supported; give bf16, fp16 or fp32 weights")
    types = SUPPORTED_GGUF if info.format == "gguf" else SUPPORTED_SAFETENSORS
    if strange := [name for name in info.tensor_types if name not in types]:
        reasons.append(f"tensors of type {_join(strange)} are not supported; supported: {_join(types)}")
    if info.rope_scaling not in SUPPORTED_ROPE:
        reasons.append(f"rope scaling {info.rope_scaling} is not supported; supported: {_join(SUPPORTED_ROPE)}")
    if info.n_heads % info.n_kv_heads:
        reasons.append(f"{info.n_heads} attention heads are no multiple of {info.n_kv_heads} key-value heads")
    return reasons


def memory_needs(
    info: ModelInfo,
    dtype: str = "bf16",
    max_model_len: int | None = None,
    max_num_seqs: int = 64,
    kv_bytes: int = 256 << 20,
    *,
    max_num_batched_tokens: int = 512,
    kv_dtype: str = "auto",
) -> MemoryNeeds:
    """What a replica takes with these settings. Raises ``ValueError`` for settings the model cannot run with."""
    if dtype not in _ELEMENT_BYTES:
        raise ValueError(f"dtype {dtype}: must be one of {_join(_ELEMENT_BYTES)}")
    element = _ELEMENT_BYTES[dtype]
    length = min(info.context_length, DEFAULT_CONTEXT) if max_model_len is None else max_model_len
    if not 2 <= length <= info.context_length:
        raise ValueError(f"max_model_len {length}: must be between 2 and the model's context of {info.context_length}")
    # int8 and fp8 K and V have one fp32 scale for each head of a token.
    per_head = info.head_dim + 4 if kv_dtype in ("int8", "fp8") else info.head_dim * element
    per_token = 2 * info.n_layers * info.n_kv_heads * per_head
    capacity = kv_bytes // (per_token * 16) * 16
    if capacity < 16:
        raise ValueError(f"kv_bytes {kv_bytes}: one block of 16 tokens takes {per_token * 16}")
    weights = _weights_bytes(info, dtype)
    attention = (info.n_heads + 2 * info.n_kv_heads) * info.head_dim
    activations = max_num_batched_tokens * (4 * info.hidden_size + 2 * attention + 3 * info.intermediate_size) * 4
    logits = 2 * max_num_seqs * info.vocab_size * 4
    rotary = 2 * length * info.head_dim * 4
    workspace = _PROCESS_BYTES + _TOKENIZER_BYTES * info.vocab_size + activations + logits + rotary
    return MemoryNeeds(
        weights_bytes=weights,
        kv_bytes_per_token=per_token,
        kv_bytes=kv_bytes,
        kv_capacity_tokens=capacity,
        workspace_bytes=workspace,
        total_bytes=weights + kv_bytes + workspace,
    )


def _weights_bytes(info: ModelInfo, dtype: str) -> int:
    """The embedding table is read by rows, so that a tied head is a copy of its own, packed for the product; in fp32
    it is the table itself. int8 rows have an fp32 scale each, of which the sizes here give the number well enough.
    """
    table = info.vocab_size * info.hidden_size
    body = info.parameter_count - (table if info.tied_embeddings else 2 * table)
    if dtype == "fp32":
        return info.parameter_count * _WEIGHT_BYTES[dtype]
    scales = 4 * ((body + table) // info.hidden_size) if dtype in ("int8", "fp8") else 0
    return table * _ELEMENT_BYTES[dtype] + (body + table) * _WEIGHT_BYTES[dtype] + scales


# --- A Hugging Face directory -----------------------------------------------------------------------------------


def _read_directory(path: Path) -> ModelInfo:
    config = json_object(path / "config.json")
    weights = _weight_files(path)
    types: Counter[str] = Counter()
    tensor_bytes = 0
    names: set[str] = set()
    for file in weights:
        for name, entry in _safetensors_header(file).items():
            count = math.prod(entry["shape"])
            types[entry["dtype"]] += count
            tensor_bytes += entry["data_offsets"][1] - entry["data_offsets"][0]
            names.add(name)
    if not types:
        raise ModelFileError(f"{path.name} holds no tensors")
    heads = _count(config, "num_attention_heads")
    hidden = _count(config, "hidden_size")
    rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    quantization = config.get("quantization_config")
    side = [p for p in sorted(path.iterdir()) if p.is_file() and p.suffix in (".json", ".jinja", ".model", ".txt")]
    return ModelInfo(
        format="safetensors",
        architecture=str((config.get("architectures") or [config.get("model_type", "unknown")])[0]),
        n_layers=_count(config, "num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=_count(config, "num_key_value_heads", heads),
        head_dim=_count(config, "head_dim", hidden // heads),
        hidden_size=hidden,
        intermediate_size=_count(config, "intermediate_size", 4 * hidden),
        vocab_size=_count(config, "vocab_size"),
        context_length=_count(config, "max_position_embeddings"),
        dtype=types.most_common(1)[0][0],
        tensor_types=tuple(sorted(types)),
        quantization=str(quantization.get("quant_method", "unknown")) if isinstance(quantization, dict) else None,
        rope_scaling=str(rope.get("rope_type") or rope.get("type") or "default"),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)) or "lm_head.weight" not in names,
        parameter_count=sum(types.values()),
        tensor_bytes=tensor_bytes,
        files=tuple(ModelFile(p.name, p.stat().st_size) for p in [*side, *weights]),
    )


def _weight_files(path: Path) -> list[Path]:
    index = path / "model.safetensors.index.json"
    if not index.is_file():
        single = path / "model.safetensors"
        files = [single] if single.is_file() else sorted(path.glob("*.safetensors"))
        if not files:
            raise ModelFileError(f"{path.name} holds no safetensors file")
        return files
    weight_map = json_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise ModelFileError(f"{index.name} has no weight_map")
    files = [path / name for name in sorted(set(weight_map.values()))]
    for file in files:
        if file.parent != path or not file.is_file():
            raise ModelFileError(f"the shard {file.name} that {index.name} names is missing")
    return files


def _safetensors_header(path: Path) -> dict[str, dict[str, Any]]:
    """The table of tensors (https://huggingface.co/docs/safetensors): 8 bytes of length, then JSON, then the data."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise ModelFileError(f"{path.name} is cut short or no safetensors file")
        data = file.read(length)
    try:
        table = json.loads(data)
        table.pop("__metadata__", None)
        end = max((_checked_end(entry) for entry in table.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path.name} has a corrupt header") from error
    if 8 + length + end != size:
        raise ModelFileError(f"{path.name} is cut short: its tensors need {8 + length + end} bytes, it has {size}")
    return dict(table)


def _checked_end(entry: dict[str, Any]) -> int:
    start, end = entry["data_offsets"]
    expected = math.prod(entry["shape"]) * _TYPE_BYTES.get(entry["dtype"], 0)
    if start < 0 or end < start or (expected and end - start != expected):
        raise ValueError("offsets do not match the shape")
    return int(end)


def json_object(path: Path) -> dict[str, Any]:
    """Raises ``ModelFileError`` where it is missing or anything else."""
    if not path.is_file():
        raise ModelFileError(f"{path.parent.name} has no {path.name}")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path.name} is not valid JSON") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"{path.name} is not a JSON object")
    return value


# --- GGUF -------------------------------------------------------------------------------------------------------


def _read_gguf(path: Path) -> ModelInfo:
    header = read_gguf_header(path)
    meta = header.metadata
    name = str(meta.get("general.architecture", "unknown"))
    fields = {key.removeprefix(f"{name}."): value for key, value in meta.items() if key.startswith(f"{name}.")}
    heads = _count(fields, "attention.head_count")
    hidden = _count(fields, "embedding_length")
    types: Counter[str] = Counter()
    for tensor in header.tensors:
        types[tensor.type_name] += tensor.elements
    if not types:
        raise ModelFileError(f"{path.name} holds no tensors")
    bulk = types.most_common(1)[0][0]
    return ModelInfo(
        format="gguf",
        architecture=_GGUF_ARCHITECTURES.get(name, name),
        n_layers=_count(fields, "block_count"),
        n_heads=heads,
        n_kv_heads=_count(fields, "attention.head_count_kv", heads),
        head_dim=_count(fields, "attention.key_length", hidden // heads),
        hidden_size=hidden,
        intermediate_size=_count(fields, "feed_forward_length", 4 * hidden),
        vocab_size=_gguf_vocabulary(header, fields),
        context_length=_count(fields, "context_length"),
        dtype=bulk,
        tensor_types=tuple(sorted(types)),
        quantization=None if bulk in ("F32", "F16", "BF16") else bulk,
        rope_scaling=_gguf_rope(fields),
        tied_embeddings=not any(tensor.name == "output.weight" for tensor in header.tensors),
        parameter_count=sum(types.values()),
        tensor_bytes=sum(tensor.nbytes for tensor in header.tensors),
        files=(ModelFile(path.name, header.file_bytes),),
    )


def _gguf_vocabulary(header: GgufHeader, fields: dict[str, Any]) -> int:
    tokens = header.lengths.get("tokenizer.ggml.tokens")
    return tokens if tokens else _count(fields, "vocab_size")


def _gguf_rope(fields: dict[str, Any]) -> str:
    kind = str(fields.get("rope.scaling.type", "none"))
    return "default" if kind == "none" else kind


def _count(fields: dict[str, Any], key: str, default: int | None = None) -> int:
    value = fields.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModelFileError(f"the model's header has no usable {key} (found {value!r})")
    return value


def _join(names: Any) -> str:
    return ", ".join(names)
