"""The fleet as the console draws it: each device to scale, who sits where and why. A few queries, whatever its size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.utils import timezone

from berth.decisions.models import Decision, DecisionKind
from berth.fleet.models import HEARD_WITHIN, Gpu, Node, Provider, Seat, Slice, SliceKind, SliceUnit
from berth.fleet.segments import Piece, Strip, cut, plain
from scheduler.geometry.boards import UnknownBoard, board
from scheduler.health import machine
from scheduler.packing.model import ISOLATION

_GPU = (
    "id", "index", "name", "kind", "board", "kinds", "unable", "blocked", "health", "health_reason", "health_since",
    "present", "units", "memory_bytes", "memory_used_bytes", "utilisation", "temperature_c", "power_w", "node_id",
)  # fmt: skip
_SEAT = {
    "slice_id": "slice_id", "replica": "replica_id", "burst": "burst", "memory_bytes": "memory_bytes",
    "since": "created_at", "state": "replica__state", "deployment": "replica__deployment_id",
    "deployment_name": "replica__deployment__name", "service_class": "replica__deployment__service_class__name",
    "tenant": "replica__tenant_id", "tenant_name": "replica__tenant__name",
    "memory_used_bytes": "replica__memory_used_bytes",
}  # fmt: skip

Row = dict[str, Any]


@dataclass(frozen=True)
class _Rows:
    """By device: its slices, and of a device without a table its units; by slice: who sits there."""

    nodes: Mapping[str, Row]
    slices: Mapping[str, list[Row]]
    units: Mapping[str, list[tuple[int, str]]]
    seats: Mapping[str, list[Row]]


def picture(node_id: str | None = None) -> Row:
    """Of one node, or of all: ``{totals, gpus}`` as ``FleetMapSerializer`` says. Times as they are in the database."""
    gpus = Gpu.objects.order_by("node__name", "index", "id")
    if node_id is not None:
        gpus = gpus.filter(node_id=node_id)
    found = list(gpus.values(*_GPU))
    rows = _read(node_id)
    drawn = [_drawn(gpu, rows) for gpu in found if gpu["node_id"] in rows.nodes]
    return {"totals": _totals(drawn, rows.nodes.values()), "gpus": drawn}


def _read(node_id: str | None) -> _Rows:
    nodes, slices, units = Node.objects.all(), Slice.objects.all(), SliceUnit.objects.filter(gpu__board="")
    seats = Seat.objects.order_by("created_at", "id")
    if node_id is not None:
        nodes, slices = nodes.filter(id=node_id), slices.filter(gpu__node_id=node_id)
        units, seats = units.filter(gpu__node_id=node_id), seats.filter(slice__gpu__node_id=node_id)
    by_gpu: dict[str, list[Row]] = defaultdict(list)
    for row in slices.values("id", "gpu_id", "kind", "profile", "start", "size", "state", "reason", "memory_bytes"):
        by_gpu[row["gpu_id"]].append(cast(Row, row))
    owned: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for gpu_id, index, slice_id in units.values_list("gpu_id", "index", "slice_id"):
        owned[gpu_id].append((index, slice_id))
    by_slice: dict[str, list[Row]] = defaultdict(list)
    for values in seats.values_list(*_SEAT.values()):
        seat = dict(zip(_SEAT, values, strict=True))
        by_slice[seat.pop("slice_id")].append(seat)
    _explain([seat for found in by_slice.values() for seat in found])
    heard_since = timezone.now() - HEARD_WITHIN
    seen = {
        row["id"]: row | {"online": row["last_seen_at"] is not None and row["last_seen_at"] > heard_since}
        for row in nodes.values("id", "name", "provider", "cordoned", "memory_bytes", "last_seen_at")
    }
    return _Rows(seen, by_gpu, owned, by_slice)


def _explain(seats: list[Row]) -> None:
    """Sets ``why`` and ``decision`` on each: the last decision that gave its replica a place."""
    replicas = [seat["replica"] for seat in seats]
    placed = Decision.objects.for_platform().filter(replica_id__in=replicas, kind=DecisionKind.PLACE)
    rows = placed.order_by("replica_id", "-id").distinct("replica_id").values_list("replica_id", "id", "why")
    why = {replica: (decision, text) for replica, decision, text in rows}
    for seat in seats:
        seat["decision"], seat["why"] = why.get(seat["replica"], ("", ""))


def _drawn(gpu: Row, rows: _Rows) -> Row:
    slices = {row["id"]: row for row in rows.slices.get(gpu["id"], [])}
    strip = _strip(gpu, slices, rows.units.get(gpu["id"], []))
    node = rows.nodes[gpu["node_id"]]
    segments = [_segment(piece, slices, rows.seats, gpu["blocked"]) for piece in strip.pieces]
    seats = [seat for row in slices for seat in rows.seats.get(row, [])]
    is_cpu = gpu["kind"] == "cpu"
    return {
        "id": gpu["id"],
        "label": f"{'cpu' if is_cpu else 'gpu'}-{gpu['index']}",
        "index": gpu["index"],
        "name": gpu["name"],
        "node": {"id": node["id"], "name": node["name"]},
        "device": gpu["kind"],
        "board": gpu["board"],
        "cut": _kind_of(gpu, slices.values()),
        "can_be": gpu["kinds"],
        "unable": gpu["unable"],
        "simulated": node["provider"] == Provider.SIMULATED,
        "present": gpu["present"],
        "takes_new": _takes_new(gpu, node),
        "health": gpu["health"],
        "health_reason": gpu["health_reason"],
        "health_since": gpu["health_since"],
        "units": strip.units,
        "units_taken": strip.units_of("slice"),
        "units_free": strip.units_of("free"),
        "units_stranded": strip.units_of("stranded"),
        "units_blocked": strip.units_of("blocked"),
        "fragmentation": strip.fragmentation,
        "segments": segments,
        "memory_bytes": gpu["memory_bytes"],
        "promised_bytes": sum(seat["memory_bytes"] for seat in seats),
        "memory_used_bytes": gpu["memory_used_bytes"],
        # A CPU's memory is the machine's, whoever uses it.
        "memory_measured_bytes": max(node["memory_bytes"], gpu["memory_bytes"]) if is_cpu else gpu["memory_bytes"],
        "utilisation": gpu["utilisation"],
        "temperature_c": gpu["temperature_c"],
        "power_w": gpu["power_w"],
    }


def _takes_new(gpu: Row, node: Row) -> bool:
    healthy = machine.takes_new(gpu["health"])
    return bool(gpu["present"] and healthy and node["online"] and not node["cordoned"])


def _kind_of(gpu: Row, slices: Iterable[Row]) -> str:
    """What the device is now; empty: a GPU that could be anything it can be."""
    kind = next((row["kind"] for row in slices), "")
    if not kind and gpu["blocked"]:
        kind = gpu["blocked"][0]["kind"]
    return kind or ("" if gpu["board"] else SliceKind.SHARES)


def _strip(gpu: Row, slices: Mapping[str, Row], units: Iterable[tuple[int, str]]) -> Strip:
    try:
        known = board(gpu["board"])
    except UnknownBoard:
        return plain(gpu["units"], _runs(units, slices))
    pieces = [Piece(row["start"], row["size"], row["profile"], "slice", row["id"]) for row in slices.values()]
    pieces += [
        Piece(one["start"], one["size"], one["profile"], "blocked", str(number))
        for number, one in enumerate(gpu["blocked"])
    ]
    kind = _kind_of(gpu, slices.values())
    return cut(known.key, ISOLATION[kind].cut if kind in ISOLATION else "mig", pieces)


def _runs(units: Iterable[tuple[int, str]], slices: Mapping[str, Row]) -> list[Piece]:
    """Neighbouring units of one slice are one piece."""
    found: list[Piece] = []
    for index, slice_id in sorted(units):
        if slice_id not in slices:  # made after the slices were read
            continue
        last = found[-1] if found else None
        if last is not None and last.key == slice_id and last.start + last.size == index:
            found[-1] = Piece(last.start, last.size + 1, last.profile, "slice", slice_id)
        else:
            found.append(Piece(index, 1, slices[slice_id]["profile"], "slice", slice_id))
    return found


def _segment(
    piece: Piece, slices: Mapping[str, Row], seats: Mapping[str, list[Row]], blocked: list[dict[str, Any]]
) -> Row:
    row: Mapping[str, Any] = {}
    if piece.kind == "slice":
        row = slices[piece.key]
    elif piece.kind == "blocked":
        row = blocked[int(piece.key)]
    return {
        "kind": piece.kind,
        "start": piece.start,
        "size": piece.size,
        "profile": piece.profile,
        "slice": piece.key if piece.kind == "slice" else "",
        "state": row.get("state", ""),
        "reason": row.get("reason", ""),
        "memory_bytes": row.get("memory_bytes", 0),
        "seats": seats.get(piece.key, []) if piece.kind == "slice" else [],
    }


def _totals(gpus: list[Row], nodes: Iterable[Row]) -> Row:
    """A device that is gone holds nothing that anyone could use."""
    here = [gpu for gpu in gpus if gpu["present"]]
    used = [gpu for gpu in here if gpu["units_taken"] + gpu["units_blocked"]]
    told = [gpu["fragmentation"] for gpu in used if gpu["fragmentation"] is not None]
    nodes = list(nodes)
    totals: Row = {
        "nodes": len(nodes),
        "nodes_connected": sum(node["online"] for node in nodes),
        "devices": len(here),
        "devices_in_use": len(used),
        "devices_taking_new": sum(gpu["takes_new"] for gpu in here),
        "simulated": sum(gpu["simulated"] for gpu in here),
        "replicas": sum(len(segment["seats"]) for gpu in here for segment in gpu["segments"]),
        "fragmentation": sum(told) / len(told) if told else None,
    }
    counted = ("units", "units_taken", "units_free", "units_stranded", "units_blocked")
    for name in (*counted, "memory_bytes", "promised_bytes", "memory_used_bytes", "memory_measured_bytes"):
        totals[name] = sum(gpu[name] for gpu in here)
    return totals
