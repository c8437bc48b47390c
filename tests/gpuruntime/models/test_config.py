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
    assert config.kv_bytes_per_token(1, 4) == 2 * 2 * 4 * (16 + 4)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM"),
        ({"architectures": None, "model_type": "t5"}, "t5"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "longrope"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.5}}, "rope scaling linear with factor 0.5"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3"),
    ],
)
def test_what_the_engine_cannot_run_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModel, match=named):
        parse_model_config({**OLD, **change})


QWEN3 = {**OLD, "architectures": ["Qwen3ForCausalLM"], "rope_scaling": None, "num_hidden_layers": 5, "head_dim": 32}
MOE = {
    **QWEN3,
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}
GEMMA = {
    **QWEN3,
    "architectures": ["Gemma3ForCausalLM"],
    "hidden_activation": "gelu_pytorch_tanh",
    "num_hidden_layers": 7,
    "sliding_window": 512,
    "rope_theta": 1_000_000,
    "query_pre_attn_scalar": 64,
}


@pytest.mark.parametrize(
    ("raw", "windows"),
    [
        ({**OLD, "sliding_window": 100}, (None, None)),
        ({**OLD, "architectures": ["MistralForCausalLM"], "sliding_window": 100}, (100, 100)),
        ({**OLD, "architectures": ["MistralForCausalLM"], "sliding_window": None}, (None, None)),
        ({**OLD, "architectures": ["MistralForCausalLM"]}, (4096, 4096)),
        ({**QWEN3, "sliding_window": 100, "max_window_layers": 3}, (None,) * 5),
        (
            {**QWEN3, "use_sliding_window": True, "sliding_window": 100, "max_window_layers": 3},
            (None, None, None, 100, 100),
        ),
        ({**MOE, "use_sliding_window": True, "sliding_window": 100, "max_window_layers": 3}, (100,) * 5),
        (GEMMA, (512, 512, 512, 512, 512, None, 512)),
        ({**GEMMA, "sliding_window_pattern": 3}, (512, 512, None, 512, 512, None, 512)),
        (
            {**GEMMA, "layer_types": ["full_attention"] + ["sliding_attention"] * 6},
            (None, 512, 512, 512, 512, 512, 512),
        ),
    ],
)
def test_each_layer_has_its_window(raw: dict[str, Any], windows: tuple[int | None, ...]) -> None:
    assert parse_model_config(raw).sliding_windows == windows


def test_biases_and_norms_follow_the_family() -> None:
    def parts(name: str, **changes: Any) -> tuple[bool, bool, bool, bool]:
        config = parse_model_config({**OLD, "architectures": [f"{name}ForCausalLM"], "rope_scaling": None, **changes})
        return config.attention_bias, config.output_bias, config.mlp_bias, config.qk_norm

    assert parts("Llama") == (False, False, False, False)
    assert parts("Llama", attention_bias=True, mlp_bias=True) == (True, True, True, False)
    assert parts("Mistral", attention_bias=True) == (False, False, False, False)
    assert parts("Qwen2", attention_bias=False) == (True, False, False, False)
    assert parts("Qwen3") == (False, False, False, True)
    assert parts("Qwen3", attention_bias=True) == (True, True, False, True)


def test_gemma_3_in_both_spellings() -> None:
    old = {**GEMMA, "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "rope_local_base_freq": 20_000}
    ropes = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1_000_000},
        "sliding_attention": {"rope_type": "default", "rope_theta": 20_000},
    }
    new = {key: value for key, value in GEMMA.items() if not key.startswith("rope")} | {"rope_parameters": ropes}
    config = parse_model_config(old)
    assert config == parse_model_config(new)
    assert (config.rope.theta, config.rope.factor) == (1e6, 8.0)
    assert config.local_rope is not None
    assert (config.local_rope.theta, config.local_rope.kind) == (2e4, "default")
    assert [rope.theta for rope in config.layer_ropes] == [2e4] * 5 + [1e6, 2e4]
    assert (config.attention_scale, config.embedding_scale, config.norm_offset) == (0.125, 8.0, 1.0)
    assert (config.tied_head, config.activation) == (True, "gelu_tanh")


def test_experts_by_layer() -> None:
    experts = parse_model_config({**MOE, "decoder_sparse_step": 2, "mlp_only_layers": [3]}).experts
    assert experts is not None
    assert (experts.count, experts.per_token, experts.intermediate_size, experts.normalized) == (8, 2, 24, False)
    assert experts.layers == (False, True, False, False, False)
    renamed = {**MOE, "num_local_experts": 4, "norm_topk_prob": True}
    del renamed["num_experts"]
    experts = parse_model_config(renamed).experts
    assert experts is not None
    assert (experts.count, experts.normalized, experts.layers) == (4, True, (True,) * 5)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({**GEMMA, "hidden_activation": "silu"}, "hidden_activation = silu"),
        ({**GEMMA, "final_logit_softcapping": 30.0}, "final_logit_softcapping = 30.0"),
        ({**GEMMA, "use_bidirectional_attention": True}, "use_bidirectional_attention = True"),
        ({**GEMMA, "layer_types": ["full_attention"] * 6 + ["chunked_attention"]}, "layer type chunked_attention"),
        ({**MOE, "num_experts_per_tok": 9}, "num_experts_per_tok 9 is more than num_experts 8"),
    ],
)
def test_what_a_familys_layers_do_not_implement_is_refused(raw: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModel, match=named):
        parse_model_config(raw)


def test_layer_types_must_name_every_layer() -> None:
    with pytest.raises(ValueError, match="layer_types names 2 layers, num_hidden_layers is 7"):
        parse_model_config({**GEMMA, "layer_types": ["full_attention"] * 2})


def test_a_scaled_context_may_be_longer_than_the_models_own() -> None:
    def longest(**rope: Any) -> int:
        return parse_model_config({**OLD, "rope_scaling": rope}).longest_context

    assert longest(type="linear", factor=4.0) == 2048
    assert longest(type="dynamic", factor=4.0) == 8192
    assert longest(type="yarn", factor=4.0) == 8192
    assert longest(type="yarn", factor=4.0, original_max_position_embeddings=256) == 2048


@pytest.mark.parametrize("value", [None, 0, "64", -1])
def test_a_malformed_size_names_its_field(value: Any) -> None:
    with pytest.raises(ValueError, match="hidden_size must be a positive integer"):
        parse_model_config({**OLD, "hidden_size": value})


def test_end_tokens_may_be_one_many_or_none() -> None:
    assert parse_token_ids(None) == ()
    assert parse_token_ids(2) == (2,)
    assert parse_token_ids([128001, 128009]) == (128001, 128009)
