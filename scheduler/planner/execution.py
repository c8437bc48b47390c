"""Carrying out a plan's moves, wave by wave, from what is seen: asked again, it says the same. Pure.

For each move a replica is made at exactly the place that the plan gave it, to replace the one that moves; once it is
ready, ``reconcile`` drains the other. A wave is through when all of its newcomers are ready and those they replaced
are gone. What only comes or only goes is not done here: ``reconcile`` does it, by the number of replicas.

    running --all waves through--> done
            --a start failed, its units are taken, its GPU takes nothing new, a wave takes too long--> abandoned

A replica that is gone by itself is not moved any more. What an abandoned plan has done so far stays; who is not ready
when a wave has taken too long is let go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from scheduler.packing.books import Books
from scheduler.packing.model import ISOLATION, Demand, Seat, Slot, Spread
from scheduler.placing import place_label
from scheduler.planner.fleet import GOING, books_of, going, trust_of
from scheduler.world import DesiredWorld, DrainReplica, ObservedWorld, Place, PlaceReplica, Replica

# Weights may have to be loaded from afar; beyond this something is wrong.
WAVE_LIMIT_S = 900.0


@dataclass(frozen=True)
class Move:
    """``replica``: who moves, as it was called when the plan was made; after a first move its successor is meant."""

    replica: str
    deployment: str
    gpu: str
    place: Place


@dataclass(frozen=True)
class Step:
    """``wave``: how many are through. ``begin``: replicas to be made now; ``drop``: to be let go. ``why``: what it
    waits for, or why it ended.
    """

    state: Literal["running", "done", "abandoned"]
    wave: int
    begin: tuple[PlaceReplica, ...]
    drop: tuple[DrainReplica, ...]
    why: str


def moves_of(waves: Sequence[Mapping[str, Any]]) -> tuple[tuple[Move, ...], ...]:
    """From the waves of ``plans.record``."""
    return tuple(tuple(_move(start) for start in wave["starts"] if start["instead_of"]) for wave in waves)


def held_by(waves: Sequence[Mapping[str, Any]], done: int) -> frozenset[str]:
    """GPUs that are still to be moved onto: for ``DesiredWorld.held``."""
    return frozenset(move.gpu for wave in moves_of(waves)[done:] for move in wave)


def unwanted_by(changes: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Replicas that the plan lets go: for ``DesiredWorld.unwanted``."""
    return frozenset(change["replica"] for change in changes if change["to"] is None)


def advance(
    waves: Sequence[Mapping[str, Any]],
    observed: ObservedWorld,
    desired: DesiredWorld,
    now: float,
    *,
    done: int,
    since: float,
    limit_s: float = WAVE_LIMIT_S,
) -> Step:
    """``done`` waves are through, the last since ``since``; ``begin`` is to be carried out before the next look."""
    moves = moves_of(waves)
    look = _Look(observed, desired, now)
    while done < len(moves):
        wave = [look.at(move, since) for move in moves[done]]
        failed = next((one.failed for one in wave if one.failed), "")
        if failed:
            return Step("abandoned", done, (), (), failed)
        waits = [one.waits for one in wave if one.waits]
        begin = tuple(one.begin for one in wave if one.begin is not None)
        if not waits and not begin:
            done, since = done + 1, now
            continue
        if now - since > limit_s:
            stuck = "; ".join(waits) or "its starts could not be made"
            why = f"Wave {done + 1} was not through after {limit_s / 60:.0f} minutes: {stuck}"
            drop = tuple(DrainReplica(one.unready, why) for one in wave if one.unready)
            return Step("abandoned", done, (), drop, why)
        starts = [f"{one.deployment} starts at {place_label(one.place)}" for one in begin if one.place is not None]
        return Step("running", done, begin, (), "; ".join([*waits, *starts]))
    return Step("done", done, (), (), "All moves are made")


@dataclass(frozen=True)
class _Status:
    """Nothing set: this move is through."""

    waits: str = ""
    begin: PlaceReplica | None = None
    failed: str = ""
    unready: str = ""


