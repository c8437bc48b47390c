"""Demands that come and go, one after the other, through a way of placing them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from time import perf_counter
from typing import Any

from benchmarks.common import fleet_demand
from benchmarks.common.fleet_demand import BOARD, Visit
from benchmarks.common.placers import Ours, Usual
from benchmarks.common.report import percentile
from scheduler.geometry.layouts import layouts
from scheduler.packing.books import Books
from scheduler.packing.fragments import Fragmentation
from scheduler.packing.model import Demand, Isolation

Figures = dict[str, Any]


class Replay:
    """Visits one after the other through a way of placing; figures from an eighth of the visits on."""

    def __init__(
        self, visits: list[Visit], gpus: int, make: Callable[[Books], Usual | Ours], board: str = BOARD
    ) -> None:
        self.books = Books(fleet_demand.fleet(gpus, board))
        self.way = make(self.books)
        self.visits = visits
        self.warm = visits[len(visits) // 8].comes
        self.last = self.area = self.served = 0.0
        self.goodput = 0.0
        self.peak = self.accepted = 0
        self.stranded: list[int] = []
        self.took_ms: list[float] = []

    def _advance(self, now: float) -> None:
        since = max(self.last, self.warm)
        if now > since:
            gpus = sum(self.books.active.values())
            self.area += gpus * (now - since)
            self.served += self.goodput * (now - since)
            self.peak = max(self.peak, gpus)
        self.last = max(self.last, now)

    def run(self) -> Figures:
        leaving: list[tuple[float, int]] = []
        for number, visit in enumerate(self.visits):
            while leaving and leaving[0][0] <= visit.comes:
                at, gone = heapq.heappop(leaving)
                self._advance(at)
                self._leave(self.visits[gone].demand)
            self._advance(visit.comes)
            began = perf_counter()
            placed = self.way.place(visit.demand, visit.comes)
            self.took_ms.append(1000 * (perf_counter() - began))
            if placed:
                self.accepted += 1
                self.goodput += visit.demand.wanted
                heapq.heappush(leaving, (visit.goes, number))
            if isinstance(self.way, Ours):
                self.way.after()
            if number % 50 == 0 and visit.comes >= self.warm:
                self.stranded.append(stranded(self.books))
        return self.figures()

    def _leave(self, demand: Demand) -> None:
        for seat in self.books.of(demand.id):
            self.books.take(seat.replica)
        self.goodput -= demand.wanted
        if isinstance(self.way, Ours):
            self.way.demands.pop(demand.id, None)

    def figures(self) -> Figures:
        span = self.last - self.warm
        moved = self.way.moved if isinstance(self.way, Ours) else 0
        return {
            "gpus": self.area / span,
            "peak": self.peak,
            "goodput_per_gpu": self.served / self.area,
            "acceptance": self.accepted / len(self.visits),
            "stranded_units": sum(self.stranded) / max(1, len(self.stranded)),
            "moves_per_h": moved / self.last,
            "decision_p50_ms": percentile(self.took_ms, 0.5),
            "decision_p99_ms": percentile(self.took_ms, 0.99),
        }


def stranded(books: Books) -> int:
    """Free units of GPUs in use in which nothing can be made any more."""
    table = Fragmentation(layouts(BOARD, "mig"))
    return sum(table.stranded(room.state) for _, room in books.rooms() if room.kind is Isolation.MIG)
