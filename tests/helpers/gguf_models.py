"""GGUF files of random models, written with the gguf library from transformers' own models.

Names come from the library's map, the order of rows and the norms from llama.cpp's documented layout: nothing here uses
the converter under test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter

TOKENS = 64
_SIZES: dict[str, Any] = {
    "vocab_size": TOKENS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
    "rms_norm_eps": 1e-5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def random_model(family: str, **changes: Any) -> Any:
    """transformers' own model of a GGUF architecture with random weights, norms included."""
    import transformers

    name = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}.get(family, "")
    name = name or {"qwen3moe": "Qwen3Moe", "gemma3": "Gemma3Text"}[family]
    config = getattr(transformers, f"{name}Config")(**{**_SIZES, **changes})
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def gguf_tensors(family: str, model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The model's weights as a GGUF file holds them, in fp32."""
    architecture = "llama" if family == "mistral" else family
    number = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(number, model.config.num_hidden_layers)
    tied = model.config.tie_word_embeddings
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, tensor in model.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        values = tensor.float().numpy()
        if ".experts." in name:
            found |= _expert_tensors(name, values)
            continue
        base, _, suffix = name.rpartition(".")
        renamed = names.get_name(base)
        assert renamed is not None, name
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = model.config.num_attention_heads if "q_proj" in name else model.config.num_key_value_heads
            values = interleaved(values, heads)
        if family == "gemma3" and "norm" in name:
            values = values + 1
        found[f"{renamed}.{suffix}"] = values
    return found


def interleaved(values: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """llama.cpp rotates neighbouring rows of a head, Hugging Face row i with row i + half."""
    size = len(values) // heads
    order = [head * size + part * (size // 2) + i for head in range(heads) for i in range(size // 2) for part in (0, 1)]
    return values[order]


def _expert_tensors(name: str, values: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """transformers keeps a layer's experts stacked, gate above up."""
    layer = name.split(".")[2]
    if name.endswith("gate_up_proj"):
        gate, up = np.split(values, 2, axis=1)
        return {f"blk.{layer}.ffn_gate_exps.weight": gate, f"blk.{layer}.ffn_up_exps.weight": up}
    assert name.endswith("down_proj"), name
    return {f"blk.{layer}.ffn_down_exps.weight": values}


def add_metadata(writer: GGUFWriter, model: Any) -> None:
    """Sizes and rotation; scaling is written by the test that wants it."""
    config = model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    if getattr(config, "num_experts", None):
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)


def add_byte_tokenizer(writer: GGUFWriter, *, pre: str = "gpt-2") -> None:
    """``TOKENS`` tokens: three control tokens and letters without merges."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    tokens = ["<pad>", "<s>", "</s>", *(chr(ord("!") + index) for index in range(TOKENS - 3))]
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (TOKENS - 3))
    writer.add_token_merges([])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")


def close(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_gguf(path: Path, family: str, model: Any, **extra: Any) -> None:
    """An F32 file of ``model``. ``extra``: further metadata, ``__`` for a dot, and tensors given as arrays."""
    writer = GGUFWriter(path, "llama" if family == "mistral" else family)
    add_metadata(writer, model)
    add_byte_tokenizer(writer, pre=str(extra.pop("pre", "gpt-2")))
    tensors = gguf_tensors(family, model)
    for key, value in extra.items():
        name = key.replace("__", ".")
        if isinstance(value, np.ndarray) or value is None:
            tensors[name] = value
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        else:
            writer.add_float32(name, value)
    for name, tensor in tensors.items():
        if tensor is not None:
            writer.add_tensor(name, np.ascontiguousarray(tensor, dtype=np.float32))
    close(writer)


def random_blocks(kind: Kind, rows: int, columns: int, seed: int) -> np.ndarray[Any, Any]:
    """Raw rows of ``kind``: quantized weights, or for types the library cannot write random bits with small scales."""
    random = np.random.default_rng(seed)
    values = (random.standard_normal((rows, columns)) * 0.1).astype(np.float32)
    if kind.name not in ("Q4_K", "Q5_K", "Q6_K"):
        return gguf.quantize(values, kind)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (rows * columns // block, size), dtype=np.uint8)
    scale = (random.random((len(raw), 2)) * 1e-3).astype(np.float16).view(np.uint8)
    # The half-precision scales stand first in Q4_K and Q5_K (d, dmin), last in Q6_K (d).
    if kind is Kind.Q6_K:
        raw[:, -2:] = scale[:, :2]
    else:
        raw[:, :4] = scale
    return raw.reshape(rows, -1)