class _Look:
    def __init__(self, observed: ObservedWorld, desired: DesiredWorld, now: float) -> None:
        self.observed, self.now = observed, now
        self.rows = {replica.id: replica for replica in observed.replicas}
        self.heirs = {replica.replaces: replica for replica in observed.replicas if replica.run and replica.replaces}
        self.deployments = {deployment.id: deployment for deployment in desired.deployments}
        self.at_gpu = {device.id: (node, device) for node in observed.nodes for device in node.devices}
        self.demands = {one.id: one.demand for one in desired.deployments if one.demand is not None}
        self.leaving = going(observed.nodes, observed.replicas, self.demands)
        self._books: tuple[Books, dict[str, str]] | None = None

    def at(self, move: Move, since: float) -> _Status:
        line = self._line(move.replica)
        if not line or move.deployment not in self.deployments:
            return _Status()
        moved = next((one for one in line if (one.device, _spot(one)) == (move.gpu, _spot_of(move.place))), None)
        if moved is not None:
            return self._on_its_way(moved)
        failed = self._failed(move, since) or self._unfit(move)
        return _Status(failed=failed) if failed else self._begin(move, line[-1])

    def _line(self, name: str) -> list[Replica]:
        """The replica of that name and its successors, those that are to run."""
        found: list[Replica] = []
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            row = self.rows.get(name)
            if row is not None and row.run:
                found.append(row)
            heir = self.heirs.get(name)
            name = heir.id if heir is not None else name
        return found

    def _on_its_way(self, moved: Replica) -> _Status:
        if moved.state != "ready" or moved.missing_since is not None:
            said = f" ({moved.reason})" if moved.reason else ""
            return _Status(waits=f"{moved.id} is {moved.state}{said}", unready=moved.id if moved.replaces else "")
        if moved.replaces in self.rows:
            return _Status(waits=f"{moved.replaces} has not left yet")
        return _Status()

    def _failed(self, move: Move, since: float) -> str:
        node = self.at_gpu[move.gpu][0] if move.gpu in self.at_gpu else None
        for failure in self.observed.failures:
            same = node is not None and (failure.deployment, failure.node) == (move.deployment, node.id)
            if node is not None and same and failure.at >= since:
                return f"A start on {node.name} failed: {failure.reason or 'it gave no reason'}"
        return ""

    def _unfit(self, move: Move) -> str:
        """Why the place is not what the deployment asks for now."""
        if move.gpu not in self.at_gpu:
            return f"The GPU {move.gpu} is gone"
        demand = self._demand(move)
        slot = move.place.slot
        if demand is not None and (slot.kind < demand.isolation or demand.rates.get(slot, 0.0) <= 0):
            return f"{self._name(move)} does not fit {slot.label} any more"
        return ""

    def _begin(self, move: Move, last: Replica) -> _Status:
        books, closed = self._opened()
        node, device = self.at_gpu[move.gpu]
        where = f"{place_label(move.place)} of {node.name} {device.label}"
        if not node.heard(self.now):  # it may come back
            return _Status(waits=f"{node.name} is not heard")
        if move.gpu in closed:
            return _Status(failed=f"{node.name} {device.label} takes nothing new: {closed[move.gpu]}")
        demand = self._demand(move)
        seat = Seat("?", move.deployment, trust_of(last, demand), move.gpu, move.place.slot, move.place.start)
        if self._too_near(books, seat, demand, last):
            return _Status(failed=f"Another replica of {self._name(move)} came too near to {where}")
        if books.why_not(seat, Spread.NONE):
            staying = (one for one in books.seats.values() if one.demand != GOING)
            later = Books(replace(books.fleet, seats=tuple(staying)))
            if later.why_not(seat, Spread.NONE):
                return _Status(failed=f"Others have {where} by now")
            return _Status(waits=f"{where} is free once those that leave it are gone")
        reason = f"Moves to {device.label} of {node.name}, {place_label(move.place)}: it replaces {last.id}"
        begin = PlaceReplica(
            deployment=move.deployment,
            replica=None,
            node=node.id,
            device=move.gpu,
            memory_bytes=last.memory_bytes,
            reason=reason,
            place=move.place,
            replaces=last.id,
        )
        books.put(Seat(f"+{last.id}", seat.demand, seat.trust, seat.gpu, seat.slot, seat.start))
        return _Status(begin=begin)

    def _too_near(self, books: Books, seat: Seat, demand: Demand | None, last: Replica) -> bool:
        """The one that moves may be near, for as long as both run."""
        if demand is None:
            return False
        mine = books.take(last.id) if last.id in books.seats else None
        near = books.too_near(seat.demand, demand.spread, books.gpu(seat.gpu))
        if mine is not None:
            books.put(mine)
        return near

    def _opened(self) -> tuple[Books, dict[str, str]]:
        if self._books is None:
            self._books = books_of(
                self.observed.nodes, self.observed.replicas, self.now, demands=self.demands, leaving=self.leaving
            )
        return self._books

    def _demand(self, move: Move) -> Demand | None:
        return self.demands.get(move.deployment)

    def _name(self, move: Move) -> str:
        deployment = self.deployments.get(move.deployment)
        return deployment.name if deployment is not None else move.deployment


def _move(start: Mapping[str, Any]) -> Move:
    slot = start["to"]["slot"]
    place = Place(Slot(slot["board"], ISOLATION[slot["kind"]], slot["profile"]), start["to"]["start"], start["burst"])
    return Move(start["instead_of"], start["deployment"], start["to"]["gpu"], place)


def _spot(replica: Replica) -> tuple[Slot, int] | None:
    return _spot_of(replica.place) if replica.place is not None else None


def _spot_of(place: Place) -> tuple[Slot, int]:
    return place.slot, place.start
