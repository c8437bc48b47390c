"""Models onto GPUs: ours beside the usual ways, and the bound that no plan can pass. Pure computing, one core.

    python benchmarks/packing.py [--only static,small,churn,online,replan,alibaba] [--json FILE] [--check]

static   demands that stay: GPUs that each way needs, and the bound of the linear relaxation
small    three or four demands on A30s against every plan there is
churn    4,000 arrivals with exponential lifetimes: GPUs in use on average, without moves and with
online   one replica more on 1,000 GPUs that are nearly full
replan   64 GPUs and 200 models packed anew; and what a tick without moves takes at 1,000 GPUs and 1,000 demands
alibaba  the same coming and going of pods as large as Alibaba's of 2023, in sevenths of a GPU; where ../shared/data has
         them
"""

from __future__ import annotations

import gc
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

from benchmarks.common import exhaustive, fleet_demand
from benchmarks.common.fleet_demand import BOARD, Visit
from benchmarks.common.placers import Ours, Usual, by_memory, sized, smallest_unit, whole
from benchmarks.common.replay import Replay, stranded
from benchmarks.common.report import (
    REPOSITORY,
    Targets,
    percentile,
    run_parts,
    say,
)
from scheduler.packing.assign import assign
from scheduler.packing.books import Books
from scheduler.packing.insertion import Insertion
from scheduler.packing.model import Demand, part_of_gpu
from scheduler.packing.offers import Market, Prices
from scheduler.packing.online import Placer, Policy
from scheduler.packing.plans import Rules, served_by
from scheduler.packing.replan import replan
from scheduler.packing.solve import solve

PODS = REPOSITORY.parent / "shared" / "data" / "alibaba_openb_pods_2023.csv"
ARRIVALS, LIVE, LIFE_H, CHURN_SEED = 4000, 100, 2.0, 5
MOVES, EVERY = 6, 2  # replicas that may move after every second arrival
FEWER_THAN_WHOLE = 0.40
FEWER_WITHOUT_MOVES, FEWER_WITH_MOVES = 0.10, 0.15
GAP, GAP_GPUS = 0.03, 1.0
ONLINE_MS = 5.0
REPLAN_S = 5.0

Figures = dict[str, Any]


# --- Demand that stays ------------------------------------------------------------------------------------------


def run_static() -> Figures:
    return {
        f"{count} demands, seed {seed}": static(count, seed) for count, seed in ((20, 1), (50, 2), (100, 3), (200, 4))
    }


def static(count: int, seed: int) -> Figures:
    wanted = fleet_demand.demands(count, seed)
    empty = fleet_demand.fleet(8 * count)
    ways = {
        "whole": lambda books: Usual(books, whole),
        "all-1g": lambda books: Usual(books, smallest_unit),
        "first-fit": lambda books: Usual(books, by_memory),
        "best-fit": lambda books: Usual(books, by_memory, fullest=True),
        "first-fit, sized": lambda books: Usual(books, sized),
    }
    found = {}
    for name, make in ways.items():
        books = Books(empty)
        way = make(books)
        began = perf_counter()
        for demand in wanted:
            way.place(demand, 0.0)
        found[name] = _static_figures(books, wanted, perf_counter() - began)
    began = perf_counter()
    target = solve(Market(empty, wanted, Prices()))
    plan = assign(empty, {demand.id: demand for demand in wanted}, target)
    books = Books(type(empty)(empty.gpus, plan.seats))
    found["ours"] = _static_figures(books, wanted, perf_counter() - began) | {"pending": len(plan.pending)}
    return {"ways": found, "bound": target.bound, "mixes": target.columns}


def _static_figures(books: Books, wanted: Iterable[Demand], seconds: float) -> Figures:
    demands = {demand.id: demand for demand in wanted}
    served = served_by(books.seats.values(), demands)
    goodput = sum(min(demand.wanted, served.get(demand.id, 0.0)) for demand in demands.values())
    gpus = sum(books.active.values())
    return {
        "gpus": gpus,
        "goodput_per_gpu": goodput / max(1, gpus),
        "stranded_units": stranded(books),
        "seconds": seconds,
    }


