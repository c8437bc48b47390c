"""Rows of devices, slices and seats as the packing knows them (scheduler/packing/model.py), and back."""

from __future__ import annotations

from collections.abc import Iterable

from berth.fleet.models import Gpu, Seat, Slice, SliceKind
from scheduler.geometry.boards import Board, board
from scheduler.packing import model as packing
from scheduler.packing.books import Books, Illegal
from scheduler.packing.model import ISOLATION, Slot, Spread
from scheduler.world import Place


def place_of(row: Slice, board_key: str, *, burst: bool = False) -> Place | None:
    """Where a slice lies; None for units of a device that is not cut."""
    return place_in(row.kind, row.profile, row.start, board_key, burst=burst)


def place_in(kind: str, profile: str, start: int, board_key: str, *, burst: bool = False) -> Place | None:
    """As ``place_of``, of a slice's columns."""
    if kind == SliceKind.SHARES:
        return None
    return Place(Slot(board_key, ISOLATION[kind], profile), start, burst)


def blocked_of(gpu: Gpu) -> tuple[tuple[str, int], ...]:
    """MIG instances that nobody's seat has and that cannot be removed, as (profile, start)."""
    return tuple((one["profile"], one["start"]) for one in gpu.blocked if one["kind"] == SliceKind.MIG)


def why_no_seat(gpu: Gpu, wanted: packing.Seat) -> str:
    """Why ``wanted`` cannot be on ``gpu`` beside what sits there now; empty where it can. The row must be locked."""
    kinds = frozenset(ISOLATION[kind] for kind in gpu.kinds)
    device = packing.Gpu(gpu.id, gpu.board, gpu.node_id, gpu.node_id, kinds, blocked=blocked_of(gpu))
    try:
        books = Books(packing.Fleet((device,), tuple(_seats_on(gpu))))
        return books.why_not(wanted, Spread.NONE)
    except (Illegal, LookupError) as error:
        return f"{gpu.label} holds what the tables do not allow: {error}"


def seat_of(replica: str, deployment: str, tenant: str, gpu: str, place: Place) -> packing.Seat:
    """Deployments of one owner trust each other: the owner is the trust domain."""
    return packing.Seat(replica, deployment, tenant, gpu, place.slot, place.start, burst=place.burst)


def units_of(place: Place) -> range:
    """The device's units that the place takes."""
    cut = board(place.slot.board).cut(place.slot.kind.cut)
    grain = board(place.slot.board).units // cut.units
    return range(place.start * grain, (place.start + cut.profile(place.slot.profile).size) * grain)


def slice_at(gpu: Gpu, place: Place) -> Slice:
    """The row for a slice there, not saved."""
    profile = board(place.slot.board).cut(place.slot.kind.cut).profile(place.slot.profile)
    return Slice(
        gpu=gpu,
        kind=place.slot.kind.label,
        profile=profile.name,
        start=place.start,
        size=profile.size,
        memory_bytes=profile.memory_bytes,
        state="creating",
    )


def sm_percent(place: Place) -> int:
    """Of the whole GPU's SMs, rounded down."""
    found: Board = board(place.slot.board)
    return 100 * found.cut(place.slot.kind.cut).profile(place.slot.profile).sms // found.sms


def _seats_on(gpu: Gpu) -> Iterable[packing.Seat]:
    rows = Seat.objects.filter(slice__gpu=gpu).exclude(slice__kind=SliceKind.SHARES).select_related("slice", "replica")
    for row in rows:
        place = place_of(row.slice, gpu.board, burst=row.burst)
        if place is not None:
            yield seat_of(row.replica_id, row.replica.deployment_id, row.replica.tenant_id, gpu.id, place)
