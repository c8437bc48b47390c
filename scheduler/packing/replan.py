"""When the fleet is packed anew: three candidates, and the rule that says whether a plan is worth its moves. Pure.

    insert    what is missing gets a seat where there is room; nobody moves
    compact   the same, then GPUs are emptied within the budget of moves
    exact     the optimum by ``solve``, given to GPUs so that most stay where they are

A plan with moves is taken when what it gains against ``insert`` over the horizon, in GPU-seconds, is more than
``caution`` times what its moves cost, and at least ``least_gain`` of the fleet; guaranteed goodput that would wait
otherwise is gained at any price. Replicas younger than the dwell time stay; a replica on a GPU that takes nothing new
moves in every candidate. ``exact`` leaves GPUs with blocked instances as they are, and the bound is of plans that do.
Everything that led to the choice is in the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from scheduler.packing.assign import assign
from scheduler.packing.books import Books
from scheduler.packing.compact import Change, compact
from scheduler.packing.insertion import Insertion
from scheduler.packing.mixes import Worth
from scheduler.packing.model import Demand, Fleet, Pending, Seat, part_of_gpu
from scheduler.packing.moves import Order, order
from scheduler.packing.offers import Market, Prices, beside_blocked, rest_of
from scheduler.packing.online import Placer, Policy
from scheduler.packing.plans import (
    Candidate,
    Kind,
    Plan,
    Rules,
    current_mixes,
    paired,
    served_by,
    short_of_guarantee,
    with_bursts,
)
from scheduler.packing.solve import Target, solve

_EPS = 1e-6


def replan(
    fleet: Fleet,
    demands: Iterable[Demand],
    *,
    now: float,
    prices: Prices | None = None,
    policy: Policy | None = None,
    rules: Rules | None = None,
) -> Plan:
    """The plan for ``fleet`` as it is at ``now``. New replicas are named DEMAND/NUMBER, which the caller may change."""
    return _Planner(
        fleet, tuple(demands), now=now, prices=prices or Prices(), policy=policy or Policy(), rules=rules or Rules()
    ).plan()


@dataclass(frozen=True)
class _Option:
    """``steps``: the order in which ``changes`` happen; those that cannot are left out. ``seats``: after them."""

    kind: Kind
    changes: tuple[Change, ...]
    pending: tuple[Pending, ...]
    steps: Order
    seats: tuple[Seat, ...]


class _Planner:
    def __init__(
        self, fleet: Fleet, demands: tuple[Demand, ...], *, now: float, prices: Prices, policy: Policy, rules: Rules
    ) -> None:
        self.began = monotonic()
        self.fleet, self.now, self.prices, self.policy, self.rules = fleet, now, prices, policy, rules
        self.demands = {demand.id: demand for demand in demands}
        self.market = Market(fleet, demands, prices)
        self.boards = {gpu.id: gpu.board for gpu in fleet.gpus}
        self.takes_new = {gpu.id for gpu in fleet.gpus if gpu.takes_new}
        self.pinned = {
            seat.replica
            for seat in fleet.seats
            if now - seat.since < rules.dwell_s and seat.gpu in self.takes_new and seat.demand in self.demands
        }

    def plan(self) -> Plan:
        fixed = beside_blocked(self.fleet, self.demands)
        market = Market(self.fleet, *self._left(fixed)) if fixed else self.market
        target = solve(market, time_limit_s=self.rules.time_limit_s, current=current_mixes(self.fleet))
        options = self._options(target)
        judged = [self._judge(option, options[0]) for option in options]
        at = max(range(len(options)), key=lambda n: (not judged[n].why_not, judged[n].net_gpu_s, -judged[n].moves))
        chosen, option = judged[at], options[at]
        beside = sum(self.prices.gpu(self.boards[gpu]) for gpu in {seat.gpu for seat in fixed})
        bound = min(target.bound + beside, chosen.objective)
        return Plan(
            kind=option.kind if option.changes else "nothing",
            why=self._why(chosen, judged),
            inputs=self._inputs(target, len({seat.gpu for seat in fixed})),
            objective=chosen.objective,
            bound=bound,
            gap=(chosen.objective - bound) / bound if bound > 0 else 0.0,
            changes=option.changes,
            order=option.steps,
            seats=option.seats,
            pending=option.pending,
            candidates=tuple(judged),
            seconds=monotonic() - self.began,
        )

    def _left(self, fixed: Iterable[Seat]) -> tuple[tuple[Demand, ...], Prices, Mapping[str, Worth]]:
        demands, worth = rest_of(self.market, fixed)
        return demands, self.prices, worth

    # --- candidates -----------------------------------------------------------------------------------------------

    def _options(self, target: Target) -> tuple[_Option, ...]:
        """The first moves nobody who could stay."""
        inserted = self._insertion()
        insert = self._option("insert", inserted.changes, inserted.pending)
        compacted = self._insertion()
        fresh = {change.after.replica for change in compacted.changes if change.after is not None}
        bundles = compact(
            compacted.placer, self.demands, budget=self.rules.budget, pinned=frozenset(self.pinned | fresh)
        )
        moves = [change for bundle in bundles for change in bundle.changes]
        found = assign(self.fleet, self.demands, target, now=self.now, pinned=self.pinned, policy=self.policy)
        return (
            insert,
            self._option("compact", [*compacted.changes, *moves], compacted.pending),
            self._option("exact", paired(self.fleet.seats, found.seats, self.demands), found.pending),
        )

    def _option(self, kind: Kind, changes: Iterable[Change], pending: Iterable[Pending]) -> _Option:
        changes, books = tuple(changes), Books(self.fleet)
        steps = order(books, self.demands, changes, policy=self.policy, may_interrupt=self.rules.may_interrupt)
        dropped = {id(change) for change in steps.dropped}
        kept = tuple(change for change in changes if id(change) not in dropped)
        waits = tuple(
            Pending(change.after.demand, f"{change.after.replica} has no way to {change.after.gpu} without a break")
            for change in steps.dropped
            if change.before is None and change.after is not None
        )
        return _Option(kind, kept, (*pending, *waits), steps, with_bursts(books.seats.values(), self.demands))

    def _insertion(self) -> Insertion:
        placer = Placer(Books(self.fleet), self.policy)
        return Insertion(placer, self.demands, now=self.now, pinned=self.pinned).run()

    def _objective(self, seats: Iterable[Seat]) -> float:
        """GPUs in use at their prices, and what is not served."""
        seats = tuple(seats)
        used = sum(self.prices.gpu(self.boards[gpu]) for gpu in {seat.gpu for seat in seats})
        served = served_by(seats, self.demands)
        return used + sum(self.market.worth[name].loss(served.get(name, 0.0)) for name in self.demands)

    def _moves(self, option: _Option) -> list[tuple[Seat, Seat]]:
        """Those who could have stayed, before and after."""
        pairs = ((change.before, change.after) for change in option.changes)
        return [(old, new) for old, new in pairs if old and new and old.gpu in self.takes_new]

    # --- judging --------------------------------------------------------------------------------------------------

    def _judge(self, option: _Option, reference: _Option) -> Candidate:
        """``reference``: what is done anyway."""
        rules = self.rules
        seats, base = option.seats, reference.seats
        objective, moves = self._objective(seats), self._moves(option)
        gain = (self._objective(base) - objective) * rules.horizon_s
        # While one moves, both its seats are held.
        cost = sum((rules.load_s + rules.drain_s) * part_of_gpu(old.slot) for old, _ in moves)
        short, short_base = short_of_guarantee(seats, self.demands), short_of_guarantee(base, self.demands)
        why_not = ""
        if short > short_base + _EPS:
            why_not = f"leaves {short - short_base:.0f} tokens/s more of what is guaranteed unserved"
        elif moves and not short < short_base - _EPS:
            why_not = self._not_worth(option, len(moves), gain, cost, self._objective(base))
        used = len({seat.gpu for seat in seats})
        net = gain - rules.caution * cost
        return Candidate(option.kind, objective, used, short, len(moves), gain, cost, net, why_not)

    def _not_worth(self, option: _Option, moves: int, gain: float, cost: float, base: float) -> str:
        rules = self.rules
        young = {change.before.replica for change in option.changes if change.before} & self.pinned
        if young:
            return f"would move {len(young)} replicas that are younger than {rules.dwell_s:.0f} s"
        if moves > rules.budget:
            return f"takes {moves} moves; the budget is {rules.budget}"
        if gain <= rules.caution * cost:
            return f"gains {gain:.0f} GPU-s in {rules.horizon_s:.0f} s; {moves} moves cost {cost:.0f} GPU-s"
        if gain < rules.least_gain * base * rules.horizon_s:
            return f"gains {gain / rules.horizon_s:.2f} of {base:.0f} GPUs, less than {100 * rules.least_gain:.0f} %"
        return ""

    def _why(self, chosen: Candidate, judged: list[Candidate]) -> str:
        others = "; ".join(f"{one.kind} {one.why_not}" for one in judged if one.why_not)
        rest = f". Not taken: {others}" if others else ""
        if not chosen.moves and chosen.short_of_guarantee > _EPS:
            return f"{chosen.short_of_guarantee:.0f} tokens/s of what is guaranteed find no place{rest}"
        if not chosen.moves:
            return f"{chosen.gpus} GPUs in use, and nobody moves who could stay{rest}"
        gain = f"gains {chosen.gain_gpu_s:.0f} GPU-s in {self.rules.horizon_s:.0f} s against moving nobody"
        return f"{gain}, for {chosen.moves} moves that cost {chosen.cost_gpu_s:.0f} GPU-s{rest}"

    def _inputs(self, target: Target, untouched: int) -> dict[str, Any]:
        return {
            "gpus": len(self.fleet.gpus),
            "gpus_taking_new": len(self.takes_new),
            "demands": len(self.demands),
            "replicas": len(self.fleet.seats),
            "younger_than_dwell": len(self.pinned),
            "objective_before": self._objective(self.fleet.seats),
            "horizon_s": self.rules.horizon_s,
            "budget": self.rules.budget,
            "best_known_gpus": target.gpus + untouched,
            "gpus_left_as_they_are": untouched,
            "mixes_looked_at": target.columns,
            "solver_note": target.stopped,
        }
