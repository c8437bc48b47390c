"""Would it fit? The needs of one replica; for each device that is not cut how many it could take now, or why none; and
what the packing says of GPUs that are.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

from berth.catalog.models import Model, ModelState
from berth.core.errors import Invalid
from berth.deployments.checks import check_engine, check_kv
from berth.deployments.needs import longest_of, needs_of
from berth.deployments.outlook import Outlook, outlook_of
from berth.fleet.models import Gpu
from berth.fleet.seats import takes_new, units_needed
from berth.fleet.selectors import devices
from berth.slas.models import Isolation, ServiceClass
from berth.tenants.models import PLATFORM_TENANT
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
    """``fits``: all wanted replicas have a place now, on devices that are not cut or on those that are.

    ``needs`` is of one replica; ``gpus`` None: no GPU of the fleet is cut.
    """

    needs: MemoryNeeds
    max_model_len: int
    replicas: int
    replicas_that_fit: int
    fits: bool
    reason: str
    devices: tuple[DeviceFit, ...]
    gpus: Outlook | None


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
    service_class: ServiceClass | None = None,
    isolation: str | None = None,
    guaranteed_tokens_per_s: float = 0.0,
    owner: str = PLATFORM_TENANT,
    seen: frozenset[str] | None = None,
) -> Fit:
    """``isolation``: in place of the class's; without both the least. ``seen``: whose deployments may be named.

    Raises ``Invalid`` for settings the model cannot run with.
    """
    if model.state != ModelState.READY:
        raise Invalid(f"{model.name} is {model.state}: {model.reason or 'wait until it is ready'}", field="model")
    check_engine(engine, dtype, kv_dtype)
    settings: dict[str, Any] = {
        "dtype": dtype,
        "max_model_len": max_model_len,
        "max_num_seqs": max_num_seqs,
        "kv_bytes": kv_bytes,
        "kv_dtype": kv_dtype,
    }
    needs = needs_of(model, **settings)
    longest = longest_of(model, max_model_len)
    check_kv(needs, longest)
    wanted = _class_with(service_class, isolation)
    rows = devices().filter(present=True, board="").select_related("node").order_by("node__name", "index", "id")
    found = tuple(_on(gpu, needs.total_bytes, wanted.isolation) for gpu in rows)
    room = sum(device.replicas for device in found)
    gpus = outlook_of(
        model,
        owner=owner,
        service_class=wanted,
        replicas=replicas,
        guaranteed_tokens_per_s=guaranteed_tokens_per_s,
        seen=seen,
        **settings,
    )
    seated = len(gpus.seats) if gpus is not None else 0
    fits = room >= replicas or (gpus is not None and gpus.fits)
    reason = "" if fits else _why_not(room, replicas, found, gpus)
    return Fit(needs, longest, replicas, room + seated, fits, reason, found, gpus)


def _class_with(service_class: ServiceClass | None, isolation: str | None) -> ServiceClass:
    """A copy that is never saved."""
    wanted = copy(service_class) if service_class is not None else ServiceClass()
    if isolation:
        wanted.isolation = isolation
    return wanted


def _why_not(room: int, replicas: int, found: tuple[DeviceFit, ...], gpus: Outlook | None) -> str:
    if gpus is not None:
        return gpus.reason
    return f"{room} of {replicas} replicas have a place now" if found else "the fleet has no device"


def _on(gpu: Gpu, need_bytes: int, isolation: str) -> DeviceFit:
    need = units_needed(need_bytes, gpu)
    free: int = gpu.units_free  # type: ignore[attr-defined]
    free_bytes = free * gpu.memory_bytes // gpu.units
    shares = isolation in (Isolation.TIME_SLICE, Isolation.MPS)
    room = free // need if shares and takes_new(gpu) and not gpu.node.cordoned else 0
    reason = ""
    if gpu.node.cordoned:
        reason = "the node is cordoned"
    elif not takes_new(gpu):
        reason = f"it is {gpu.health}: {gpu.health_reason}"
    elif not shares:
        reason = f"its processes share memory and faults; it needs {isolation} isolation"
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
