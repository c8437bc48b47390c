"""Which executor runs a model on this machine."""

from __future__ import annotations

import logging
from dataclasses import replace

import torch

from gpuruntime.engine.capabilities import Asked, Machine, choose
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.native_executor import NativeExecutor
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.kernels.gpu.interpreting import is_interpreted
from gpuruntime.kernels.native.build import NoCompiler
from gpuruntime.models.config import ModelConfig
from gpuruntime.parallel.executor import ShardedExecutor

log = logging.getLogger("gpuruntime.engine")


def make_executor(config: EngineConfig, model_config: ModelConfig, max_len: int) -> Executor:
    """Loads the weights for contexts of up to ``max_len`` tokens. Raises ``ValueError`` for files or settings.

    ``engine.capabilities`` decides which backend does; what is worth less than what might have been says why.
    """
    choice = choose(Asked(config, model_config, this_machine()))
    reasons = [str(refusal) for refusal in choice.passed_over]
    if choice.backend == "triton":
        if config.tensor_parallel > 1:
            return ShardedExecutor(replace(config, backend="triton"), model_config, max_len)
        # The only backend that needs Triton, which takes its time to import.
        from gpuruntime.engine.triton_executor import TritonExecutor

        return TritonExecutor(config, model_config, max_len)
    if choice.backend == "cpu":
        try:
            return NativeExecutor(config, model_config, max_len)
        except NoCompiler as error:
            if config.backend == "cpu":
                raise ValueError(f"backend cpu: {error}; torch would serve this model") from error
            reasons.append(str(error))
    if reasons:
        log.warning("PyTorch serves this model, several times slower than the native step: %s", "; ".join(reasons))
    if config.tensor_parallel > 1:
        return ShardedExecutor(replace(config, backend="torch"), model_config, max_len)
    return TorchExecutor(config, model_config, max_len)


def this_machine() -> Machine:
    """What this process sees of it: a pinned process sees its slice alone."""
    if not torch.cuda.is_available():
        return Machine(interpreted=is_interpreted())
    major, minor = torch.cuda.get_device_capability()
    return Machine(10 * major + minor, is_interpreted())
