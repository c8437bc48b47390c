"""Converted GGUF files: tensors against the gguf library, logits against the model the file was written from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from gpuruntime.loading.convert import CorruptFile, convert
from gpuruntime.modelinfo import read_model, supports
from helpers.gguf_models import add_byte_tokenizer, close, interleaved, random_blocks, random_model, write_gguf

torch.set_num_threads(1)
HIDDEN, HEADS, KV_HEADS, FEED, VOCAB = 256, 4, 2, 512, 64
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
SHAPES = {
    "token_embd": (VOCAB, HIDDEN),
    "output": (VOCAB, HIDDEN),
    "blk.0.attn_q": (HIDDEN, HIDDEN),
    "blk.0.attn_k": (HIDDEN // 2, HIDDEN),
    "blk.0.attn_v": (HIDDEN // 2, HIDDEN),
    "blk.0.attn_output": (HIDDEN, HIDDEN),
    "blk.0.ffn_gate": (FEED, HIDDEN),
    "blk.0.ffn_up": (FEED, HIDDEN),
    "blk.0.ffn_down": (HIDDEN, FEED),
}


def quantized_llama(path: Path, kind: Kind) -> dict[str, np.ndarray[Any, Any]]:
    """A file whose matrices are all of ``kind``; returns their values as the gguf library reads them."""
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    add_byte_tokenizer(writer)
    values = {}
    for index, (name, (rows, columns)) in enumerate(SHAPES.items()):
        raw = random_blocks(kind, rows, columns, index)
        writer.add_tensor(f"{name}.weight", raw, raw_dtype=kind)
        values[name] = gguf.dequantize(raw, kind).reshape(rows, columns)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.linspace(0.5, 1.5, HIDDEN, dtype=np.float32))
    close(writer)
    return values


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_read_as_the_library_reads_it(tmp_path: Path, name: str) -> None:
    source = tmp_path / "a.gguf"
    values = quantized_llama(source, Kind[name])
    assert supports(read_model(source)) == []
    convert(source, tmp_path / "out")
    stored = load_file(tmp_path / "out" / "model.safetensors")
    attention, mlp = "model.layers.0.self_attn", "model.layers.0.mlp"
    pairs = {
        "token_embd": "model.embed_tokens",
        "output": "lm_head",
        "blk.0.attn_v": f"{attention}.v_proj",
        "blk.0.attn_output": f"{attention}.o_proj",
        "blk.0.ffn_gate": f"{mlp}.gate_proj",
        "blk.0.ffn_up": f"{mlp}.up_proj",
        "blk.0.ffn_down": f"{mlp}.down_proj",
    }
    kept = {"F32": torch.float32, "F16": torch.float16}.get(name, torch.bfloat16)
    for theirs, ours in pairs.items():
        expected = torch.from_numpy(values[theirs].copy()).to(kept)
        assert torch.equal(stored[f"{ours}.weight"], expected), theirs
        assert stored[f"{ours}.weight"].dtype == kept
    for theirs, ours, heads in (("blk.0.attn_q", "q_proj", HEADS), ("blk.0.attn_k", "k_proj", KV_HEADS)):
        back = interleaved(stored[f"{attention}.{ours}.weight"].float().numpy(), heads)
        assert np.array_equal(back, torch.from_numpy(values[theirs].copy()).to(kept).float().numpy())
    assert np.array_equal(stored["model.norm.weight"].numpy(), np.linspace(0.5, 1.5, HIDDEN, dtype=np.float32))
    assert len(stored) == len(SHAPES) + 3


def llama3_factors(theta: float, head_dim: int) -> np.ndarray[Any, Any]:
    """What llama.cpp's converter stores for the scaling ``LLAMA3``."""
    factors = []
    for index in range(0, head_dim, 2):
        wavelength = 2 * math.pi * theta ** (index / head_dim)
        if wavelength < 8192 / 4:
            factors.append(1.0)
        elif wavelength > 8192:
            factors.append(32.0)
        else:
            smooth = (8192 / wavelength - 1) / 3
            factors.append(1 / ((1 - smooth) / 32 + smooth))
    return np.array(factors, dtype=np.float32)


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
GEMMA_LAYERS = ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]
GEMMA_ROPES = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
FAMILIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("llama", {"rope_theta": 5e5, "head_dim": 16}, {}),
    "llama, tied": ("llama", {"tie_word_embeddings": True}, {}),
    "llama 3": (
        "llama",
        {"rope_parameters": LLAMA3, "head_dim": 64, "max_position_embeddings": 131072},
        {"rope_freqs__weight": llama3_factors(5e5, 64)},
    ),
    "llama, linear": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}},
        {"llama__rope__scaling__type": "linear", "llama__rope__scaling__factor": 4.0},
    ),
    "mistral": ("mistral", {"sliding_window": 8, "head_dim": 32}, {"llama__attention__sliding_window": 8}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}, {}),
    "qwen2, yarn": (
        "qwen2",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 32,
                "rope_theta": 1e6,
            }
        },
        {
            "qwen2__rope__scaling__type": "yarn",
            "qwen2__rope__scaling__factor": 4.0,
            "qwen2__rope__scaling__original_context_length": 32,
        },
    ),
    "qwen3": ("qwen3", {"head_dim": 32}, {}),
    "qwen3moe": (
        "qwen3moe",
        {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True},
        {},
    ),
    "gemma3": (
        "gemma3",
        {
            "num_hidden_layers": 7,
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": 8,
            "layer_types": GEMMA_LAYERS,
            "rope_parameters": GEMMA_ROPES,
            "tie_word_embeddings": True,
        },
        {
            "gemma3__attention__sliding_window": 8,
            "gemma3__rope__scaling__type": "linear",
            "gemma3__rope__scaling__factor": 8.0,
        },
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_converted_family_is_the_model_it_was_written_from(tmp_path: Path, name: str) -> None:
    from transformers import AutoModelForCausalLM

    family, changes, extra = FAMILIES[name]
    model = random_model(family, **changes)
    source = tmp_path / "a.gguf"
    write_gguf(source, family, model, **extra)
    assert [reason for reason in supports(read_model(source)) if "architecture" in reason or "rope" in reason] == []
    convert(source, tmp_path / "out")
    converted = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    assert type(converted) is type(model)
    tokens = torch.randint(3, VOCAB, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected, got = model(tokens).logits, converted(tokens).logits
    assert (got - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert converted.state_dict().keys() == model.state_dict().keys()


def test_a_wrong_layout_would_be_noticed(tmp_path: Path) -> None:
    """The parity above fails when the rows of q and k stay as llama.cpp has them."""
    from transformers import AutoModelForCausalLM

    model = random_model("llama")
    write_gguf(tmp_path / "a.gguf", "llama", model)
    convert(tmp_path / "a.gguf", tmp_path / "out")
    converted = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    weight = model.model.layers[0].self_attn.q_proj.weight.detach().numpy()
    assert not np.array_equal(weight, interleaved(weight, 4))
    assert torch.equal(converted.model.layers[0].self_attn.q_proj.weight, torch.from_numpy(weight))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"blk__0__ffn_up__weight": None}, r"tensor model\.layers\.0\.mlp\.up_proj\.weight is missing"),
        ({"blk__0__ffn_up__weight": np.ones((8, 64))}, r"up_proj\.weight has shape \[8, 64\].*\[96, 64\]"),
        ({"blk__0__ssm_a__weight": np.ones(4)}, "tensor blk.0.ssm_a.weight is not known to LlamaForCausalLM"),
        ({"blk__9__attn_v__weight": np.ones((32, 64))}, "layers.9.self_attn.v_proj.weight is not known"),
        ({"rope_freqs__weight": np.linspace(1, 9, 8)}, "does not hold the rotation factors of Llama 3"),
        ({"llama__rope__scaling__type": "longrope"}, "rope scaling longrope is not supported"),
        ({"llama__expert_count": 8}, "llama.expert_count = 8 is not supported"),
        ({"llama__final_logit_softcapping": 30.0}, "llama.final_logit_softcapping = 30.0 is not supported"),
        ({"pre": "grok-9"}, "tokenizer.ggml.pre grok-9: how it splits text is not known; supported: gpt-2, smollm"),
    ],
)
def test_what_does_not_fit_is_named_and_leaves_nothing(tmp_path: Path, extra: dict[str, Any], message: str) -> None:
    source = tmp_path / "a.gguf"
    write_gguf(source, "llama", random_model("llama"), **extra)
    with pytest.raises(ValueError, match=message) as caught:
        convert(source, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_flipped_bytes_end_in_a_model_or_one_clear_error(tmp_path: Path, data: st.DataObject) -> None:
    whole = tmp_path / "whole.gguf"
    if not whole.exists():
        write_gguf(whole, "llama", random_model("llama", hidden_size=32, intermediate_size=32, head_dim=8))
    raw = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(4, 3000))] = data.draw(st.integers(0, 255))
    spoiled = tmp_path / "spoiled.gguf"
    spoiled.write_bytes(raw)
    out = tmp_path / "out"
    try:
        convert(spoiled, out)
    except ValueError:
        assert not out.exists()
        return
    for path in out.iterdir():
        path.unlink()
    out.rmdir()


def test_a_file_cut_anywhere_is_corrupt(tmp_path: Path) -> None:
    source = tmp_path / "a.gguf"
    write_gguf(source, "qwen2", random_model("qwen2"))
    data = source.read_bytes()
    for size in (0, 3, 24, 500, 2000, len(data) // 2, len(data) - 64):
        source.write_bytes(data[:size])
        with pytest.raises(CorruptFile, match="truncated or corrupt"):
            convert(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_the_side_files(tmp_path: Path) -> None:
    source = tmp_path / "a.gguf"
    write_gguf(source, "llama", random_model("llama"), general__basename="SmolLM2", tokenizer__ggml__eot_token_id=5)
    convert(source, tmp_path / "out")
    generation = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert generation["eos_token_id"] == [2, 5]
    assert (generation["temperature"], generation["top_p"], generation["bos_token_id"]) == (0.2, 0.9, 1)
    settings_json = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert (settings_json["bos_token"], settings_json["eos_token"]) == ("<s>", "</s>")
    assert "messages" in (tmp_path / "out" / "chat_template.jinja").read_text()
