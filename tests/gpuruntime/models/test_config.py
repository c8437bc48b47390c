"""config.json in both spellings; what is not supported is named."""

from __future__ import annotations

from typing import Any

import pytest

from gpuruntime.models.config import RopeConfig, UnsupportedModel, parse_model_config, parse_token_ids

OLD: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 2048,
    "rope_theta": 500_000.0,
    "rope_scaling": {
        "type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
NEW = {key: value for key, value in OLD.items() if not key.startswith("rope")} | {
    "rope_parameters": {"rope_theta": 500_000.0, "rope_type": "llama3", **OLD["rope_scaling"]}
}


def test_both_spellings_of_rope_mean_the_same() -> None:
    expected = RopeConfig(500_000.0, "llama3", 8.0, 1.0, 4.0, 8192)
    assert parse_model_config(OLD).rope == expected
    assert parse_model_config(NEW).rope == expected


def test_absent_fields_take_transformers_defaults() -> None:
    config = parse_model_config(OLD)
    assert (config.head_dim, config.num_kv_heads, config.tied_head, config.attention_bias) == (16, 4, False, False)
    assert config.kv_bytes_per_token(2) == 2 * 2 * 4 * 16 * 2


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({"architectures": None, "model_type": "t5"}, "t5"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "longrope"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3"),
    ],
)
def test_what_the_engine_cannot_run_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModel, match=named):
        parse_model_config({**OLD, **change})


@pytest.mark.parametrize("value", [None, 0, "64", -1])
def test_a_malformed_size_names_its_field(value: Any) -> None:
    with pytest.raises(ValueError, match="hidden_size must be a positive integer"):
        parse_model_config({**OLD, "hidden_size": value})


def test_end_tokens_may_be_one_many_or_none() -> None:
    assert parse_token_ids(None) == ()
    assert parse_token_ids(2) == (2,)
    assert parse_token_ids([128001, 128009]) == (128001, 128009)
