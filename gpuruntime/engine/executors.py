"""Which executor runs a model on this machine."""

from __future__ import annotations

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.models.config import ModelConfig


def make_executor(config: EngineConfig, model_config: ModelConfig, max_len: int) -> Executor:
    """Loads the weights for contexts of up to ``max_len`` tokens. Raises ``ValueError`` for files or settings."""
    return TorchExecutor(config, model_config, max_len)
