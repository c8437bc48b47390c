"""The native engine's settings, checked all at once before anything is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

BLOCK_TOKENS = 16
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How to run one model.

    model_path: a Hugging Face directory (config.json, safetensors, tokenizer.json).
    model_name: what ``BackendInfo.model`` says; default: the directory's name.
    dtype: of weights, activations and KV. bf16 halves the bytes a decode step reads; fp32 is for parity checks.
    max_model_len: longest prompt + completion in tokens; default the model's own, at most 4096, so that one request
        cannot take the whole KV memory of a small replica.
    max_num_seqs: requests in one step. 64: beyond it a step on a CPU is longer than any class's TPOT.
    max_num_batched_tokens: tokens in one step. 512: a prefill chunk then delays running decodes by about 0.2 s.
    kv_bytes: memory of the KV blocks; default 1 GiB, of which only touched pages become resident.
    threads: of the step; default every core this process may run on.
    seed: of requests that bring none; default: drawn from the operating system.
    cache_dir: where measured device rates are kept; default: measured again in every process.
    device_share: of the device that the engine's slice is; its seconds are booked as so much of device-seconds.
    prefix_cache: keep the blocks of finished requests for later prompts with the same beginning and salt.
    """

    model_path: Path
    model_name: str | None = None
    dtype: Literal["bf16", "fp32"] = "bf16"
    max_model_len: int | None = None
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    kv_bytes: int = GIB
    threads: int | None = None
    seed: int | None = None
    cache_dir: Path | None = None
    device_share: float = 1.0
    prefix_cache: bool = True

    def validate(self) -> None:
        """Raises one ``ValueError`` that lists every bad setting with its value and limit."""
        errors = []
        if not (self.model_path / "config.json").is_file():
            errors.append(f"model_path {self.model_path}: no config.json there")
        if self.dtype not in ("bf16", "fp32"):
            errors.append(f"dtype {self.dtype!r}: must be bf16 or fp32")
        if self.max_model_len is not None and self.max_model_len < 2:
            errors.append(f"max_model_len {self.max_model_len}: must be at least 2 tokens")
        if self.max_num_seqs < 1:
            errors.append(f"max_num_seqs {self.max_num_seqs}: must be at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            errors.append(
                f"max_num_batched_tokens {self.max_num_batched_tokens}: must be at least max_num_seqs "
                f"({self.max_num_seqs}), one token for each running request"
            )
        if self.kv_bytes < 1:
            errors.append(f"kv_bytes {self.kv_bytes}: must be positive")
        cores = available_cores()
        if self.threads is not None and not 1 <= self.threads <= cores:
            errors.append(f"threads {self.threads}: must be between 1 and the {cores} cores of this process")
        if not 0 < self.device_share <= 1:
            errors.append(f"device_share {self.device_share}: must be above 0 and at most 1")
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            errors.append(f"seed {self.seed}: must be between 0 and 2^64 - 1")
        if errors:
            raise ValueError("; ".join(errors))

    @property
    def resolved_threads(self) -> int:
        return self.threads if self.threads is not None else available_cores()


def available_cores() -> int:
    """Cores this process may run on, which a container or ``taskset`` may have narrowed."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
