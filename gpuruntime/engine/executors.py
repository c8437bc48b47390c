"""Which executor runs a model on this machine."""

from __future__ import annotations

import logging

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.native_executor import NativeExecutor, uncovered
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.kernels.native.build import NoCompiler
from gpuruntime.models.config import ModelConfig
from gpuruntime.parallel.executor import ShardedExecutor

log = logging.getLogger("gpuruntime.engine")


def make_executor(config: EngineConfig, model_config: ModelConfig, max_len: int) -> Executor:
    """Loads the weights for contexts of up to ``max_len`` tokens. Raises ``ValueError`` for files or settings.

    The C++ step where it covers the model and can be built, else PyTorch, which says why. Several ranks run on PyTorch.
    """
    if config.tensor_parallel > 1:
        return ShardedExecutor(config, model_config, max_len)
    reason = uncovered(config, model_config)
    if reason is None:
        try:
            return NativeExecutor(config, model_config, max_len)
        except NoCompiler as error:
            reason = str(error)
    log.warning("PyTorch serves this model, several times slower than the native step: %s", reason)
    return TorchExecutor(config, model_config, max_len)
