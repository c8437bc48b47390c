"""Would it fit? The needs of one replica, and for each device how many it could take now, or why none."""

from __future__ import annotations

from dataclasses import dataclass

from berth.catalog.models import Model, ModelState
from berth.core.errors import Invalid
from berth.deployments.checks import check_engine, check_kv
from berth.deployments.needs import longest_of, needs_of
from berth.fleet.models import Gpu
from berth.fleet.seats import units_needed
from berth.fleet.selectors import devices
from gpuruntime.modelinfo import MemoryNeeds


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """``replicas``: how many would fit beside what sits there. Free memory counts whole units."""

    device_id: str
    node: str
    device: str
    index: int
    total_bytes: int
    free_bytes: int
    units: int
    units_free: int
    units_needed: int
    replicas: int
    fits: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Fit:
    """``fits``: all wanted replicas have a place now. ``needs`` is of one replica."""

    needs: MemoryNeeds
    max_model_len: int
    replicas: int
    replicas_that_fit: int
    fits: bool
    reason: str
    devices: tuple[DeviceFit, ...]


def fit_of(
    model: Model,
    *,
    engine: str,
    dtype: str,
    max_model_len: int | None,
    max_num_seqs: int,
    kv_bytes: int,
    kv_dtype: str,
    replicas: int,
) -> Fit:
    """Raises ``Invalid`` for settings the model cannot run with."""
    if model.state != ModelState.READY:
        raise Invalid(f"{model.name} is {model.state}: {model.reason or 'wait until it is ready'}", field="model")
    check_engine(engine, dtype, kv_dtype)
    needs = needs_of(
        model,
        dtype=dtype,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        kv_bytes=kv_bytes,
        kv_dtype=kv_dtype,
    )
    longest = longest_of(model, max_model_len)
    check_kv(needs, longest)
    rows = devices().filter(present=True).select_related("node").order_by("node__name", "index", "id")
    found = tuple(_on(gpu, needs.total_bytes) for gpu in rows)
    room = sum(device.replicas for device in found)
    reason = ""
    if room < replicas:
        reason = f"{room} of {replicas} replicas have a place now" if found else "the fleet has no device"
    return Fit(needs, longest, replicas, room, room >= replicas, reason, found)


def _on(gpu: Gpu, need_bytes: int) -> DeviceFit:
    need = units_needed(need_bytes, gpu)
    free: int = gpu.units_free  # type: ignore[attr-defined]
    free_bytes = free * gpu.memory_bytes // gpu.units
    room = 0 if gpu.node.cordoned else free // need
    reason = ""
    if gpu.node.cordoned:
        reason = "the node is cordoned"
    elif not room and need > gpu.units:
        reason = f"needs {need_bytes >> 20} MiB; the device has {gpu.memory_bytes >> 20} MiB"
    elif not room:
        reason = f"needs {need} of {gpu.units} units ({need_bytes >> 20} MiB); {free} are free ({free_bytes >> 20} MiB)"
    return DeviceFit(
        device_id=gpu.id,
        node=gpu.node.name,
        device=gpu.name,
        index=gpu.index,
        total_bytes=gpu.memory_bytes,
        free_bytes=free_bytes,
        units=gpu.units,
        units_free=free,
        units_needed=need,
        replicas=room,
        fits=room > 0,
        reason=reason,
    )
