"""The health of GPUs: judged from what agents report and how fast replicas are, and what an operator says of it.

The rules are scheduler.health's; here they meet the row. ``Gpu.signals`` holds what the next step must know.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import msgspec
from django.db import transaction
from django.utils import timezone

from berth.audit.services import record
from berth.core.errors import Conflict
from berth.core.notify import changed, nudge_scheduler
from berth.fleet.models import Gpu, Health, Seat
from gpuruntime import protocol
from scheduler.health import machine

log = logging.getLogger(__name__)
SYSTEM = "system"
FIELDS = ["health", "health_reason", "health_since", "signals"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a GPU, for people. ``severity``: watch, drain or fence. ``count``: of events; 0 for levels."""

    key: str
    severity: str
    sentence: str
    todo: str
    count: int
    since: datetime
    last_at: datetime


def judge(gpu: Gpu, signals: protocol.DeviceSignals | None, now: datetime) -> bool:
    """Sets the health fields from one report, or from time alone; True when what people see of them changed.

    Inside the caller's transaction, which holds the row and saves it. ``gpu.node`` should be loaded.
    """
    state, at = state_of(gpu), now.timestamp()
    after = machine.step(state, signals, at, boot=gpu.node.boot_id)
    if after.health == Health.DRAINING and not Seat.objects.filter(slice__gpu_id=gpu.id).exists():
        after = machine.step(after, signals, at, boot=gpu.node.boot_id, occupied=False)
    return _take(gpu, state, after)


def state_of(gpu: Gpu) -> machine.State:
    try:
        memory = msgspec.convert(gpu.signals, machine.Memory)
    except msgspec.ValidationError as error:
        # Another version's: what it knew is gone, what holds is reported again within a second.
        log.warning("health_memory_not_read", extra={"gpu": gpu.id, "error": str(error)})
        memory = machine.Memory()
    since = gpu.health_since.timestamp() if gpu.health_since is not None else 0.0
    return machine.State(cast(machine.Health, gpu.health), since, gpu.health_reason, memory)


def faults_of(gpu: Gpu) -> list[Fault]:
    """The worst first."""
    return [
        Fault(
            key=row.key,
            severity=row.severity.name.lower(),
            sentence=row.sentence,
            todo=row.todo,
            count=row.count,
            since=datetime.fromtimestamp(row.since, UTC),
            last_at=datetime.fromtimestamp(row.last, UTC),
        )
        for row in machine.told(state_of(gpu))
    ]


@transaction.atomic
def fence_gpu(*, gpu: Gpu, reason: str, actor: str) -> Gpu:
    """Takes it out of use until it is cleared: what runs on it ends. Idempotent for the same words."""
    row = _locked(gpu)
    before = state_of(row)
    after = machine.fence(before, f"Fenced by {actor}: {reason}", timezone.now().timestamp())
    if (after.health, after.reason) != (before.health, before.reason):
        _take(row, before, after, actor=actor, action="gpu.fence")
        row.save(update_fields=FIELDS)
    return row


@transaction.atomic
def clear_gpu(*, gpu: Gpu, actor: str) -> Gpu:
    """Says that it may be used: probation begins. Raises ``Conflict`` while its driver or its bus say otherwise."""
    row = _locked(gpu)
    before = state_of(row)
    held = machine.holds_back(before)
    if held:
        told = next(fault for fault in machine.told(before) if fault.key in held)
        raise Conflict(f"It cannot be cleared while this holds. {told.sentence}. {told.todo}", code="still_faulty")
    if before.health != Health.HEALTHY:
        after = machine.clear(before, timezone.now().timestamp())
        _take(row, before, after, actor=actor, action="gpu.clear")
        row.save(update_fields=FIELDS)
    return row


@transaction.atomic
def note_speed(*, gpu_id: str, share: float, now: datetime) -> bool:
    """What was measured of its replicas (scheduler.health.stragglers); True when its health changed."""
    row = Gpu.objects.select_for_update(of=("self",)).select_related("node").get(id=gpu_id)
    before = state_of(row)
    after = machine.step(machine.with_speed(before, share), None, now.timestamp(), boot=row.node.boot_id)
    moved = _take(row, before, after)
    row.save(update_fields=FIELDS)
    return moved


def _locked(gpu: Gpu) -> Gpu:
    return Gpu.objects.select_for_update(of=("self",)).select_related("node").get(id=gpu.id)


def _take(
    gpu: Gpu, before: machine.State, after: machine.State, *, actor: str = SYSTEM, action: str = "gpu.judge"
) -> bool:
    """Onto the row, which the caller saves. People and the scheduler hear of another health, not of each event."""
    if after is before:
        return False
    if after.memory != before.memory:
        gpu.signals = msgspec.to_builtins(after.memory)
    if (after.health, after.reason) == (before.health, before.reason):
        return False
    gpu.health, gpu.health_reason = after.health, after.reason
    if after.health != before.health:
        gpu.health_since = datetime.fromtimestamp(after.since, UTC)
    if after.health != before.health or actor != SYSTEM:
        record(
            actor=actor,
            action=action,
            obj=gpu,
            before={"health": before.health, "reason": before.reason},
            after={"health": after.health, "reason": after.reason},
        )
        changed("node", gpu.node_id)
        nudge_scheduler()
    return True
