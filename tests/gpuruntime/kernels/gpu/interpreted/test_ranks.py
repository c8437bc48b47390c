"""Two ranks on the Triton kernels pick the tokens that one process picks in PyTorch, each for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.executors import make_executor
from gpuruntime.models.config import load_model_config
from gpuruntime.parallel.executor import ShardedExecutor
from helpers.engine import greedy, make_engine
from helpers.families import save_random_model

PROMPTS = [[1, *[(7 * i * i + 3 * i + 5) % 200 + 3 for i in range(21)]], list(range(150, 141, -1))]


def executor(path: Path, **settings: Any) -> Executor:
    config = EngineConfig(path, dtype="fp32", kv_bytes=1 << 20, max_num_seqs=2, **settings)
    config.validate()
    return make_executor(config, load_model_config(path), 64)


def texts(path: Path, one: Executor) -> list[list[int]]:
    engine = make_engine(path, blocks=8, max_tokens=24, executor=one)
    keys = [engine.add(prompt, greedy(5)) for prompt in PROMPTS]
    engine.drain()
    return [engine.texts[key] for key in keys]


@pytest.mark.parametrize("family", ["llama", pytest.param("qwen3", marks=pytest.mark.kernels)])
def test_ranks_pick_what_one_process_picks(tmp_path: Path, family: str) -> None:
    save_random_model(tmp_path, family)
    several = executor(tmp_path, backend="triton", tensor_parallel=2)
    assert isinstance(several, ShardedExecutor)
    assert (several.name, several.runs_ahead) == ("Triton (interpreter) on 2 ranks", True)
    assert texts(tmp_path, several) == texts(tmp_path, executor(tmp_path, backend="torch"))
