"""How many GPUs of which pattern, and which slots for each demand: exact, by columns, in HiGHS. Pure.

    minimise   sum of GPUs  +  sum of what is not served
    pattern    x_k GPUs in each inclusion-maximal pattern of a group's board, w whole, u shared within a trust domain
    mix        y_mc: demand m is served by the mix of slots c; exactly one each, the empty mix is one
    supply     of each slot, the mixes take at most what the patterns give; parts of shared GPUs are halves of one
               another, so that what fits in sum fits
    gpus       how many there are, in all: a row without bounds of its own
    spread     no demand has more replicas than there are GPUs in use, nor more on shared ones than those

Mixes are made on demand: the linear relaxation prices every slot, ``mixes.cheapest`` finds for each demand the mix
that would improve it most, until none does. Its value is then a bound on every plan, whole numbers or not (Dantzig
and Wolfe 1960), and a little closer one with a whole number of GPUs. Only as many mixes can be fractional as there
are supply rows, so that the bound stays close however many demands there are. The integer programme over the mixes
found gives the plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import highspy
import numpy as np

from scheduler.geometry.boards import board
from scheduler.geometry.layouts import Counts, layouts
from scheduler.packing.mixes import Item, Mix, cheapest
from scheduler.packing.model import Demand, Isolation, Slot, Spread
from scheduler.packing.offers import Group, Market, Offer

_EPS = 1e-6


@dataclass(frozen=True)
class Target:
    """A plan by numbers, without names of GPUs.

    ``slots``: demand -> offer -> replicas. ``patterns``: group -> counts of its profiles -> GPUs; ``whole``: group ->
    GPUs; ``shared``: (group, kind, trust) -> GPUs. ``objective`` and ``bound`` in GPUs, what is not served included.
    """

    slots: Mapping[str, Mapping[Offer, int]]
    patterns: Mapping[Group, Mapping[Counts, int]]
    whole: Mapping[Group, int]
    shared: Mapping[tuple[Group, Isolation, str], int]
    gpus: int
    objective: float
    bound: float
    lost: float
    columns: int
    rounds: int
    seconds: float
    stopped: str = ""

    @property
    def gap(self) -> float:
        """Of the objective over the bound, as a part of the bound."""
        return (self.objective - self.bound) / self.bound if self.bound > 0 else 0.0


@dataclass(frozen=True)
class _Bound:
    """``best``: no mix is missing."""

    value: float
    best: bool


@dataclass
class _Pool:
    """What the rows and columns of the programme stand for."""

    supply: dict[tuple[Group, Isolation, str, str], int] = field(default_factory=dict)
    sizes: dict[int, float] = field(default_factory=dict)
    patterns: list[tuple[int, Group, Counts]] = field(default_factory=list)
    whole: list[tuple[int, Group]] = field(default_factory=list)
    shared: list[tuple[int, Group, Isolation, str]] = field(default_factory=list)
    mixes: list[tuple[int, str, Mix, float]] = field(default_factory=list)
    one: dict[str, int] = field(default_factory=dict)
    spread: dict[str, int] = field(default_factory=dict)
    apart: dict[tuple[str, Group, Isolation, str], int] = field(default_factory=dict)
    gpus: int = 0
    capacity: dict[Group, int] = field(default_factory=dict)


def solve(
    market: Market,
    *,
    time_limit_s: float = 4.0,
    current: Mapping[str, Mapping[Offer, int]] | None = None,
) -> Target:
    """The best plan found within ``time_limit_s``, and its bound. ``current``: mixes as they are, kept among equals."""
    return _Programme(market, time_limit_s, current or {}).solve()


def quiet_highs() -> highspy.Highs:
    """A solver that prints nothing and gives the same answer each time."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1)):
        solver.setOptionValue(option, value)
    return solver


