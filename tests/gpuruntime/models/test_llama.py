"""The Llama family against transformers on random fp32 checkpoints: logits and greedy tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.request import Clock, Request
from gpuruntime.engine.runner import make_batch
from gpuruntime.engine.scheduler import Row
from helpers.engine import greedy, greedy_reference, make_engine, save_random_llama

PROMPT = [1, *[(7 * i * i + 3 * i + 5) % 200 + 3 for i in range(52)]]
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SHAPES: dict[str, dict[str, Any]] = {
    "grouped": {},
    "one_kv_head": {"num_key_value_heads": 1},
    "all_heads": {"num_key_value_heads": 6},
    "tied": {"tie_word_embeddings": True},
    "wide_heads": {"head_dim": 32},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "rope_linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}},
    "rope_llama3": {"rope_parameters": LLAMA3},
}


def chunk_logits(executor: Executor, tokens: list[int], chunks: list[int]) -> torch.Tensor:
    """Logits after the last token when the prompt is computed in ``chunks``; blocks are out of order on purpose."""
    request = Request(1, len(tokens), list(tokens), SamplingParams(max_tokens=1), 0, b"", frozenset(), Clock(0.0))
    request.hold([9, 2, 7, 4, 11, 3])
    start = 0
    for count in chunks:
        logits = executor.logits(make_batch([Row(request, start, count, samples=True)]))
        start += count
    assert start == len(tokens)
    return logits[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_and_greedy_tokens_equal_transformers(tmp_path: Path, shape: str) -> None:
    reference = save_random_llama(tmp_path, **SHAPES[shape])
    engine = make_engine(tmp_path)
    with torch.inference_mode():
        expected = reference(torch.tensor([PROMPT])).logits[0, -1]

    scale = expected.abs().max()
    for chunks in ([53], [16, 16, 21], [1, 31, 20, 1], [1] * 53):
        found = chunk_logits(engine.executor, PROMPT, chunks)
        assert (found - expected).abs().max() < 1e-4 * scale, chunks

    key = engine.add(PROMPT, greedy(64))
    engine.drain()
    assert engine.texts[key] == greedy_reference(reference, PROMPT, 64)


def test_a_mixed_batch_gives_every_request_what_it_gets_alone(tmp_path: Path) -> None:
    reference = save_random_llama(tmp_path, seed=3)
    engine = make_engine(tmp_path, max_tokens=24)
    prompts = [PROMPT[:length] for length in (1, 2, 15, 16, 17, 33, 53)]
    keys = []
    for prompt in prompts:
        keys.append(engine.add(prompt, greedy(20)))
        engine.step()
    engine.drain()
    for key, prompt in zip(keys, prompts, strict=True):
        assert engine.texts[key] == greedy_reference(reference, prompt, 20)


def test_sharded_files_load_by_their_index(tmp_path: Path) -> None:
    reference = save_random_llama(tmp_path, shards="60KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    engine = make_engine(tmp_path)
    key = engine.add(PROMPT, greedy(8))
    engine.drain()
    assert engine.texts[key] == greedy_reference(reference, PROMPT, 8)


def test_bf16_stays_close_to_fp32(tmp_path: Path) -> None:
    save_random_llama(tmp_path, initializer_range=0.08)
    exact = chunk_logits(make_engine(tmp_path).executor, PROMPT, [53])
    rounded = chunk_logits(make_engine(tmp_path, dtype="bf16").executor, PROMPT, [20, 33])
    divergence = torch.nn.functional.kl_div(rounded.log_softmax(-1), exact.softmax(-1), reduction="sum")
    assert float(divergence) < 2e-3
