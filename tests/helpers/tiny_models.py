"""Model files small enough to make in a test: random Llama weights, whole, cut or foreign."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}


def tiny_directory(path: Path, *, seed: int = 0, **config: Any) -> Path:
    """A Hugging Face directory: config.json, model.safetensors (fp16), tokenizer.json, generation_config.json."""
    path.mkdir(parents=True)
    settings = {**CONFIG, **config}
    random = np.random.default_rng(seed)
    hidden, inner, heads = settings["hidden_size"], settings["intermediate_size"], settings["num_attention_heads"]
    kv = hidden // heads * settings["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (settings["vocab_size"], hidden), "model.norm.weight": (hidden,)}
    for layer in range(settings["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        shapes |= {
            f"{name}.self_attn.q_proj.weight": (hidden, hidden),
            f"{name}.self_attn.k_proj.weight": (kv, hidden),
            f"{name}.self_attn.v_proj.weight": (kv, hidden),
            f"{name}.self_attn.o_proj.weight": (hidden, hidden),
            f"{name}.mlp.gate_proj.weight": (inner, hidden),
            f"{name}.mlp.up_proj.weight": (inner, hidden),
            f"{name}.mlp.down_proj.weight": (hidden, inner),
            f"{name}.input_layernorm.weight": (hidden,),
            f"{name}.post_attention_layernorm.weight": (hidden,),
        }
    tensors = {name: random.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(settings))
    (path / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}')
    (path / "generation_config.json").write_text('{"temperature": 0.6, "top_p": 0.95, "top_k": -3, "eos_token_id": 2}')
    return path


def parameters_of(path: Path) -> int:
    """Counted from the tensors themselves."""
    from safetensors.numpy import load_file

    return sum(tensor.size for tensor in load_file(path / "model.safetensors").values())
