"""Whatever is deployed, scaled or fails: no unit is booked twice, no isolation is broken, and it settles."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.fleets import H100, broken_rules, mig, mps, whole
from scheduler.geometry.layouts import layouts
from scheduler.packing.books import Books
from scheduler.packing.insertion import Insertion
from scheduler.packing.model import Demand, Fleet, Gpu, Isolation, Seat, Spread
from scheduler.packing.moves import Order
from scheduler.packing.online import Placer
from scheduler.packing.plans import Rules, short_of_guarantee, with_bursts
from scheduler.packing.replan import replan

NAMES = layouts(H100, "mig").names
FLOORS = (Isolation.TIME_SLICE, Isolation.MPS, Isolation.MIG, Isolation.MIG, Isolation.WHOLE)
BLOCKED = ((), (("1g.10gb", 2),), (("3g.40gb", 4), ("1g.10gb", 0)), (("7g.80gb", 0),))


class World:
    """64 simulated GPUs and whoever is deployed on them; on every third something may be ``blocked``."""

    def __init__(self, seed: int, gpus: int = 64, blocked: tuple[tuple[str, int], ...] = ()) -> None:
        self.chance = random.Random(seed)
        self.fleet = Fleet(
            tuple(
                Gpu(f"g{n}", H100, f"n{n // 4}", f"r{n // 16}", blocked=() if n % 3 else blocked) for n in range(gpus)
            )
        )
        self.demands: dict[str, Demand] = {}
        self.made = 0
        self.now = 0.0

    def deploy(self) -> None:
        self.made += 1
        least = self.chance.randrange(len(NAMES))
        rates = {mig(name): 1.0 + n for n, name in enumerate(NAMES) if n >= least} | {whole(): 7.0}
        rates |= {mps(part): 6.0 / part for part in (2, 4, 8) if least < 3}
        name = f"d{self.made}"
        self.demands[name] = Demand(
            id=name,
            model=f"m{self.made % 9}",
            trust=f"t{self.chance.randrange(5)}",
            guaranteed=self.chance.choice([0.0, 0.5, 2.0, 5.0]),
            burst=self.chance.choice([0.0, 1.0, 3.0]),
            rates=rates,
            isolation=self.chance.choice(FLOORS),
            min_replicas=self.chance.choice([1, 1, 2]),
            spread=self.chance.choice([Spread.GPU, Spread.GPU, Spread.NODE, Spread.NONE]),
        )

    def happen(self) -> None:
        """One of: a deployment comes, goes, is scaled; a GPU fails or comes back; a replica dies."""
        self.now += 60.0
        what = self.chance.random()
        if not self.demands or (what < 0.35 and len(self.demands) < 45):
            self.deploy()
        elif what < 0.5:
            del self.demands[self.chance.choice(sorted(self.demands))]
        elif what < 0.75:
            name = self.chance.choice(sorted(self.demands))
            self.demands[name] = replace(self.demands[name], guaranteed=self.chance.choice([0.0, 1.0, 3.0, 9.0]))
        elif what < 0.9:
            at = self.chance.randrange(len(self.fleet.gpus))
            gpus = list(self.fleet.gpus)
            gpus[at] = replace(gpus[at], takes_new=not gpus[at].takes_new or self.chance.random() < 0.3)
            self.fleet = replace(self.fleet, gpus=tuple(gpus))
        elif self.fleet.seats:
            seats = list(self.fleet.seats)
            del seats[self.chance.randrange(len(seats))]
            self.fleet = replace(self.fleet, seats=tuple(seats))

    def tick(self) -> Insertion:
        done = Insertion(Placer(Books(self.fleet)), self.demands, now=self.now).run()
        self.fleet = replace(self.fleet, seats=with_bursts(done.books.seats.values(), self.demands))
        return done

    def replan(self, budget: int = 30) -> Order:
        plan = replan(
            self.fleet, self.demands.values(), now=self.now, rules=Rules(budget=budget, dwell_s=300.0, time_limit_s=2.0)
        )
        follow(self.fleet, plan.order, self.demands)
        assert plan.bound <= plan.objective + 1e-6
        assert plan.why
        self.fleet = replace(self.fleet, seats=plan.seats)
        return plan.order

    def check(self) -> None:
        assert broken_rules(self.fleet, [*self.fleet.seats, *nobodys(self.fleet)], self.demands) == []


def nobodys(fleet: Fleet) -> list[Seat]:
    """What is blocked, as seats."""
    return [
        Seat(f"{gpu.id}-{name}", "nobody", "nobody", gpu.id, mig(name), start)
        for gpu in fleet.gpus
        for name, start in gpu.blocked
    ]


def follow(fleet: Fleet, order: Order, demands: dict[str, Demand]) -> None:
    """Carries the waves out, checking the rules while both the old and the new replica run."""
    seats = {seat.replica: seat for seat in fleet.seats}
    near = {name: replace(demand, spread=Spread.NONE) for name, demand in demands.items()}
    for wave in order.waves:
        coming: dict[str, Seat] = {}
        for start in wave.starts:
            name = start.seat.replica + ("+" if start.instead_of else "")
            assert name not in seats
            coming[name] = start.seat
        both = [*seats.values(), *coming.values(), *nobodys(fleet)]
        # While one moves, its old and its new seat may be near: that is why the distance is looked at afterwards.
        assert broken_rules(fleet, [replace(seat, replica=str(n)) for n, seat in enumerate(both)], near) == []
        for stop in wave.stops:
            assert seats.pop(stop.seat.replica) == stop.seat
        for seat in coming.values():
            seats[seat.replica] = seat
        assert broken_rules(fleet, seats.values(), demands) == []


@pytest.mark.parametrize("seed", [1])
def test_two_thousand_steps_on_64_gpus(seed: int) -> None:
    world = World(seed)
    for step in range(2000):
        world.happen()
        done = world.tick()
        world.check()
        for pending in done.pending:
            assert pending.reason
        if step % 200 == 199:
            world.replan()
            world.check()
    # Nothing happens any more: it settles, and everyone guaranteed is served or told why not.
    for _ in range(10):
        done = world.tick()
        world.check()
        if not done.changes:
            break
    assert done.changes == []
    waiting = {pending.demand for pending in done.pending}
    rest = {name: demand for name, demand in world.demands.items() if name not in waiting}
    assert short_of_guarantee(world.fleet.seats, rest) == pytest.approx(0.0, abs=1e-6)


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 1 << 32), st.integers(1, 8), st.sampled_from(BLOCKED))
def test_small_full_fleets_keep_the_rules_too(seed: int, gpus: int, blocked: tuple[tuple[str, int], ...]) -> None:
    world = World(seed, gpus, blocked)
    for _ in range(25):
        world.happen()
        world.tick()
        world.check()
    world.replan()
    world.check()
