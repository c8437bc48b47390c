"""The C++ step's logits over sizes, options and families: against its arithmetic in float64, and transformers.

Errors are relative to the largest logit. Against the same arithmetic, fp32's own rounding (1e-7) tips single roundings
over to bf16's next value, each 2^-8 of one term of a sum. Against fp32, every term of every product is rounded to 2^-9:
errors add like a random walk over the products on a logit's way (four a layer and the head), and the largest of all
lies within four of that spread. int8 steps are 2^-7 of a row's or a head's largest value where bf16's are 2^-9 of each.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.models.config import load_model_config
from helpers.families import LLAMA3, YARN, error, reference_logits
from helpers.native import Row, all_logits, exact_logits, make_batch, native, save_native_model

SAME, SAME_MEAN = 2**-7, 1e-3
ROUNDED = 4 * 2**-9 * math.sqrt(4 * 2 + 1)
TOKENS = np.random.default_rng(3).integers(3, 200, 53).tolist()
BLOCKS = [9, 2, 7, 4]
ALL = {"sliding_window": None}
QWEN_WINDOW = {"use_sliding_window": True, "max_window_layers": 1}


def heads(kv_heads: int, group: int, head_dim: int) -> dict[str, int]:
    return {"num_attention_heads": kv_heads * group, "num_key_value_heads": kv_heads, "head_dim": head_dim}


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "smallest": ("llama", {"hidden_size": 32, "intermediate_size": 32, **heads(1, 1, 32)}),
    "one_group": ("mistral", {**ALL, "hidden_size": 64, "intermediate_size": 160, **heads(3, 1, 64)}),
    "groups_of_2": ("llama", {"hidden_size": 160, "intermediate_size": 32, **heads(2, 2, 96)}),
    "groups_of_3": ("mistral", {**ALL, "hidden_size": 96, "intermediate_size": 96, **heads(3, 3, 32)}),
    "groups_of_6": ("mistral", {**ALL, "hidden_size": 160, "intermediate_size": 160, **heads(1, 6, 128)}),
    "groups_of_17": ("mistral", {**ALL, "hidden_size": 32, **heads(1, 17, 32)}),
    "wide_heads": ("mistral", {**ALL, "hidden_size": 64, **heads(2, 3, 128)}),
    "tied": ("llama", {"tie_word_embeddings": True, **heads(2, 2, 64)}),
    "biases": ("llama", {"attention_bias": True, "mlp_bias": True, **heads(2, 3, 96)}),
    "llama3_rope": ("llama", {"rope_parameters": LLAMA3}),
    "yarn_rope": ("llama", {"rope_parameters": YARN}),
    "mistral": ("mistral", ALL),
    **{f"window_{size}": ("mistral", {"sliding_window": size}) for size in (1, 15, 16, 17, 33, 52)},
    "qwen2": ("qwen2", {"hidden_size": 64}),
    "qwen2_window": ("qwen2", {**QWEN_WINDOW, "sliding_window": 17}),
    "qwen3": ("qwen3", heads(2, 3, 64)),
    "qwen3_window_and_bias": ("qwen3", {**QWEN_WINDOW, "sliding_window": 31, "attention_bias": True}),
}
# Each with its limit against fp32.
KINDS = {
    ("bf16", "auto"): ROUNDED,
    ("bf16", "int8"): 2 * ROUNDED,
    ("int8", "auto"): 4 * ROUNDED,
    ("int8", "int8"): 4 * ROUNDED,
}


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_the_same_arithmetic_and_transformers(tmp_path: Path, name: str) -> None:
    family, changes = CASES[name]
    reference = reference_logits(save_native_model(tmp_path, family, **changes), TOKENS)
    for (dtype, kv_dtype), limit in KINDS.items():
        found = all_logits(native(tmp_path, dtype=dtype, kv_dtype=kv_dtype), TOKENS, BLOCKS)
        exact = exact_logits(tmp_path, TOKENS, int8=dtype == "int8", int8_kv=kv_dtype == "int8")
        assert error(found, exact) < SAME, (dtype, kv_dtype)
        assert float((found - exact).abs().mean() / exact.abs().max()) < SAME_MEAN, (dtype, kv_dtype)
        assert error(found, reference) < limit, (dtype, kv_dtype)


@pytest.mark.parametrize(("dtype", "kv_dtype"), KINDS)
def test_a_mixed_batch_equals_the_same_arithmetic(tmp_path: Path, dtype: str, kv_dtype: str) -> None:
    """1 to 40 tokens a row, some rows in the middle of a context, some that want no logits."""
    save_native_model(tmp_path, "mistral", sliding_window=17)
    executor = native(tmp_path, dtype=dtype, kv_dtype=kv_dtype)
    random = np.random.default_rng(5)
    prompts = [random.integers(3, 200, length).tolist() for length in (1, 40, 16, 17, 33, 2, 58, 25)]
    starts = [0, 0, 0, 16, 5, 1, 57, 9]
    tables = np.arange(64).reshape(8, 8)[:, ::-1].tolist()
    before = [
        Row(prompt, 0, start, table) for prompt, start, table in zip(prompts, starts, tables, strict=True) if start
    ]
    executor.logits(make_batch(before))
    rows = [
        Row(prompt, start, len(prompt) - start, table, wanted=index != 3)
        for index, (prompt, start, table) in enumerate(zip(prompts, starts, tables, strict=True))
    ]
    found = executor.logits(make_batch(rows))
    kinds = {"int8": dtype == "int8", "int8_kv": kv_dtype == "int8"}
    expected = [exact_logits(tmp_path, row.tokens, **kinds)[-1] for row in rows if row.wanted]
    assert error(found, torch.stack(expected)) < SAME


def test_bf16_stays_close_to_pytorch_in_fp32(tmp_path: Path) -> None:
    save_native_model(tmp_path)
    config = load_model_config(tmp_path)
    torch_executor = TorchExecutor(EngineConfig(tmp_path, dtype="fp32", kv_bytes=1 << 20), config, 512)
    expected = all_logits(torch_executor, TOKENS, BLOCKS)
    assert error(all_logits(native(tmp_path), TOKENS, BLOCKS), expected) < ROUNDED
