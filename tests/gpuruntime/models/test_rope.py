"""Frequencies against transformers' own functions, and dynamic scaling as a paged cache can have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.loader import resolve_max_len
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.models.config import load_model_config, parse_model_config
from gpuruntime.models.rope import RotaryTable, inverse_frequencies
from helpers.families import chunked_logits, error, reference_logits, save_random_model

HEAD_DIM = 64
KINDS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "yarn": {"factor": 8.0, "original_max_position_embeddings": 512},
    "yarn_factor": {"factor": 8.0, "original_max_position_embeddings": 512, "attention_factor": 1.3},
    "yarn_deepseek": {
        **{"factor": 8.0, "original_max_position_embeddings": 512, "mscale": 1.0, "mscale_all_dim": 0.7},
        **{"beta_fast": 16, "beta_slow": 2, "truncate": False},
    },
}


@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("name", KINDS)
def test_frequencies_equal_transformers(name: str, spelling: str) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    kind, length = name.split("_", maxsplit=1)[0], 6000
    params = {"rope_type": kind, **KINDS[name]}
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 4096}
    config = LlamaConfig(**sizes, rope_parameters={"rope_theta": 500_000.0, **params})
    expected, attention_factor = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=length)

    raw = {**sizes, "architectures": ["LlamaForCausalLM"], "vocab_size": 9, "intermediate_size": 8}
    new = {"rope_parameters": {"rope_theta": 500_000.0, **params}}
    old = {"rope_theta": 500_000.0, "rope_scaling": params}
    rope = parse_model_config({**raw, "num_hidden_layers": 1, **(new if spelling in new else old)}).rope
    torch.testing.assert_close(inverse_frequencies(rope, HEAD_DIM, length), expected, rtol=1e-6, atol=0)
    assert rope.attention_factor == pytest.approx(attention_factor)

    cos, sin = RotaryTable(rope, HEAD_DIM, 100).tables()
    angles = torch.arange(100).double()[:, None] * inverse_frequencies(rope, HEAD_DIM, 100).double()
    torch.testing.assert_close(cos.double(), angles.cos() * attention_factor, rtol=0, atol=1e-5)
    torch.testing.assert_close(sin.double(), angles.sin() * attention_factor, rtol=0, atol=1e-5)
    assert cos.shape == sin.shape == (100, HEAD_DIM // 2)


def test_dynamic_scaling_is_fixed_by_the_longest_context(tmp_path: Path) -> None:
    """Up to the original length as without scaling; beyond, as transformers scales a sequence of the longest length."""
    rope = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
    reference = save_random_model(tmp_path, "llama", max_position_embeddings=48, rope_parameters=rope)
    model_config = load_model_config(tmp_path)
    tokens = [(5 * i * i + i) % 200 + 3 for i in range(150)]
    blocks = [3, 1, 9, 2, 7, 4, 11, 5, 6, 8]

    config = EngineConfig(tmp_path, dtype="fp32", kv_bytes=1 << 20)
    assert resolve_max_len(config, model_config) == 48
    executor = TorchExecutor(config, model_config, 48)
    expected = reference_logits(reference, tokens[:48])
    for chunks in ([48], [30, 17, 1]):
        assert error(chunked_logits(executor, tokens[:48], chunks, blocks), expected) < 1e-4

    config = EngineConfig(tmp_path, dtype="fp32", kv_bytes=1 << 20, max_model_len=150)
    executor = TorchExecutor(config, model_config, resolve_max_len(config, model_config))
    expected = reference_logits(reference, tokens)
    for chunks in ([150], [40, 60, 48, 1, 1]):
        assert error(chunked_logits(executor, tokens, chunks, blocks), expected) < 1e-4

    with pytest.raises(ValueError, match="max_model_len 193: the model was made for 192 tokens"):
        resolve_max_len(EngineConfig(tmp_path, max_model_len=193), model_config)