class _Programme:
    def __init__(self, market: Market, time_limit_s: float, current: Mapping[str, Mapping[Offer, int]]) -> None:
        self.began = monotonic()
        self.limit = time_limit_s
        self.market = market
        self.pool = _Pool()
        self.seen: set[tuple[str, tuple[tuple[int, int], ...]]] = set()
        self.lp = quiet_highs()
        self.rounds = 0
        self._rows()
        self._gpus()
        self._first_mixes(current)

    # --- rows and columns -----------------------------------------------------------------------------------------

    def _row(self, lower: float, upper: float) -> int:
        self.lp.addRow(lower, upper, 0, np.empty(0, np.int32), np.empty(0))
        return int(self.lp.getNumRow()) - 1

    def _column(self, cost: float, upper: float, entries: Mapping[int, float]) -> int:
        rows = np.fromiter(entries, np.int32, len(entries))
        values = np.fromiter(entries.values(), np.float64, len(entries))
        self.lp.addCol(cost, 0.0, upper, len(entries), rows, values)
        return int(self.lp.getNumCol()) - 1

    def _rows(self) -> None:
        infinity = highspy.kHighsInf
        self.pool.gpus = self._row(-infinity, infinity)
        for group, count in self.market.groups.items():
            self.pool.capacity[group] = self._row(-infinity, count)
        for offer in self.market.offers:
            key = _supply_key(offer)
            if key not in self.pool.supply:
                self.pool.supply[key] = self._row(-infinity, 0.0)
        for demand in self.market.demands:
            self.pool.one[demand.id] = self._row(1.0, 1.0)
            if demand.spread is not Spread.NONE:
                self.pool.spread[demand.id] = self._row(-infinity, 0.0)
                offers = (self.market.offers[number] for number, _, _ in self.market.items[demand.id])
                for pair in {_apart_key(demand.id, offer) for offer in offers if not offer.slot.kind.mixes_trust}:
                    self.pool.apart[pair] = self._row(-infinity, 0.0)

    def _gpus(self) -> None:
        """Columns of GPUs: each pattern, whole, and shared within a trust domain."""
        near = dict.fromkeys(self.pool.spread.values(), -1.0)
        for group in self.market.groups:
            price = self.market.prices.gpu(group.board)
            base = {self.pool.gpus: 1.0, self.pool.capacity[group]: 1.0, **near}
            keys = [key for key in self.pool.supply if key[0] == group]
            mig = {key[3]: self.pool.supply[key] for key in keys if key[1] is Isolation.MIG}
            if mig:
                table = layouts(group.board, "mig")
                for pattern in table.patterns:
                    gives = {mig[n]: -float(c) for n, c in zip(table.names, pattern, strict=True) if c and n in mig}
                    if gives:
                        column = self._column(price, highspy.kHighsInf, base | gives)
                        self.pool.patterns.append((column, group, pattern))
            for key in keys:
                if key[1] is Isolation.WHOLE:
                    column = self._column(price, highspy.kHighsInf, base | {self.pool.supply[key]: -1.0})
                    self.pool.whole.append((column, group))
                elif key[1] is not Isolation.MIG:
                    units = float(board(group.board).shares.units)
                    apart = {row: -1.0 for other, row in self.pool.apart.items() if other[1:] == key[:3]}
                    entries = base | apart | {self.pool.supply[key]: -units}
                    column = self._column(price, highspy.kHighsInf, entries)
                    self.pool.shared.append((column, group, key[1], key[2]))

    def _add_mix(self, demand: Demand, mix: Mix, bonus: float = 0.0) -> None:
        if (demand.id, mix.counts) in self.seen:
            return
        self.seen.add((demand.id, mix.counts))
        entries: dict[int, float] = {self.pool.one[demand.id]: 1.0}
        for number, count in mix.counts:
            offer = self.market.offers[number]
            row = self.pool.supply[_supply_key(offer)]
            entries[row] = entries.get(row, 0.0) + count * _units(offer)
            apart = self.pool.apart.get(_apart_key(demand.id, offer))
            if apart is not None:
                entries[apart] = entries.get(apart, 0.0) + count
        if mix.counts and demand.id in self.pool.spread:
            entries[self.pool.spread[demand.id]] = float(mix.replicas)
        lost = self.market.worth[demand.id].loss(mix.rate)
        # Without an upper bound of its own, which would have a dual: the row of one mix each says it.
        column = self._column(lost - bonus, highspy.kHighsInf, entries)
        self.pool.mixes.append((column, demand.id, mix, lost))

    def _first_mixes(self, current: Mapping[str, Mapping[Offer, int]]) -> None:
        """The empty mix, the cheapest by parts of GPUs, each slot alone as often as needed, and what is there now."""
        seats = sum(sum(mix.values()) for mix in current.values())
        for demand in self.market.demands:
            worth, items = self.market.worth[demand.id], self.market.items[demand.id]
            self._add_mix(demand, Mix((), 0.0, worth.loss(0.0), 0.0))
            if not items:
                continue
            rates = {number: rate for number, rate, _ in items}
            now = current.get(demand.id, {})
            counts = [(number, n) for offer, n in now.items() if (number := self.market.number(offer)) is not None]
            counts = sorted((number, n) for number, n in counts if number in rates)
            if counts and sum(n for _, n in counts) >= demand.min_replicas:
                rate = sum(rates[number] * n for number, n in counts)
                self._add_mix(demand, Mix(tuple(counts), rate, 0.0, 0.0), 0.4 / (seats + 1) * sum(now.values()))
            most = self.market.most[demand.spread]
            self._add_mix(demand, cheapest([Item(*item) for item in items], worth, demand.min_replicas, most))
            for number, rate in rates.items():
                count = max(demand.min_replicas, math.ceil(demand.wanted / rate - _EPS))
                if count <= most:
                    self._add_mix(demand, Mix(((number, count),), rate * count, 0.0, 0.0))

    # --- solving --------------------------------------------------------------------------------------------------

    def solve(self) -> Target:
        bound = self._relax(self.limit / 2)
        stopped = "" if bound.best else "the time for pricing ran out: the bound is not the best"
        relaxed = np.array(self.lp.getSolution().col_value)
        short = sum(relaxed[column] * lost for column, _, _, lost in self.pool.mixes)
        value = max(bound.value, self._with_whole_gpus(relaxed))
        if short > _EPS:
            self._add_parts()
        values = self._whole_numbers(short <= _EPS)
        if values is None:
            values = self._whole_numbers(False)
        return self._target(values, max(0.0, value), stopped)

    def _relax(self, until_s: float) -> _Bound:
        """Adds mixes until the relaxation lacks none, or until so many seconds after the beginning."""
        found = -math.inf
        while True:
            self.lp.run()
            value = self.lp.getInfo().objective_function_value
            missing = self._price()
            found = max(found, value + missing)
            self.rounds += 1
            if missing > -_EPS * max(1.0, abs(value)):
                return _Bound(found, best=True)
            if monotonic() - self.began > until_s:
                return _Bound(found, best=False)

    def _with_whole_gpus(self, relaxed: np.ndarray[Any, Any]) -> float:
        """The bound of plans that use a whole number of GPUs, as every plan does: at most the part in ``relaxed``
        below, or one more. It says most of small fleets. What these two relaxations lack is priced as well.
        """
        used = float(sum(relaxed[column] for column in self._gpu_columns()))
        below = math.floor(used + _EPS)
        if used - below < _EPS or monotonic() - self.began > self.limit / 2:
            return -math.inf
        bounds = []
        for lower, upper in ((-highspy.kHighsInf, float(below)), (below + 1.0, highspy.kHighsInf)):
            self.lp.changeRowBounds(self.pool.gpus, lower, upper)
            bounds.append(self._relax(self.limit / 2).value)
        self.lp.changeRowBounds(self.pool.gpus, -highspy.kHighsInf, highspy.kHighsInf)
        return min(bounds)

    def _gpu_columns(self) -> list[int]:
        columns = [column for column, _, _ in self.pool.patterns]
        columns += [column for column, _ in self.pool.whole]
        return columns + [column for column, _, _, _ in self.pool.shared]

    def _add_parts(self) -> None:
        """Of every mix those with a replica fewer: where not all fits, whole numbers need what lies in between."""
        by_id = {demand.id: demand for demand in self.market.demands}
        for _, name, mix, _ in list(self.pool.mixes):
            demand, counts = by_id[name], dict(mix.counts)
            rates = {number: rate for number, rate, _ in self.market.items[name]}
            for number, count in mix.counts:
                fewer = counts | {number: count - 1}
                part = tuple(sorted((n, left) for n, left in fewer.items() if left))
                if part and mix.replicas > demand.min_replicas:
                    self._add_mix(demand, Mix(part, sum(rates[n] * left for n, left in part), 0.0, 0.0))

    def _price(self) -> float:
        """Adds for each demand the mix that the relaxation lacks most; the sum of what they would save, not above 0."""
        duals = np.array(self.lp.getSolution().row_dual)
        saved = 0.0
        for demand in self.market.demands:
            items = self.market.items[demand.id]
            if not items:
                continue
            near = -duals[self.pool.spread[demand.id]] if demand.id in self.pool.spread else 0.0
            priced = [Item(number, rate, self._price_of(demand.id, number, duals) + near) for number, rate, _ in items]
            most = self.market.most[demand.spread]
            mix = cheapest(priced, self.market.worth[demand.id], demand.min_replicas, most)
            reduced = mix.bound - duals[self.pool.one[demand.id]]
            saved += min(0.0, reduced)
            if reduced < -_EPS:
                self._add_mix(demand, mix)
        return saved

    def _price_of(self, demand: str, number: int, duals: np.ndarray[Any, Any]) -> float:
        offer = self.market.offers[number]
        apart = self.pool.apart.get(_apart_key(demand, offer))
        price = -duals[self.pool.supply[_supply_key(offer)]] * _units(offer)
        return max(0.0, float(price)) + (max(0.0, float(-duals[apart])) if apart is not None else 0.0)

    def _whole_numbers(self, everything: bool) -> np.ndarray[Any, Any] | None:
        """The best whole numbers; ``everything``: only mixes that leave nothing unserved. None: there are none."""
        count = int(self.lp.getNumCol())
        if not count:  # nobody asks for anything
            return np.zeros(0, int)
        every = np.arange(count, dtype=np.int32)
        self.lp.changeColsIntegrality(count, every, np.full(count, highspy.HighsVarType.kInteger))
        for column, _, _, lost in self.pool.mixes:
            self.lp.changeColBounds(column, 0.0, 0.0 if everything and lost > _EPS else 1.0)
        left = max(0.5, self.limit - (monotonic() - self.began))
        self.lp.setOptionValue("time_limit", self.lp.getRunTime() + left)
        # All prices whole: a gap below one GPU is none. What the bonus for the present takes is less than half of one.
        whole = everything and all(self.market.prices.gpu(g.board).is_integer() for g in self.market.groups)
        self.lp.setOptionValue("mip_abs_gap", 0.55 if whole else 1e-3)
        self.lp.setOptionValue("mip_rel_gap", 0.0 if whole else 1e-4)
        self.lp.run()
        solution = self.lp.getSolution()
        if not solution.value_valid or self.lp.getInfo().primal_solution_status != 2:
            return None
        found: np.ndarray[Any, Any] = np.rint(np.array(solution.col_value)).astype(int)
        return found

    def _target(self, values: np.ndarray[Any, Any] | None, bound: float, stopped: str) -> Target:
        if values is None:
            raise RuntimeError("no plan in whole numbers was found, not even the one that serves nothing")
        slots: dict[str, dict[Offer, int]] = {}
        lost = 0.0
        for column, demand, mix, unserved in self.pool.mixes:
            if values[column]:
                slots[demand] = {self.market.offers[number]: count for number, count in mix.counts}
                lost += unserved
        patterns: dict[Group, dict[Counts, int]] = {}
        for column, group, pattern in self.pool.patterns:
            if values[column]:
                patterns.setdefault(group, {})[pattern] = int(values[column])
        whole = {group: int(values[column]) for column, group in self.pool.whole if values[column]}
        shared = {(group, kind, trust): int(values[at]) for at, group, kind, trust in self.pool.shared if values[at]}
        used = [(g, n) for g, found in patterns.items() for n in found.values()]
        used += [*whole.items(), *((key[0], n) for key, n in shared.items())]
        objective = sum(n * self.market.prices.gpu(group.board) for group, n in used) + lost
        return Target(
            slots=slots,
            patterns=patterns,
            whole=whole,
            shared=shared,
            gpus=sum(n for _, n in used),
            objective=objective,
            bound=min(bound, objective),
            lost=lost,
            columns=len(self.pool.mixes),
            rounds=self.rounds,
            seconds=monotonic() - self.began,
            stopped=stopped,
        )


def _supply_key(offer: Offer) -> tuple[Group, Isolation, str, str]:
    """Shares of one trust domain come from one pool whatever their size; other slots from one each."""
    profile = offer.slot.profile if offer.slot.kind.mixes_trust else ""
    return offer.group, offer.slot.kind, offer.trust, profile


def _apart_key(demand: str, offer: Offer) -> tuple[str, Group, Isolation, str]:
    return demand, offer.group, offer.slot.kind, offer.trust


def _units(offer: Offer) -> float:
    """What one slot takes of its pool."""
    slot: Slot = offer.slot
    return 1.0 if slot.kind.mixes_trust else float(board(slot.board).shares.profile(slot.profile).size)
