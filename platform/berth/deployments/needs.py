"""How much memory one replica of a deployment takes: what the scheduler reserves and the fit check shows."""

from __future__ import annotations

from berth.catalog.header import info_of
from berth.catalog.models import Model
from berth.core.errors import Invalid
from berth.deployments.models import Deployment
from gpuruntime.modelinfo import DEFAULT_CONTEXT, MemoryNeeds, memory_needs


def needs_of(
    model: Model,
    *,
    dtype: str = "bf16",
    max_model_len: int | None = None,
    max_num_seqs: int = 32,
    kv_bytes: int,
    kv_dtype: str = "auto",
) -> MemoryNeeds:
    """Predicted from the headers that registration read. Raises ``Invalid`` for what the model cannot run with."""
    try:
        return memory_needs(info_of(model.header), dtype, max_model_len, max_num_seqs, kv_bytes, kv_dtype=kv_dtype)
    except ValueError as error:
        field = str(error).split(" ", 1)[0]
        raise Invalid(str(error), field=field) from error


def needs_of_deployment(deployment: Deployment) -> MemoryNeeds:
    return needs_of(
        deployment.model,
        dtype=deployment.dtype,
        max_model_len=deployment.max_model_len,
        max_num_seqs=deployment.max_num_seqs,
        kv_bytes=deployment.kv_bytes,
        kv_dtype=deployment.kv_dtype,
    )


def longest_of(model: Model, max_model_len: int | None) -> int:
    """Tokens of the longest request: what the engine takes when nothing is set."""
    return max_model_len or min(model.context_length, DEFAULT_CONTEXT)
