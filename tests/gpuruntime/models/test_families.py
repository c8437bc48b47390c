"""Every family and every kind of rotation against transformers on random fp32 checkpoints: logits and greedy tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gpuruntime.engine.torch_executor import TorchExecutor
from helpers.engine import greedy, make_engine
from helpers.families import LLAMA3, YARN, Recorder, chunked_logits, error, one_row, reference_logits, save_random_model

TOLERANCE = 1e-4
PROMPT = [1, *[(7 * i * i + 3 * i + 5) % 200 + 3 for i in range(52)]]
# The second shares two blocks with the first, the third nothing.
PROMPTS = [PROMPT, [*PROMPT[:40], *range(90, 103)], list(range(150, 120, -1))]
DEEPSEEK_YARN = {**YARN, "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 1.0, "mscale_all_dim": 0.7, "truncate": False}
LINEAR = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}
QWEN_WINDOW = {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
GEMMA = {"num_hidden_layers": 4, "sliding_window_pattern": 2, "sliding_window": 20, "query_pre_attn_scalar": 24}
GEMMA_ROPES = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    "full_attention": {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama_one_kv_head": ("llama", {"num_key_value_heads": 1}),
    "llama_all_heads": ("llama", {"num_key_value_heads": 6}),
    "llama_tied": ("llama", {"tie_word_embeddings": True}),
    "llama_wide_heads": ("llama", {"head_dim": 32}),
    "llama_biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "rope_linear": ("llama", {"rope_parameters": LINEAR}),
    "rope_llama3": ("llama", {"rope_parameters": LLAMA3}),
    "rope_yarn": ("llama", {"rope_parameters": YARN}),
    "rope_yarn_deepseek": ("llama", {"rope_parameters": DEEPSEEK_YARN}),
    "rope_dynamic": ("llama", {"rope_parameters": DYNAMIC}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral_window": ("mistral", {"sliding_window": 20}),
    "mistral_window_of_a_block": ("mistral", {"sliding_window": 16}),
    "mistral_window_of_one": ("mistral", {"sliding_window": 1}),
    "mistral_window_one_short": ("mistral", {"sliding_window": 52}),
    "qwen2": ("qwen2", {}),
    "qwen2_window": ("qwen2", QWEN_WINDOW),
    "qwen3": ("qwen3", {}),
    "qwen3_window": ("qwen3", {**QWEN_WINDOW, "attention_bias": True}),
    "qwen3_moe": ("qwen3_moe", {**EXPERTS, "norm_topk_prob": True}),
    "qwen3_moe_some_layers": (
        "qwen3_moe",
        {**EXPERTS, "num_hidden_layers": 4, "decoder_sparse_step": 2, "mlp_only_layers": [1]},
    ),
    "gemma3": ("gemma3", GEMMA),
    "gemma3_long": ("gemma3", {**GEMMA, "rope_parameters": GEMMA_ROPES, "tie_word_embeddings": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_logits_and_greedy_tokens_equal_transformers(tmp_path: Path, case: str) -> None:
    family, changes = CASES[case]
    reference = save_random_model(tmp_path, family, **changes)
    executor = make_engine(tmp_path, blocks=32).executor

    expected = reference_logits(reference, PROMPT)
    for chunks in ([53], [16, 16, 21], [1, 31, 20, 1], [20] + [1] * 33):
        found = chunked_logits(executor, PROMPT, chunks, blocks=[9, 2, 7, 4])
        assert error(found, expected) < TOLERANCE, chunks

    # 14 blocks for three requests that grow to 8 each: chunks beside decodes, a prefix hit and preemptions.
    recorder = Recorder(executor)
    engine = make_engine(tmp_path, blocks=14, max_tokens=24, executor=recorder)
    keys = [engine.add(PROMPTS[0], greedy(64))]
    for _ in range(4):
        engine.step()
    keys += [engine.add(prompt, greedy(64)) for prompt in PROMPTS[1:]]
    engine.drain()
    assert engine.core.scheduler.preemptions > 0
    assert engine.ends[keys[1]].timings.cached_tokens == 32
    logits = []
    for key, prompt in zip(keys, PROMPTS, strict=True):
        text = engine.texts[key]
        logits.append(reference_logits(reference, [*prompt, *text[:-1]]))
        assert logits[-1][len(prompt) - 1 :].argmax(dim=-1).tolist() == text
    for position, row in recorder.rows:
        assert min(error(row, each[position]) for each in logits if position < len(each)) < TOLERANCE
    assert len(recorder.rows) == 3 * 64


def test_a_mixed_batch_gives_every_request_what_it_gets_alone(tmp_path: Path) -> None:
    save_random_model(tmp_path, "gemma3", **GEMMA, seed=3)
    executor = make_engine(tmp_path).executor
    prompts = [PROMPT[:length] for length in (1, 2, 15, 16, 17, 33, 53)]
    alone = []
    for prompt in prompts:
        engine = make_engine(tmp_path, max_tokens=64, executor=executor, cache=False)
        key = engine.add(prompt, greedy(20))
        engine.drain()
        alone.append(engine.texts[key])
    engine = make_engine(tmp_path, max_tokens=24, executor=executor)
    keys = []
    for prompt in prompts:
        keys.append(engine.add(prompt, greedy(20)))
        engine.step()
    engine.drain()
    assert [engine.texts[key] for key in keys] == alone


def test_only_blocks_inside_the_window_are_read(tmp_path: Path) -> None:
    """Poisons every block that the window has left; anything read from them would show."""
    reference = save_random_model(tmp_path, "mistral", sliding_window=20)
    executor = make_engine(tmp_path, blocks=32).executor
    assert isinstance(executor, TorchExecutor)
    blocks = [9, 2, 7, 4]
    chunked_logits(executor, PROMPT[:48], [48], blocks)
    for layer in executor._kv:
        # Position 48 sees 29 .. 48, which begins in the second block.
        layer.write(torch.arange(9 * 16, 10 * 16), torch.full((16, 4, 16), float("nan")))
    found = [executor.logits(one_row(PROMPT, start, 1, blocks))[0] for start in range(48, 53)]
    assert error(torch.stack(found), reference_logits(reference, PROMPT)[48:]) < TOLERANCE