def run_small() -> Figures:
    """By how many GPUs ours is above the best of all plans, over many small cases."""
    above: Counter[int] = Counter()
    for seed in range(200):
        demands = exhaustive.some_demands(random.Random(seed))
        found = solve(Market(fleet_demand.fleet(24, exhaustive.BOARD), demands, Prices()))
        above[found.gpus - exhaustive.fewest_gpus(demands)] += 1
    return {"cases": sum(above.values()), "above_best": {str(more): n for more, n in sorted(above.items())}}


# --- Demand that comes and goes ---------------------------------------------------------------------------------


def mix_of(visits: Iterable[Visit]) -> Policy:
    """What is asked for, as a platform would have counted it: the slots of the sized first-fit."""
    asked = Counter(slot.profile for visit in visits for slot in sized(visit.demand))
    return Policy({BOARD: {name: count / asked.total() for name, count in asked.items()}})


Ways = dict[str, Callable[[Books], Usual | Ours]]


def by_device_plugins() -> Ways:
    return {
        "first-fit": lambda books: Usual(books, by_memory),
        "best-fit": lambda books: Usual(books, by_memory, fullest=True),
    }


def ours_by(policy: Policy) -> Ways:
    return {
        "ours": lambda books: Ours(books, policy),
        "ours, with moves": lambda books: Ours(books, policy, moves=MOVES, every=EVERY),
    }


def replayed(part: str, visits: list[Visit], gpus: int, ways: Ways) -> dict[str, Figures]:
    """The same visits placed by each way on as many GPUs."""
    found = {}
    for name, make in ways.items():
        say(f"{part}: {name}")
        found[name] = Replay(visits, gpus, make).run()
    return found


