"""Would it fit on GPUs that are cut: where, with how much goodput, and whom it would displace; or why not.

Asked of the packing before a deployment is made. Nothing is changed, and the scheduler decides anew when it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from berth.catalog.models import Model
from berth.deployments.models import Deployment
from berth.deployments.needs import needs_of_deployment
from berth.fleet.models import Gpu
from berth.plans.demands import demand_of, of_class, profile_of
from berth.plans.fleet import current
from berth.plans.measured import measurements
from berth.slas.models import ServiceClass
from scheduler.geometry.boards import board
from scheduler.packing.model import Fleet, Seat, Slot
from scheduler.packing.model import profile_of as profile_in
from scheduler.packing.needs import Fit as SlotAnswer
from scheduler.packing.needs import fits
from scheduler.packing.outlook import would_fit


@dataclass(frozen=True, slots=True)
class SlotFit:
    """One way to hold a replica. ``part``: of the GPU; ``rate``: tokens/s within the SLA; no ``why_not``: it fits."""

    board: str
    board_name: str
    kind: str
    profile: str
    part: float
    memory_bytes: int
    rate: float
    measured: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class SeatFit:
    """Where one replica would sit. ``units``: of the GPU in that cut; ``opens``: the GPU is empty now."""

    gpu_id: str
    gpu: str
    node: str
    board: str
    kind: str
    profile: str
    start: int
    size: int
    units: int
    rate: float
    measured: bool
    opens: bool


@dataclass(frozen=True, slots=True)
class Displaced:
    """A burst replica that would give way. Names are empty for who may not know them."""

    replica: str
    deployment: str
    deployment_name: str
    kind: str
    profile: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """``goodput``: tokens/s of all ``seats`` together; ``measured``: none of it is an estimate."""

    fits: bool
    reason: str
    isolation: str
    seats: tuple[SeatFit, ...]
    goodput: float
    measured: bool
    opens: int
    displaced: tuple[Displaced, ...]
    slots: tuple[SlotFit, ...]


def outlook_of(
    model: Model,
    *,
    owner: str,
    service_class: ServiceClass,
    replicas: int,
    guaranteed_tokens_per_s: float,
    seen: frozenset[str] | None,
    dtype: str,
    max_model_len: int | None,
    max_num_seqs: int,
    kv_bytes: int,
    kv_dtype: str,
) -> Outlook | None:
    """None where the fleet has no GPU that is cut. ``seen``: whose deployments may be named; None: everyone's."""
    fleet, others = current()
    boards = tuple(sorted({gpu.board for gpu in fleet.gpus}))
    if not boards:
        return None
    deployment = Deployment(
        id="new",
        tenant_id=owner,
        model=model,
        service_class=service_class,
        replica_count=replicas,
        dtype=dtype,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        kv_bytes=kv_bytes,
        kv_dtype=kv_dtype,
    )
    promised = of_class(service_class, guaranteed_tokens_per_s)
    profile = profile_of(deployment, needs_of_deployment(deployment), promised, measurements())
    demand = demand_of(deployment, promised, profile, boards)
    answers = fits(profile, promised.isolation, boards)
    found = would_fit(fleet, demand, others.values())
    return Outlook(
        fits=found.fits,
        reason=found.reason,
        isolation=promised.isolation.label,
        seats=_seats(found.seats, fleet, answers, demand.rates),
        goodput=found.goodput,
        measured=bool(found.seats) and all(answers[seat.slot].measured for seat in found.seats),
        opens=found.opens,
        displaced=_displaced(found.displaced, seen),
        slots=tuple(_slot(slot, answer) for slot, answer in answers.items()),
    )


def _seats(
    seats: Iterable[Seat], fleet: Fleet, answers: Mapping[Slot, SlotAnswer], rates: Mapping[Slot, float]
) -> tuple[SeatFit, ...]:
    seats = list(seats)
    rows = Gpu.objects.filter(id__in={seat.gpu for seat in seats}).select_related("node")
    gpus = {gpu.id: gpu for gpu in rows}
    in_use = {seat.gpu for seat in fleet.seats}
    return tuple(
        SeatFit(
            gpu_id=seat.gpu,
            gpu=gpus[seat.gpu].label,
            node=gpus[seat.gpu].node.name,
            board=seat.slot.board,
            kind=seat.slot.kind.label,
            profile=seat.slot.profile,
            start=seat.start,
            size=profile_in(seat.slot).size,
            units=board(seat.slot.board).cut(seat.slot.kind.cut).units,
            rate=rates.get(seat.slot, 0.0),
            measured=answers[seat.slot].measured,
            opens=seat.gpu not in in_use,
        )
        for seat in seats
        if seat.gpu in gpus
    )


def _slot(slot: Slot, answer: SlotAnswer) -> SlotFit:
    known = board(slot.board)
    profile = profile_in(slot)
    return SlotFit(
        board=slot.board,
        board_name=known.name,
        kind=slot.kind.label,
        profile=slot.profile,
        part=profile.size / known.cut(slot.kind.cut).units,
        memory_bytes=profile.memory_bytes,
        rate=answer.rate,
        measured=answer.measured,
        why_not=answer.why_not,
    )


def _displaced(seats: Iterable[Seat], seen: frozenset[str] | None) -> tuple[Displaced, ...]:
    seats = list(seats)
    rows = Deployment.objects.for_platform().filter(id__in={seat.demand for seat in seats})
    names = {row.id: row.name for row in rows if seen is None or row.tenant_id in seen}
    return tuple(
        Displaced(
            replica=seat.replica if seat.demand in names else "",
            deployment=seat.demand if seat.demand in names else "",
            deployment_name=names.get(seat.demand, ""),
            kind=seat.slot.kind.label,
            profile=seat.slot.profile,
        )
        for seat in seats
    )
