"""64 GPUs and whoever is deployed on them, tick by tick: what happens to them, and agents that follow."""

from __future__ import annotations

import random
from dataclasses import replace

from helpers.cut_worlds import could_sit, gpu_node, too_close, wrong
from helpers.fleets import mig, mps, whole
from helpers.simulation import Simulation
from helpers.worlds import GB, NOW
from scheduler.geometry.layouts import layouts
from scheduler.packing.model import Demand, Isolation, Spread
from scheduler.packing.plans import Rules
from scheduler.planner.demands import policy_of
from scheduler.planner.execution import advance, held_by, unwanted_by
from scheduler.planner.fleet import fleet_of, going
from scheduler.planner.plans import Json, counts, plan_fleet, record
from scheduler.planner.standing import besides
from scheduler.world import Action, Deployment, DesiredWorld, Device, Node, ObservedWorld

MIG = {name: 100.0 * (1 + n) for n, name in enumerate(layouts("h100-sxm-80gb", "mig").names)}
FLOORS = (Isolation.TIME_SLICE, Isolation.MPS, Isolation.MIG, Isolation.MIG, Isolation.WHOLE)
RULES = Rules(may_interrupt=False, budget=10, dwell_s=60.0, time_limit_s=0.4, horizon_s=3600.0)
TICK_S = 2.0


