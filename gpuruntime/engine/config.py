"""The native engine's settings, checked all at once before anything is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

BLOCK_TOKENS = 16
GIB = 1 << 30
_NVIDIA = Path("/dev/nvidiactl")
_BACKENDS = ("auto", "cpu", "torch", "triton")
_DTYPES = ("bf16", "fp32", "int8", "fp8")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How to run one model.

    model_path: a Hugging Face directory (config.json, safetensors, tokenizer.json).
    model_name: what ``BackendInfo.model`` says; default: the directory's name.
    backend: what computes the steps: the C++ step ("cpu"), PyTorch ("torch") or the Triton kernels ("triton"). "auto"
        takes the best one that covers the model and the settings (``engine.capabilities``).
    dtype: of weights, activations and KV. bf16 halves the bytes a decode step reads; fp32 is for parity checks; int8
        halves them again: weights with a scale a channel, head included, beside bf16 activations and KV; fp8 likewise.
    max_model_len: longest prompt + completion in tokens; default the model's own, at most 4096, so that one request
        cannot take the whole KV memory of a small replica.
    max_num_seqs: requests in one step. 64: beyond it a step on a CPU is longer than any class's TPOT.
    max_num_batched_tokens: tokens in one step. 512: a prefill chunk then delays running decodes by about 0.2 s.
    kv_bytes: memory of the KV blocks, taken at the start; default 1 GiB. 0: what the slice of a GPU has left.
    threads: of the step; default every core this process may run on.
    seed: of requests that bring none; default: drawn from the operating system.
    cache_dir: where measured device rates are kept; default: measured again in every process.
    device_share: of the device that the engine's slice is; its seconds are booked as so much of device-seconds.
    max_queue: requests that may wait in the engine beside those that run; None: no bound.
    request_timeout_s: ends a request that has been in the engine for so long, with what it has; default: none.
    speculation: guess tokens ahead and let one step check them: "ngram" repeats what followed the same words before,
        "draft" asks a smaller model. Never changes a text; used only while it is measured to pay.
    draft_model_path: of "draft": a model directory with the same vocabulary. Its KV blocks come out of kv_bytes.
    max_drafts: guesses for one request in one step.
    prefix_cache: keep the blocks of finished requests for later prompts with the same beginning and salt.
    kv_dtype: "auto" keeps K and V in ``dtype``; "int8" and "fp8" with one fp32 scale for each token's head, half
        of bf16's bytes.
    attention_sinks, attention_window: a token sees only the first and the last tokens of its context, so many of each,
        itself included (``kernels.sink_attention``); set both or none. Bounds what a step reads, not what KV holds.
    tensor_parallel: processes that share the model, each with its part of the weights and of kv_bytes and threads.
    engine_process: whether the steps run in a process beside the door's; default: where they run on a GPU.
    """

    model_path: Path
    model_name: str | None = None
    backend: Literal["auto", "cpu", "torch", "triton"] = "auto"
    dtype: Literal["bf16", "fp32", "int8", "fp8"] = "bf16"
    max_model_len: int | None = None
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    kv_bytes: int = GIB
    threads: int | None = None
    seed: int | None = None
    cache_dir: Path | None = None
    device_share: float = 1.0
    prefix_cache: bool = True
    kv_dtype: Literal["auto", "int8", "fp8"] = "auto"
    attention_sinks: int | None = None
    attention_window: int | None = None
    max_queue: int | None = None
    request_timeout_s: float | None = None
    speculation: Literal["off", "ngram", "draft"] = "off"
    draft_model_path: Path | None = None
    max_drafts: int = 5
    tensor_parallel: int = 1
    engine_process: bool | None = None

    def validate(self) -> None:
        """Raises one ``ValueError`` that lists every bad setting with its value and limit."""
        cores = available_cores()
        length, threads, seed = self.max_model_len, self.threads, self.seed
        queue, timeout_s = self.max_queue, self.request_timeout_s
        checks = (
            ((self.model_path / "config.json").is_file(), f"model_path {self.model_path}: no config.json there"),
            (self.backend in _BACKENDS, f"backend {self.backend!r}: must be auto, cpu, torch or triton"),
            (self.dtype in _DTYPES, f"dtype {self.dtype!r}: must be bf16, fp32, int8 or fp8"),
            (self.kv_dtype in ("auto", "int8", "fp8"), f"kv_dtype {self.kv_dtype!r}: must be auto, int8 or fp8"),
            (length is None or length >= 2, f"max_model_len {length}: must be at least 2 tokens"),
            (self.max_num_seqs >= 1, f"max_num_seqs {self.max_num_seqs}: must be at least 1"),
            (
                self.max_num_batched_tokens >= self.max_num_seqs,
                f"max_num_batched_tokens {self.max_num_batched_tokens}: must be at least max_num_seqs "
                f"({self.max_num_seqs}), one token for each running request",
            ),
            (self.kv_bytes >= 0, f"kv_bytes {self.kv_bytes}: must not be negative"),
            (
                threads is None or 1 <= threads <= cores,
                f"threads {threads}: must be between 1 and the {cores} cores of this process",
            ),
            (0 < self.device_share <= 1, f"device_share {self.device_share}: must be above 0 and at most 1"),
            (seed is None or 0 <= seed < 1 << 64, f"seed {seed}: must be between 0 and 2^64 - 1"),
            (queue is None or queue >= 0, f"max_queue {queue}: must not be negative"),
            (timeout_s is None or timeout_s > 0, f"request_timeout_s {timeout_s}: must be positive"),
            (self.tensor_parallel >= 1, f"tensor_parallel {self.tensor_parallel}: must be at least 1"),
        )
        errors = [message for holds, message in checks if not holds]
        errors += _attention_errors(self.attention_sinks, self.attention_window) + self._speculation_errors()
        if errors:
            raise ValueError("; ".join(errors))

    def _speculation_errors(self) -> list[str]:
        errors = []
        if self.speculation not in ("off", "ngram", "draft"):
            errors.append(f"speculation {self.speculation!r}: must be off, ngram or draft")
        if not 1 <= self.max_drafts <= 16:
            errors.append(f"max_drafts {self.max_drafts}: must be between 1 and 16")
        if self.speculation == "draft" and self.tensor_parallel > 1:
            errors.append(f'tensor_parallel {self.tensor_parallel}: speculation "draft" runs on one rank only')
        if self.speculation == "draft" and self.kv_bytes == 0:
            errors.append('kv_bytes 0: speculation "draft" shares it between two models, so it has to be said')
        if (self.draft_model_path is not None) != (self.speculation == "draft"):
            errors.append(
                f'draft_model_path {self.draft_model_path}: speculation "draft" needs it, '
                f"and speculation is {self.speculation!r}"
            )
        elif self.draft_model_path is not None and not (self.draft_model_path / "config.json").is_file():
            errors.append(f"draft_model_path {self.draft_model_path}: no config.json there")
        return errors

    @property
    def resolved_threads(self) -> int:
        return self.threads if self.threads is not None else available_cores()


def runs_apart(config: EngineConfig) -> bool:
    """Whether the engine has a process of its own. Asked before torch is there to ask for a GPU."""
    if config.engine_process is not None:
        return config.engine_process
    sees_a_gpu = _NVIDIA.exists() and os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    return sees_a_gpu and config.backend in ("auto", "triton")


def _attention_errors(sinks: int | None, window: int | None) -> list[str]:
    errors = []
    if (sinks is None) != (window is None):
        errors.append(f"attention_sinks {sinks}, attention_window {window}: set both or none")
    if sinks is not None and sinks < 1:
        errors.append(f"attention_sinks {sinks}: must be at least 1")
    if window is not None and window < 1:
        errors.append(f"attention_window {window}: must be at least 1 token, the one that attends")
    return errors


def available_cores() -> int:
    """Cores this process may run on, which a container or ``taskset`` may have narrowed."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
