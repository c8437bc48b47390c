"""PyTorch's executor beyond fp32 parity: sharded files, rounded weights and KV, settings that cannot go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executors import make_executor
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.models.config import load_model_config
from helpers.engine import greedy, greedy_reference, make_engine, save_random_llama
from helpers.families import CLASSES, chunked_logits, error, save_random_model

PROMPT = [1, *[(7 * i * i + 3 * i + 5) % 200 + 3 for i in range(52)]]
BLOCKS = [9, 2, 7, 4, 11, 3]


def torch_executor(path: Path, **settings: Any) -> TorchExecutor:
    config = EngineConfig(path, **{"backend": "torch", "dtype": "fp32", "kv_bytes": 1 << 20, **settings})
    config.validate()
    executor = make_executor(config, load_model_config(path), 512)
    assert isinstance(executor, TorchExecutor)
    return executor


def divergence(found: torch.Tensor, expected: torch.Tensor) -> float:
    """KL per token of two ``[T, vocab]`` logits."""
    return float(torch.nn.functional.kl_div(found.log_softmax(-1), expected.softmax(-1), reduction="batchmean"))


def test_sharded_files_load_by_their_index(tmp_path: Path) -> None:
    reference = save_random_llama(tmp_path, shards="60KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    engine = make_engine(tmp_path)
    key = engine.add(PROMPT, greedy(8))
    engine.drain()
    assert engine.texts[key] == greedy_reference(reference, PROMPT, 8)


@pytest.mark.parametrize("family", CLASSES)
def test_rounded_weights_and_kv_stay_close_to_fp32(tmp_path: Path, family: str) -> None:
    changes = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24} if "moe" in family else {}
    save_random_model(tmp_path, family, initializer_range=0.08, **changes)
    exact = chunked_logits(torch_executor(tmp_path), PROMPT, [53], BLOCKS)
    for dtype, kv_dtype, limit in (("bf16", "auto", 1e-4), ("bf16", "int8", 1e-4), ("int8", "int8", 1e-3)):
        rounded = torch_executor(tmp_path, dtype=dtype, kv_dtype=kv_dtype)
        assert divergence(chunked_logits(rounded, PROMPT, [20, 33], BLOCKS), exact) < limit, (dtype, kv_dtype)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_int8_kv_takes_fewer_bytes_and_does_not_depend_on_chunks(tmp_path: Path, family: str) -> None:
    save_random_model(tmp_path, family, initializer_range=0.08, num_hidden_layers=3)
    plain, int8 = torch_executor(tmp_path), torch_executor(tmp_path, kv_dtype="int8")
    # A head of 16 values: 64 bytes in fp32, 16 and a scale of 4 in int8.
    block = 16 * 3 * 2 * 2
    assert (plain.num_blocks, int8.num_blocks) == ((1 << 20) // (block * 64), (1 << 20) // (block * 20))
    exact = chunked_logits(plain, PROMPT, [53], BLOCKS)
    whole = chunked_logits(int8, PROMPT, [53], BLOCKS)
    assert 1e-5 < error(whole, exact) < 0.05
    assert divergence(whole, exact) < 1e-4
    for chunks in ([16, 16, 21], [1] * 53):
        # Rounding may fall on the other side of a half where products of other shapes differ in the last bit.
        assert error(chunked_logits(int8, PROMPT, chunks, BLOCKS), whole) < 5e-3


SINKS = {"attention_sinks": 4, "attention_window": 16}


@pytest.mark.parametrize(
    ("family", "changes", "settings", "named"),
    [
        ("mistral", {"sliding_window": 20}, SINKS, "torch does not cover attention_window beside sliding windows of"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
            SINKS,
            "torch does not cover attention_window beside rope scaling dynamic",
        ),
        ("llama", {}, {"kv_bytes": 100}, "kv_bytes 100: one block of 16 tokens takes 8192"),
        ("llama", {}, {"attention_sinks": 4}, "attention_sinks 4, attention_window None: set both or none"),
        ("llama", {}, {**SINKS, "attention_window": 0}, "attention_window 0: must be at least 1"),
        ("llama", {}, {**SINKS, "attention_sinks": 0}, "attention_sinks 0: must be at least 1"),
        ("llama", {}, {"kv_dtype": "fp4"}, "kv_dtype 'fp4': must be auto, int8 or fp8"),
        ("llama", {}, {"kv_dtype": "fp8"}, "torch does not cover kv_dtype fp8 .it covers: auto, int8.; triton would"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(
    tmp_path: Path, family: str, changes: dict[str, Any], settings: dict[str, Any], named: str
) -> None:
    save_random_model(tmp_path, family, **changes)
    with pytest.raises(ValueError, match=named):
        torch_executor(tmp_path, **settings)