class SimulatedFleet(Simulation):
    """``silent``: nodes of which nothing is heard; ``killed``: whose agent is gone while its runtimes go on."""

    def __init__(self, seed: int, nodes: int = 16, gpus: int = 4) -> None:
        names = [f"n{n:02}" for n in range(nodes)]
        found = tuple(gpu_node(name, gpus, domain=f"r{n // 4}") for n, name in enumerate(names))
        super().__init__(ObservedWorld(found, (), 0.0), DesiredWorld(()))
        self.chance = random.Random(seed)
        self.silent: set[str] = set()
        self.killed: set[str] = set()
        self.least: dict[str, int] = {}
        self.plan: Json | None = None
        self.done, self.since, self.deployed = 0, NOW, 0
        self.ended: dict[str, int] = {"done": 0, "abandoned": 0}
        for _ in range(30):
            self._deploy()

    # --- what happens -------------------------------------------------------------------------------------------------

    def happen(self) -> None:
        what, busy = self.chance.random(), len(self.desired.deployments)
        if busy == 0 or (what < 0.22 and busy < 45):
            self._deploy()
        elif what < 0.30:
            gone = self.chance.choice(self.desired.deployments)
            self._want([one for one in self.desired.deployments if one.id != gone.id])
        elif what < 0.48:
            self._change_contract()
        elif what < 0.60:
            self._on_a_device()
        elif what < 0.72:
            self._on_a_node()
        elif self.world.replicas:
            self._crash()

    def _want(self, deployments: list[Deployment]) -> None:
        self.desired = replace(self.desired, deployments=tuple(deployments))

    def _deploy(self) -> None:
        self.deployed += 1
        first = self.chance.randrange(len(MIG))
        rates = {mig(name): rate for n, (name, rate) in enumerate(MIG.items()) if n >= first} | {whole(): 900.0}
        rates |= {mps(part): 700.0 / part for part in (2, 4, 8) if first < 3}
        name = f"d{self.deployed:04}"
        demand = Demand(
            id=name,
            model=f"m{self.deployed % 9}",
            trust=f"t{self.chance.randrange(5)}",
            guaranteed=self.chance.choice([50.0, 200.0, 600.0]),
            burst=self.chance.choice([0.0, 0.0, 300.0]),
            rates=rates,
            isolation=self.chance.choice(FLOORS),
            min_replicas=self.chance.choice([1, 1, 2]),
            spread=self.chance.choice([Spread.GPU, Spread.GPU, Spread.NONE]),
        )
        made = Deployment(name, f"dep-{name}", demand.min_replicas, 3 * GB, "chat", demand)
        self._want([*self.desired.deployments, made])

    def _change_contract(self) -> None:
        """More or less goodput, or another number of replicas."""
        old = self.chance.choice(self.desired.deployments)
        assert old.demand is not None
        least = self.chance.choice([1, 1, 2, 3])
        demand = replace(old.demand, guaranteed=self.chance.choice([50.0, 300.0, 900.0]), min_replicas=least)
        if self.chance.random() < 0.2:
            demand = replace(demand, isolation=self.chance.choice(FLOORS))
        new = replace(old, demand=demand, count=max(least, self.chance.choice([1, old.count])))
        self._want([new if one.id == old.id else one for one in self.desired.deployments])

    def _on_a_device(self) -> None:
        """Its health gets worse or better, or an instance stays behind that nobody can remove."""
        node = self.chance.choice(self.world.nodes)
        at = self.chance.randrange(len(node.devices))
        device = node.devices[at]
        well = replace(device, unfit="", leaving=False, fenced=False, blocked=())
        if device.unfit or device.blocked:
            found = well
        elif any(row.device == device.id for row in self.world.replicas):
            leaving = self.chance.random() < 0.6
            found = replace(well, unfit="XID 94", leaving=leaving, fenced=leaving and self.chance.random() < 0.3)
        else:
            found = replace(well, blocked=self.chance.choice([(("1g.10gb", 2),), (("3g.40gb", 4),)]))
        self._put(replace(node, devices=(*node.devices[:at], found, *node.devices[at + 1 :])))

    def _on_a_node(self) -> None:
        node = self.chance.choice(self.world.nodes)
        what = self.chance.random()
        if what < 0.3:
            self.silent ^= {node.id}
        elif what < 0.6:
            self.killed ^= {node.id}
        elif len([one for one in self.world.nodes if one.draining]) < 2 or node.draining:
            self._put(replace(node, draining=not node.draining, cordoned=not node.draining))

    def _crash(self) -> None:
        row = self.chance.choice(self.world.replicas)
        if row.run and row.node is not None:
            crashed = replace(row, state="failed", restarts=self.chance.choice([1, 1, 5]), reason="exit code 1")
            rows = [crashed if one.id == row.id else one for one in self.world.replicas]
            self.world = replace(self.world, replicas=tuple(rows))

    def _put(self, node: Node) -> None:
        nodes = tuple(node if one.id == node.id else one for one in self.world.nodes)
        self.world = replace(self.world, nodes=nodes)

    # --- what follows -------------------------------------------------------------------------------------------------

    def step(self) -> list[Action]:
        """The plan's next moves, a look of the reconciler, and a while for the agents."""
        self.now += TICK_S
        self._hear()
        if self.plan is not None:
            self._advance(self.plan)
        actions = self.tick()
        self.check()
        self.agents_act()
        return actions

    def _hear(self) -> None:
        dead = self.silent | self.killed
        nodes = [node if node.id in dead else replace(node, heard_at=self.now) for node in self.world.nodes]
        rows = []
        for row in self.world.replicas:
            since = row.missing_since or self.now if row.node in self.silent else None
            rows.append(row if row.missing_since == since else replace(row, missing_since=since))
        self.world = replace(self.world, nodes=tuple(nodes), replicas=tuple(rows))

    def agents_act(self) -> None:
        """Half of what loads is ready, what crashed is started again, what drains stops."""
        rows = []
        for row in self.world.replicas:
            if row.node is None or row.node in self.silent | self.killed:
                rows.append(row)
            elif not row.run:
                rows.append(replace(row, state="stopped"))
            elif row.state != "ready" and self.chance.random() < 0.5:
                rows.append(replace(row, state="ready", restarts=0))
            else:
                rows.append(row)
        self.world = replace(self.world, replicas=tuple(rows))

    def demands(self) -> dict[str, Demand]:
        return {one.id: one.demand for one in self.desired.deployments if one.demand is not None}

    def make_plan(self) -> None:
        """Packs anew, as every few minutes; a plan that is under way is left to end."""
        if self.plan is not None:
            return
        demands = self.demands()
        fleet = fleet_of(self.world.nodes, self.world.replicas, self.now, demands=demands)
        policy = policy_of(demands.values())
        rest = besides(fleet, demands)
        plan = plan_fleet(rest.fleet, rest.demands, now=self.now, policy=policy, rules=RULES)
        assert plan.bound <= plan.objective + 1e-6
        plan = replace(plan, seats=(*plan.seats, *rest.standing))
        numbers = counts(plan, demands)
        self._want([replace(one, count=numbers[one.id]) for one in self.desired.deployments])
        names = {one.id: one.name for one in self.desired.deployments}
        self.plan = record(plan, fleet, demands, nodes=self.world.nodes, names=names, policy=policy)
        self.done, self.since = 0, self.now

    def _advance(self, plan: Json) -> None:
        held, gone = held_by(plan["waves"], self.done), unwanted_by(plan["changes"])
        self.desired = replace(self.desired, held=held, unwanted=gone)
        step = advance(
            plan["waves"], self.world, self.desired, self.now, done=self.done, since=self.since, limit_s=60.0
        )
        if step.wave != self.done:
            self.done, self.since = step.wave, self.now
        self.apply([*step.begin, *step.drop])
        if step.state != "running":
            assert step.why
            self.ended[step.state] += 1
            self.plan = None
            self.desired = replace(self.desired, held=frozenset(), unwanted=frozenset())

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        demands = self.demands()
        known = {row.id for row in self.world.replicas if row.run}
        apart = going(self.world.nodes, self.world.replicas, demands)
        assert wrong(self.world, demands, apart) == []
        apart |= {row.id for row in self.world.replicas if row.replaces in known}
        assert too_close(self.world, demands, apart) == []

    def settle(self, ticks: int) -> bool:
        """All is well from now on; whether nothing more is to be done within so many ticks."""
        self.silent, self.killed = set(), set()
        self.world = replace(self.world, failures=())
        quiet = 0
        for _ in range(ticks):
            quiet = quiet + 1 if self.step() == [] and self.plan is None else 0
            self._all_ready()
            if quiet == 2:
                return True
        return False

    def _all_ready(self) -> None:
        rows = [
            replace(row, state="ready", restarts=0) if row.run and row.node and row.state != "ready" else row
            for row in self.world.replicas
        ]
        self.world = replace(self.world, replicas=tuple(rows))

    def waits_in_vain(self) -> list[str]:
        """Guaranteed replicas that wait although there is a place, and deployments without their number."""
        found = []
        apart = going(self.world.nodes, self.world.replicas, self.demands())
        open_: list[Device] = [d for n in self.world.nodes if not n.cordoned for d in n.devices if not d.unfit]
        for one in self.desired.deployments:
            mine = [row for row in self.world.replicas if row.deployment == one.id and row.id not in apart]
            if len(mine) != one.count:
                found.append(f"{one.id} has {len(mine)} of {one.count}")
            waiting = [row for row in mine if row.node is None]
            must = one.demand is not None and len(mine) - len(waiting) < one.demand.min_replicas
            if waiting and one.demand is not None and must and could_sit(self.world, one.demand, open_):
                found.append(f"{one.id} waits: {waiting[0].reason}")
        return found