def run_churn() -> Figures:
    visits = fleet_demand.churn(ARRIVALS, LIVE, LIFE_H, CHURN_SEED)
    policy = mix_of(visits[: ARRIVALS // 8])
    ways: Ways = {
        "whole": lambda books: Usual(books, whole),
        "all-1g": lambda books: Usual(books, smallest_unit),
        **by_device_plugins(),
        "first-fit, sized": lambda books: Usual(books, sized),
        "ours, sized slots": lambda books: Ours(books, policy, slots=sized),
        **ours_by(policy),
    }
    found = replayed("churn", visits, 4 * LIVE, ways)
    bound = bound_of(visits, 24)
    # The same visits to a fleet that is just too small for everybody.
    small = round(bound)
    say(f"churn: acceptance on {small} GPUs")
    for name in ("first-fit", "first-fit, sized", "ours", "ours, with moves"):
        found[name]["acceptance_when_scarce"] = Replay(visits, small, ways[name]).run()["acceptance"]
    return {"ways": found, "bound": bound, "scarce_gpus": small}


def bound_of(visits: list[Visit], samples: int) -> float:
    """The mean over instants of the least GPUs that whoever is there could be served with, moved at will."""
    first = len(visits) // 8
    bounds = []
    for number in range(first, len(visits), (len(visits) - first) // samples):
        now = visits[number].comes
        there = [visit.demand for visit in visits[: number + 1] if visit.goes > now]
        bounds.append(solve(Market(fleet_demand.fleet(4 * LIVE), there, Prices())).bound)
    return sum(bounds) / len(bounds)


# --- Time of a decision -----------------------------------------------------------------------------------------


def run_online() -> Figures:
    """Replicas come and go on 1,000 GPUs of which about nine in ten are in use."""
    books = Books(fleet_demand.fleet(1000))
    placer, chance = Placer(books), random.Random(7)
    number, seated = 0, []
    took_ms: list[float] = []
    cpu_ms: list[float] = []  # a neighbour on the machine delays a decision; it does not make it longer
    while sum(books.active.values()) < 900:
        number += 1
        demand = fleet_demand.one_demand(f"d{number}", chance)
        choice = placer.find(demand, sized(demand)[:1])
        if choice is not None:
            seated.append(placer.seat(f"d{number}/0", demand, choice))
    gc.collect()
    gc.freeze()
    for _ in range(3000):
        books.take(seated.pop(chance.randrange(len(seated))).replica)
        number += 1
        demand = fleet_demand.one_demand(f"d{number}", chance)
        slots = [slot for slot, rate in demand.rates.items() if rate >= demand.wanted] or None
        began, began_cpu = perf_counter(), thread_time()
        choice = placer.find(demand, slots)
        took_ms.append(1000 * (perf_counter() - began))
        cpu_ms.append(1000 * (thread_time() - began_cpu))
        if choice is not None:
            seated.append(placer.seat(f"d{number}/0", demand, choice))
    gc.unfreeze()
    return {
        "gpus": 1000,
        "replicas": len(seated),
        "rooms": len(books.buckets),
        "p50_ms": percentile(took_ms, 0.5),
        "p99_ms": percentile(took_ms, 0.99),
        "cpu_p50_ms": percentile(cpu_ms, 0.5),
        "cpu_p99_ms": percentile(cpu_ms, 0.99),
    }


def run_replan() -> Figures:
    """A fleet after a day of coming and going, packed anew."""
    chance, scale = random.Random(11), 0.36
    demands = fleet_demand.demands(200, 21, scale)
    fleet = fleet_demand.fleet(64)
    for step in range(6):
        kept = [demand for demand in demands if chance.random() > 0.25]
        fresh = [fleet_demand.one_demand(f"s{step}-{n}", chance, scale) for n in range(200 - len(kept))]
        demands = kept + fresh
        placer = Placer(Books(fleet))
        Insertion(placer, {demand.id: demand for demand in demands}, now=3600.0 * step).run()
        fleet = placer.books.snapshot()
    plan = replan(fleet, demands, now=90_000.0, rules=Rules(budget=40))
    return {
        "gpus_before": len({seat.gpu for seat in fleet.seats}),
        "gpus_after": len({seat.gpu for seat in plan.seats}),
        "objective": plan.objective,
        "bound": plan.bound,
        "gap": plan.gap,
        "kind": plan.kind,
        "why": plan.why,
        "moves": sum(1 for change in plan.changes if change.before and change.after),
        "waves": len(plan.order.waves),
        "pending": len(plan.pending),
        "candidates": {one.kind: {"gpus": one.gpus, "moves": one.moves, "not": one.why_not} for one in plan.candidates},
        "seconds": plan.seconds,
        "tick": tick(),
    }


def tick() -> Figures:
    """1,000 GPUs, 1,000 demands of which 20 are new: books opened, and seats found."""
    demands = {demand.id: demand for demand in fleet_demand.demands(1000, 31)}
    fleet = fleet_demand.fleet(1000)
    placer = Placer(Books(fleet))
    Insertion(placer, dict(list(demands.items())[:980]), now=0.0).run()
    fleet = placer.books.snapshot()
    began = perf_counter()
    done = Insertion(Placer(Books(fleet)), demands, now=60.0).run()
    return {"seconds": perf_counter() - began, "seats": len(done.changes), "pending": len(done.pending)}


# --- Alibaba's pods ---------------------------------------------------------------------------------------------


def run_alibaba(path: Path = PODS) -> Figures:
    if not path.exists():
        say(f"{path} is not there: left out")
        return {}
    visits = fleet_demand.alibaba(path, ARRIVALS, LIVE, LIFE_H, CHURN_SEED)
    policy = mix_of(visits[: len(visits) // 8])
    ways: Ways = {
        "whole": lambda books: Usual(books, lambda demand: [max(demand.rates, key=part_of_gpu)]),
        **by_device_plugins(),
        **ours_by(policy),
    }
    return {"pods": len(visits), "ways": replayed("alibaba", visits, 2 * LIVE, ways)}


PARTS: dict[str, Callable[[], Figures]] = {
    "static": run_static,
    "small": run_small,
    "churn": run_churn,
    "online": run_online,
    "replan": run_replan,
    "alibaba": run_alibaba,
}


# --- The figures ------------------------------------------------------------------------------------------------


def fewer(ways: Figures, ours: str, theirs: str) -> float:
    """By which part ours needs fewer GPUs."""
    return float(1 - ways[ours]["gpus"] / ways[theirs]["gpus"])


def report(result: Figures) -> None:
    for name, part in result.get("static", {}).items():
        print(f"\nstatic, {name}: bound {part['bound']:.2f} GPUs, {part['mixes']} mixes looked at")
        print(f"{'':18}   GPUs  tokens/s a GPU  stranded  seconds")
        for way, row in part["ways"].items():
            line = f"{way:18} {row['gpus']:>6} {row['goodput_per_gpu']:>15.0f} {row['stranded_units']:>9}"
            print(f"{line} {row['seconds']:>8.3f}")
    if "small" in result:
        print(f"\nsmall: {result['small']['cases']} cases; GPUs above the best plan: {result['small']['above_best']}")
    for name in ("churn", "alibaba"):
        if result.get(name):
            report_replay(name, result[name])
    if "online" in result:
        row = result["online"]
        where = f"{row['gpus']} GPUs with {row['replicas']} replicas in {row['rooms']} different states"
        print(f"\nonline, {where}: p50 {row['p50_ms']:.2f} ms, p99 {row['p99_ms']:.2f} ms", end="")
        print(f"; of the processor p50 {row['cpu_p50_ms']:.2f} ms, p99 {row['cpu_p99_ms']:.2f} ms")
    if "replan" in result:
        row = result["replan"]
        print(f"\nreplan: {row['gpus_before']} GPUs to {row['gpus_after']}, objective {row['objective']:.2f}, ", end="")
        print(f"bound {row['bound']:.2f}, {row['moves']} moves in {row['waves']} waves, {row['seconds']:.2f} s")
        print(f"        {row['kind']}: {row['why']}")
        took = row["tick"]
        print(f"        a tick at 1,000 GPUs and 1,000 demands: {took['seconds']:.2f} s, {took['seats']} new seats")


def report_replay(name: str, part: Figures) -> None:
    bound = f"bound {part['bound']:.2f} GPUs" if "bound" in part else f"{part['pods']} pods"
    print(f"\n{name}: {bound}")
    print(f"{'':18}   GPUs  peak  tokens/s a GPU  accepted  when scarce  stranded  moves/h  p50 ms  p99 ms")
    for way, row in part["ways"].items():
        scarce = f"{100 * row['acceptance_when_scarce']:.1f} %" if "acceptance_when_scarce" in row else ""
        line = f"{way:18} {row['gpus']:>6.2f} {row['peak']:>5} {row['goodput_per_gpu']:>15.0f}"
        line += (
            f" {100 * row['acceptance']:>7.1f} % {scarce:>12} {row['stranded_units']:>9.1f} {row['moves_per_h']:>8.1f}"
        )
        print(f"{line} {row['decision_p50_ms']:>7.2f} {row['decision_p99_ms']:>7.2f}")


def failures(result: Figures) -> list[str]:
    """Which figure misses its target, and by how much."""
    targets = Targets()
    for name, part in result.get("static", {}).items():
        ours = part["ways"]["ours"]
        targets.at_most(
            f"{name}: GPUs above the bound", ours["gpus"] - part["bound"], max(GAP * part["bound"], GAP_GPUS)
        )
        targets.at_most(f"{name}: replicas without a place", ours["pending"], 0)
        targets.at_least(f"{name}: fewer GPUs than whole ones", fewer(part["ways"], "ours", "whole"), FEWER_THAN_WHOLE)
    if "small" in result:
        targets.at_most("small: GPUs above the best plan", max(map(int, result["small"]["above_best"])), GAP_GPUS)
    if "churn" in result:
        ways = result["churn"]["ways"]
        targets.at_least(
            "churn: fewer than first-fit without moves", fewer(ways, "ours", "first-fit"), FEWER_WITHOUT_MOVES
        )
        targets.at_least("churn: fewer with moves", fewer(ways, "ours, with moves", "first-fit"), FEWER_WITH_MOVES)
    if "online" in result:
        targets.at_most("online: p99 of a decision in ms of the processor", result["online"]["cpu_p99_ms"], ONLINE_MS)
    if "replan" in result:
        targets.at_most("replan: seconds for 64 GPUs and 200 models", result["replan"]["seconds"], REPLAN_S)
    return targets.missed


if __name__ == "__main__":
    sys.exit(run_parts(__doc__, PARTS, report, failures))
