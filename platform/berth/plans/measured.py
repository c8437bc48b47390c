"""What replicas were seen to give and to hold on GPUs that are cut: written each minute, read by plans.

A row is a model with one precision in one kind of slot. It keeps the totals of the newest few runs of replicas that sat
in such a slot, each as that run last told them: noted twice they count once, and an old run's make way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from berth.deployments.models import Deployment
from berth.plans.models import SlotMeasurement
from gpuruntime.protocol import Pace
from scheduler.packing.measured import Seen
from scheduler.packing.model import ISOLATION, Slot

RUNS_KEPT = 8

# A model's digest with the types of its weights and of its K and V.
Precision = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Run:
    """One start of one replica's runtime. ``paces``: since that start. Bytes are 0 where they are not known."""

    id: str
    precision: Precision
    slot: Slot
    paces: tuple[Pace, ...]
    weights_bytes: int = 0
    kv_bytes: int = 0
    memory_bytes: int = 0


def precision_of(deployment: Deployment) -> Precision:
    return deployment.model.digest, deployment.dtype, deployment.kv_dtype


@transaction.atomic
def note_runs(*, runs: Iterable[Run], now: datetime) -> None:
    """In one order of rows, whoever writes at the same time."""
    for run in sorted(runs, key=lambda run: (run.precision, run.slot, run.id)):
        digest, dtype, kv_dtype = run.precision
        row, _ = SlotMeasurement.objects.select_for_update().get_or_create(
            digest=digest,
            dtype=dtype,
            kv_dtype=kv_dtype,
            board=run.slot.board,
            kind=run.slot.kind.label,
            profile=run.slot.profile,
            defaults={"at": now},
        )
        older = [one for one in row.runs if one["id"] != run.id]
        held = max([run.memory_bytes, *(one["memory_bytes"] for one in row.runs if one["id"] == run.id)])
        row.runs = [*older, _kept(run, held)][-RUNS_KEPT:]
        row.at = now
        row.save()


def forget_measurements(*, before: datetime) -> None:
    SlotMeasurement.objects.filter(at__lt=before).delete()


def measurements() -> dict[Precision, Seen]:
    """All that was measured, by model and precision. One query."""
    rows: dict[Precision, list[SlotMeasurement]] = {}
    for row in SlotMeasurement.objects.order_by("id"):
        rows.setdefault((row.digest, row.dtype, row.kv_dtype), []).append(row)
    return {precision: _seen(of_it) for precision, of_it in rows.items()}


def _seen(rows: list[SlotMeasurement]) -> Seen:
    runs = [run for row in rows for run in row.runs]
    # Whoever held most beside its weights and KV memory says what a replica needs.
    fullest = max(runs, key=lambda run: run["memory_bytes"] - run["weights_bytes"] - run["kv_bytes"])
    return Seen(
        weights_bytes=fullest["weights_bytes"],
        kv_bytes=fullest["kv_bytes"],
        memory_bytes=fullest["memory_bytes"],
        paces={Slot(row.board, ISOLATION[row.kind], row.profile): _added(row.runs) for row in rows},
    )


def _added(runs: Iterable[dict[str, Any]]) -> tuple[Pace, ...]:
    total: dict[int, Pace] = {}
    for run in runs:
        for pace in map(Pace._make, run["paces"]):
            so_far = total.get(pace.batch, Pace(pace.batch, 0, 0.0, 0))
            total[pace.batch] = Pace(
                pace.batch,
                so_far.steps + pace.steps,
                so_far.seconds + pace.seconds,
                so_far.tokens + pace.tokens,
            )
    return tuple(total.values())


def _kept(run: Run, memory_bytes: int) -> dict[str, Any]:
    return {
        "id": run.id,
        "weights_bytes": run.weights_bytes,
        "kv_bytes": run.kv_bytes,
        "memory_bytes": memory_bytes,
        "paces": [list(pace) for pace in run.paces],
    }
