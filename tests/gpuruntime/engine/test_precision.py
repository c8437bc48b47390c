"""What rounding costs on the real model, over a page of prose: perplexity, and divergence from fp32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.native_executor import NativeExecutor
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.models.config import load_model_config
from helpers.families import chunked_logits
from helpers.model import REPOSITORY, smollm2_dir, smollm2_gguf  # noqa: F401 - fixtures

TOKENS, CHUNK = 512, 128


class Passage:
    """The first tokens of the passage, and fp32's log probabilities after each of them."""

    def __init__(self, model_dir: Path) -> None:
        self._model_dir = model_dir
        text = (REPOSITORY / "tests" / "helpers" / "passage.txt").read_text("utf-8")
        tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        self._ids = tokenizer.encode(text, add_special_tokens=False).ids[:TOKENS]
        assert len(self._ids) == TOKENS
        self._exact = self._log_probabilities(TorchExecutor, dtype="fp32")
        self.bf16 = self.measure(dtype="bf16")

    def measure(self, **settings: Any) -> tuple[float, float]:
        """The native step's perplexity, and its KL from fp32 in nats a token."""
        found = self._log_probabilities(NativeExecutor, **settings)
        divergence = torch.stack([(p.exp() * (p - q)).sum() for p, q in zip(self._exact, found, strict=True)])
        targets = torch.tensor(self._ids[1:]).unsqueeze(1)
        perplexity = float((-found[:-1].gather(1, targets).mean(dtype=torch.float64)).exp())
        return perplexity, float(divergence.mean(dtype=torch.float64))

    def _log_probabilities(self, make: Any, **settings: Any) -> Tensor:
        config = EngineConfig(self._model_dir, threads=1, kv_bytes=64 << 20, **settings)
        executor: Executor = make(config, load_model_config(self._model_dir), 1024)
        chunks = [CHUNK] * (TOKENS // CHUNK)
        return chunked_logits(executor, self._ids, chunks, range(TOKENS // 16)).log_softmax(-1)


@pytest.fixture(scope="module")
def passage(smollm2_dir: Path) -> Passage:  # noqa: F811
    return Passage(smollm2_dir)


def test_bf16(passage: Passage) -> None:
    assert passage.bf16[1] < 0.001


def test_int8_weights(passage: Passage) -> None:
    perplexity, divergence = passage.measure(dtype="int8")
    assert perplexity == pytest.approx(passage.bf16[0], rel=0.01)
    assert divergence < 0.006


@pytest.mark.parametrize("dtype", ["bf16", "int8"])
def test_int8_kv(passage: Passage, dtype: str) -> None:
    """K and V of 8 bits add about 0.001 to the divergence of either type of weights."""
    perplexity, divergence = passage.measure(dtype=dtype, kv_dtype="int8")
    assert perplexity == pytest.approx(passage.bf16[0], rel=0.01)
    assert divergence < {"bf16": 0.002, "int8": 0.007}[dtype]
