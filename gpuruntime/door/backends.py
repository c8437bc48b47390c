"""Makes the engine a replica was configured with. Only the chosen engine's modules are imported."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpuruntime.backend import Backend
from gpuruntime.modelinfo import memory_needs, read_model
from gpuruntime.protocol import RuntimeConfig


async def make_backend(config: RuntimeConfig) -> Backend:
    """Imports in a thread: torch takes seconds, and the door answers meanwhile.

    Raises ``ValueError``, also where the engine would take more of its device than it may.
    """
    if config.device_memory_bytes:
        await asyncio.to_thread(check_memory, config)
    if config.engine.engine == "vllm":
        return await asyncio.to_thread(_vllm, config)
    return await asyncio.to_thread(_native, config)


def check_memory(config: RuntimeConfig) -> None:
    """Before anything is allotted: beyond its bound it would take its neighbours' memory, or fail under load.

    Raises ``ValueError``; what the model's headers cannot promise is left to the engine.
    """
    settings = config.engine
    try:
        needs = memory_needs(
            read_model(Path(config.model_path)),
            settings.dtype,
            settings.max_model_len,
            settings.max_num_seqs,
            settings.kv_bytes,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            kv_dtype=settings.kv_dtype,
        )
    except ValueError:
        return
    if needs.total_bytes > config.device_memory_bytes:
        needed, allowed = needs.total_bytes >> 20, config.device_memory_bytes >> 20
        raise ValueError(f"the model needs {needed} MiB with these settings, and its slice has {allowed} MiB")


def _native(config: RuntimeConfig) -> Backend:
    from gpuruntime.engine.backend import NativeBackend
    from gpuruntime.engine.config import EngineConfig

    settings = config.engine
    if settings.extra_args:
        raise ValueError(f"extra_args {settings.extra_args} are for external engines; the native one takes none")
    return NativeBackend(
        EngineConfig(
            model_path=Path(config.model_path),
            model_name=config.served_model_name,
            dtype=settings.dtype,
            max_model_len=settings.max_model_len,
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            kv_bytes=settings.kv_bytes,
            threads=settings.threads,
            cache_dir=Path(config.cache_dir) if config.cache_dir else None,
            device_share=config.device_share,
            kv_dtype=settings.kv_dtype,
            attention_sinks=settings.attention_sinks,
            attention_window=settings.attention_window,
            request_timeout_s=settings.request_timeout_s,
            speculation=settings.speculation,
            draft_model_path=Path(settings.draft_model_path) if settings.draft_model_path else None,
            max_drafts=settings.max_drafts,
            backend=settings.backend,
            tensor_parallel=settings.tensor_parallel,
            engine_process=settings.engine_process,
        )
    )


def _vllm(config: RuntimeConfig) -> Backend:
    from gpuruntime.external.vllm import VllmBackend

    return VllmBackend(config)
