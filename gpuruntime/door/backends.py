"""Makes the engine a replica was configured with. Only the chosen engine's modules are imported."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpuruntime.backend import Backend
from gpuruntime.protocol import RuntimeConfig


async def make_backend(config: RuntimeConfig) -> Backend:
    """Imports in a thread: torch takes seconds, and the door answers meanwhile."""
    if config.engine.engine == "vllm":
        return await asyncio.to_thread(_vllm, config)
    return await asyncio.to_thread(_native, config)


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
        )
    )


def _vllm(config: RuntimeConfig) -> Backend:
    from gpuruntime.external.vllm import VllmBackend

    return VllmBackend(config)
