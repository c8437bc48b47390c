"""From settings and files to a running engine. This is where torch is first imported."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from gpuruntime.engine.config import BLOCK_TOKENS, EngineConfig
from gpuruntime.engine.contention import ThreadGovernor
from gpuruntime.engine.core import EngineCore
from gpuruntime.engine.intake import Limits
from gpuruntime.engine.ledger import Ledger
from gpuruntime.engine.shape import model_shape
from gpuruntime.modelinfo import DEFAULT_CONTEXT
from gpuruntime.models.config import ModelConfig, load_model_config

if TYPE_CHECKING:
    from gpuruntime.engine.executor import Executor


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """``probe`` measures the device in slices of some 20 ms and sets the ledger's rates when it is through.

    From then on it only raises, where the engine has lost a rank and would not notice while it is idle.
    """

    core: EngineCore
    governor: ThreadGovernor
    limits: Limits
    weights_bytes: int
    probe: Callable[[], Iterator[None]]


def load_engine(config: EngineConfig) -> LoadedEngine:
    """Reads config and weights. Raises ``ValueError`` naming what is wrong with the files or settings."""
    config.validate()
    model_config = load_model_config(config.model_path)
    max_len = resolve_max_len(config, model_config)

    # Waiting threads yield after some 100 us instead of several ms, which bounds what a busy neighbour can cost
    # before the governor reacts. libgomp reads it when torch loads.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    import torch

    from gpuruntime.engine.executors import make_executor
    from gpuruntime.engine.grammar import Grammars
    from gpuruntime.engine.runner import ModelRunner
    from gpuruntime.engine.torch_executor import DTYPES, kv_bytes_per_token
    from gpuruntime.kernels.rates import measure_rates
    from gpuruntime.speculative.features import make_features

    torch.set_num_threads(config.resolved_threads)
    draft = draft_settings(config, model_config, max_len)
    executor = make_executor(config if draft is None else draft.target, model_config, max_len)
    draft_executor = None if draft is None else make_executor(draft.draft, draft.model, max_len)
    executors = [executor] if draft_executor is None else [executor, draft_executor]
    capacity = executor.num_blocks * BLOCK_TOKENS
    dtype = DTYPES[config.dtype]
    weight_bytes = 1 if config.dtype in ("int8", "fp8") else dtype.itemsize
    shape = model_shape(model_config, weight_bytes, kv_bytes_per_token(config, model_config))
    ledger = Ledger(shape, kv_capacity_tokens=capacity, max_seqs=config.max_num_seqs, device_share=config.device_share)
    core = EngineCore(
        ModelRunner(executor),
        ledger,
        max_seqs=config.max_num_seqs,
        max_tokens=config.max_num_batched_tokens,
        num_blocks=executor.num_blocks,
        cache=config.prefix_cache,
        features=make_features(config, draft_executor),
        grammars=Grammars(config.model_path, model_config.vocab_size),
    )
    return_free_memory()
    return LoadedEngine(
        core=core,
        governor=ThreadGovernor(config.resolved_threads, lambda count: _set_threads(executors, count)),
        limits=Limits(
            max_model_len=max_len,
            kv_capacity_tokens=capacity,
            vocab_size=model_config.vocab_size,
            max_requests=None if config.max_queue is None else config.max_num_seqs + config.max_queue,
            timeout_s=config.request_timeout_s,
        ),
        weights_bytes=sum(one.weights_bytes for one in executors),
        probe=lambda: chain(measure_rates(executor.probe(), config.cache_dir, ledger.set_rates), _watch(executor)),
    )


def return_free_memory() -> None:
    """Gives back what converting the weights left in the allocator: some 25 to 75 MB for a model of 135M parameters."""
    with contextlib.suppress(OSError, AttributeError):  # of glibc alone
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _watch(executor: Executor) -> Iterator[None]:
    from gpuruntime.parallel.executor import ShardedExecutor

    while isinstance(executor, ShardedExecutor):
        executor.check()
        yield


def _set_threads(executors: Sequence[Executor], count: int) -> None:
    for executor in executors:
        executor.set_threads(count)


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """What target and draft model are loaded with: together they take the KV memory that was configured."""

    target: EngineConfig
    draft: EngineConfig
    model: ModelConfig


def draft_settings(config: EngineConfig, model_config: ModelConfig, max_len: int) -> DraftSettings | None:
    """Splits ``kv_bytes`` so that both hold as many tokens. Raises ``ValueError`` for a draft that does not fit."""
    if config.draft_model_path is None:
        return None
    model = load_model_config(config.draft_model_path)
    if model.vocab_size != model_config.vocab_size:
        raise ValueError(
            f"draft_model_path {config.draft_model_path}: its vocabulary has {model.vocab_size} entries and the "
            f"model's {model_config.vocab_size}; they must be the same"
        )
    if model.longest_context < max_len:
        raise ValueError(
            f"draft_model_path {config.draft_model_path}: it was made for {model.longest_context} tokens, fewer than "
            f"the context of {max_len}; lower max_model_len"
        )
    target_bytes, draft_bytes = model_config.kv_bytes_per_token(1), model.kv_bytes_per_token(1)
    kv_bytes = config.kv_bytes * target_bytes // (target_bytes + draft_bytes)
    return DraftSettings(
        target=replace(config, kv_bytes=kv_bytes),
        draft=replace(config, kv_bytes=config.kv_bytes - kv_bytes, model_path=config.draft_model_path),
        model=model,
    )


def resolve_max_len(config: EngineConfig, model_config: ModelConfig) -> int:
    """The context in tokens; a setting beyond the model's own is refused, not clamped."""
    if config.max_model_len is None:
        return min(model_config.max_position, DEFAULT_CONTEXT)
    longest = model_config.longest_context
    if config.max_model_len > longest:
        raise ValueError(f"max_model_len {config.max_model_len}: the model was made for {longest} tokens")
    return config.max_model_len
