"""A random Llama of some kilobytes that the real runtime loads in a moment."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

HIDDEN, HEADS, LAYERS, FEED = 32, 2, 2, 64
TURNS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def write_tiny_llama(folder: Path, *, template: str = TURNS, context: int = 512) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate([*letters, "<|im_start|>", "<|im_end|>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": FEED,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HIDDEN // HEADS,
        "vocab_size": len(vocabulary),
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "bos_token_id": vocabulary["<|im_start|>"],
        "eos_token_id": vocabulary["<|im_end|>"],
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": vocabulary["<|im_end|>"]}))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": template, "bos_token": "<|im_start|>", "eos_token": "<|im_end|>"})
    )
    save_file(_weights(len(vocabulary)), folder / "model.safetensors", metadata={"format": "pt"})


def _weights(vocabulary: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * 0.1).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(vocabulary, HIDDEN), "model.norm.weight": np.ones(HIDDEN, "f4")}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            weights[f"{at}.self_attn.{name}.weight"] = matrix(HIDDEN, HIDDEN)
        for name, shape in (("gate_proj", (FEED, HIDDEN)), ("up_proj", (FEED, HIDDEN)), ("down_proj", (HIDDEN, FEED))):
            weights[f"{at}.mlp.{name}.weight"] = matrix(*shape)
        weights[f"{at}.input_layernorm.weight"] = np.ones(HIDDEN, "f4")
        weights[f"{at}.post_attention_layernorm.weight"] = np.ones(HIDDEN, "f4")
    return weights
