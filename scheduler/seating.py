"""Places for the replicas that are missing: who gets one, who waits for whom, and why. Pure.

In this order: what is guaranteed; those of it that find no room wait for who is leaving, or burst replicas are let go
for them; then burst, which takes nothing that was promised. Beside each action stands the decision that says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler.decisions import Candidate, Decision
from scheduler.packing.model import Demand, Seat
from scheduler.packing.online import Policy
from scheduler.placing import Floor, Found, Wish, gb, names_of, place_label, score_why
from scheduler.planner.promises import Ask, Promises, is_burst, promise
from scheduler.world import (
    Action,
    CreateReplica,
    Deployment,
    DrainReplica,
    Explain,
    Failure,
    PlaceReplica,
    Planned,
    Replica,
)

# After failing everywhere a deployment is tried again: a minute later, then doubled up to ten.
RETRY_S = 60.0
LONGEST_RETRY_S = 600.0
# Of so many decisions of one tick the candidates are kept, and of so many refusals that stay as they were: judging a
# fleet for each of thousands takes too long.
MOST_JUDGED = 100
MOST_JUDGED_AGAIN = 2


class Crew:
    """The replicas of a deployment that count. ``missing``: those without a place, None for each that is to be made.

    ``taken``: nodes where some sit; ``count`` of them have places, which give ``served`` tokens/s on GPUs that are cut.
    """

    def __init__(self, deployment: Deployment, staying: Iterable[Replica]) -> None:
        staying = tuple(staying)
        self.deployment = deployment
        self.staying = {replica.id: replica for replica in staying}
        self.taken = [replica.node for replica in staying if replica.node is not None]
        self.missing: list[Replica | None] = [replica for replica in staying if replica.node is None]
        self.missing += [None] * (deployment.count - len(staying))
        self.count = len(self.taken)
        self.served = sum(self.rate(replica) for replica in staying)

    def rate(self, replica: Replica) -> float:
        demand = self.deployment.demand
        if demand is None or replica.node is None or replica.place is None:
            return 0.0
        return demand.rates.get(replica.place.slot, 0.0)

    def placed(self, found: Found) -> None:
        demand = self.deployment.demand
        self.taken.append(found.node.id)
        self.count += 1
        self.served += demand.rates[found.place.slot] if demand is not None and found.place is not None else 0.0

    def lose(self, replica: Replica) -> None:
        """It is let go: another is missing."""
        self.count -= 1
        self.served -= self.rate(replica)
        self.missing.append(None)

    @property
    def burst(self) -> bool:
        """Whether what is missing is beyond what is guaranteed."""
        demand = self.deployment.demand
        return demand is not None and is_burst(demand, self.served, self.count)


@dataclass
class Want:
    """A replica that found no room. ``hold``: why it is not tried again yet; ``waits``: for whom it does."""

    crew: Crew
    replica: Replica | None
    wish: Wish
    hold: str | None
    left: int
    waits: str = ""


class Seating:
    """``actions`` and ``decisions`` are added to. ``held``: GPUs that a plan is about to move replicas onto."""

    def __init__(
        self,
        floor: Floor,
        crews: Iterable[Crew],
        *,
        failures: Iterable[Failure],
        demands: Mapping[str, Demand],
        policy: Policy,
        held: frozenset[str],
        now: float,
        actions: list[Action],
        decisions: list[Planned],
    ) -> None:
        self.floor, self.crews = floor, {crew.deployment.id: crew for crew in crews}
        self.demands, self.policy, self.held, self.now = demands, policy, held, now
        self.actions, self.decisions = actions, decisions
        self.nodes = {node.id: node for node in floor.nodes}
        self.failures: dict[str, list[Failure]] = {}
        for failure in failures:
            self.failures.setdefault(failure.deployment, []).append(failure)
        self.waiting: list[Want] = []
        self.promised: frozenset[str] = frozenset()
        self.no_room: dict[tuple[int, str, bool], str] = {}
        self.refused: set[str] = set()
        self.judged_again = 0

    def run(self) -> None:
        for crew in self.crews.values():
            while crew.missing and not crew.burst:
                self._place(crew, burst=False)
        self._promise()
        for crew in self.crews.values():
            while crew.missing:
                self._place(crew, burst=True)
        for want in self.waiting:
            self._explain(want)

    # --- places -----------------------------------------------------------------------------------------------------

    def _place(self, crew: Crew, *, burst: bool) -> None:
        """The first that is missing gets a place, or waits."""
        replica = crew.missing.pop(0)
        failures = self.failures.get(crew.deployment.id, [])
        hold = self._hold(failures)
        wish = self._wish(crew, replica, failures, retry=hold is None, burst=burst)
        found = self.floor.first_fit(wish)
        if found is None and not burst and wish.promised:
            wish = replace(wish, promised=frozenset())
            found = self.floor.first_fit(wish)
        if found is None:
            self.waiting.append(Want(crew, replica, wish, hold, len(crew.missing) + 1))
            return
        self._seat(crew, replica, wish, found)

    def _wish(self, crew: Crew, replica: Replica | None, failures: list[Failure], *, retry: bool, burst: bool) -> Wish:
        deployment, demand = crew.deployment, crew.deployment.demand
        lacking = 0.0
        if demand is not None:
            lacking = max(0.0, demand.wanted - crew.served) / (len(crew.missing) + 1)
        return Wish(
            memory_bytes=replica.memory_bytes if replica is not None else deployment.memory_bytes,
            failed=frozenset(failure.node for failure in failures),
            taken=frozenset(crew.taken),
            retry=retry,
            demand=demand,
            slots=self.floor.cuts.sized(demand, lacking) if demand is not None else (),
            lacking=lacking,
            burst=burst and crew.burst,
            promised=self.held | self.promised,
        )

    def _seat(self, crew: Crew, replica: Replica | None, wish: Wish, found: Found) -> None:
        node, device, name = found.node, found.device, replica.id if replica is not None else None
        reason = f"Placed on {device.label} of {node.name}"
        if found.place is not None:
            reason += f", {place_label(found.place)}"
        action = PlaceReplica(
            crew.deployment.id, name, node.id, device.id, wish.memory_bytes, reason, place=found.place
        )
        self.actions.append(action)
        self.decisions.append(Planned(self._placement(crew.deployment, name, wish, found), action))
        self.floor.take(found, wish, self.now)
        crew.placed(found)

    def _placement(self, deployment: Deployment, replica: str | None, wish: Wish, found: Found) -> Decision:
        node, device = found.node, found.device
        detailed = len(self.decisions) < MOST_JUDGED
        asked = replace(wish, slots=found.slots) if found.choice is not None else wish
        candidates = self.floor.candidates(asked, device.id) if detailed else ()
        fitting = sum(candidate.fits for candidate in candidates)
        among = f"the best of {fitting} devices with room" if fitting > 1 else "the one device with room"
        where = f"; {place_label(found.place)} costs the fleet least" if found.place is not None else ""
        return Decision(
            kind="place",
            deployment=deployment.id,
            summary=f"{deployment.name}: a replica is placed on {node.name} {device.label}",
            why=f"{among if detailed else 'the first device with room'}: {score_why(node, wish)}{where}",
            replica=replica or "",
            node=node.id,
            device=device.id,
            inputs=self._inputs(deployment, wish),
            candidates=candidates,
        )

    def _inputs(self, deployment: Deployment, wish: Wish) -> dict[str, Any]:
        found: dict[str, Any] = {
            "memory_bytes": wish.memory_bytes,
            "service_class": deployment.service_class,
            "wanted": deployment.count,
            "siblings_on": names_of(wish.taken, self.floor.nodes),
            "failed_on": names_of(wish.failed, self.floor.nodes),
            "nodes_usable": len(self.floor.usable),
            "devices": len(self.floor.at),
        }
        if wish.demand is not None:
            found |= {
                "isolation": wish.demand.isolation.label,
                "guaranteed_tokens_per_s": wish.demand.guaranteed,
                "burst_tokens_per_s": wish.demand.burst,
                "lacking_tokens_per_s": wish.lacking,
                "beyond_guarantee": wish.burst,
            }
        return found

    # --- room that is to come ---------------------------------------------------------------------------------------

    def _promise(self) -> None:
        """Who is guaranteed a replica waits for those that leave; burst replicas leave for them."""
        wants = [want for want in self.waiting if want.hold is None]
        asks = [
            (want, Ask(want.wish.demand, want.crew.served, want.crew.count, want.left))
            for want in wants
            if want.wish.demand is not None
        ]
        books = self.floor.cuts.books
        found = promise(books, [ask for _, ask in asks], self.demands, self.policy)
        victims = {replica: books.seats[replica] for replica in found.victims}
        for number, (want, _) in enumerate(asks):
            if number in found.seats:
                want.waits = self._waits(found, found.seats[number])
        for seat in victims.values():
            self._give_way(seat, found.victims[seat.replica])
        self.promised = frozenset(seat.gpu for seat in found.seats.values())

    def _waits(self, found: Promises, seat: Seat) -> str:
        node, device = self.floor.at[seat.gpu]
        who = found.in_the_way(self.floor.cuts.books, seat)
        slot = f"{seat.slot.kind.label} {seat.slot.profile}"
        if who:
            return f"It gets {slot} of {node.name} {device.label} once free of {', '.join(who)}"
        return f"It gets {slot} of {node.name} {device.label}"

    def _give_way(self, seat: Seat, to: str) -> None:
        node, _ = self.floor.at[seat.gpu]
        crew, other = self.crews[seat.demand], self.crews[to].deployment
        reason = f"Beyond what is guaranteed: it gives way to {other.name}, which is guaranteed a replica"
        action = DrainReplica(seat.replica, reason)
        self.actions.append(action)
        decision = Decision(
            kind="scale",
            deployment=seat.demand,
            summary=f"{crew.deployment.name}: the replica on {node.name} is let go",
            why=reason,
            replica=seat.replica,
            node=node.id,
            inputs={"gives_way_to": to, "slot": seat.slot.label, "memory_bytes": crew.deployment.memory_bytes},
        )
        self.decisions.append(Planned(decision, action))
        self.floor.cuts.let_go(seat.replica)
        crew.lose(crew.staying[seat.replica])

    # --- reasons ----------------------------------------------------------------------------------------------------

    def _explain(self, want: Want) -> None:
        # After all placements: the reason names what is free then, and is the same at the next tick.
        deployment, replica, wish = want.crew.deployment, want.replica, want.wish
        reason = want.hold or want.waits or self._no_room(wish)
        action: Action | None = None
        if replica is None:
            action = CreateReplica(deployment.id, reason)
        elif replica.reason != reason:
            action = Explain(replica.id, reason)
        if action is not None:
            self.actions.append(action)
        if deployment.id in self.refused:
            return
        self.refused.add(deployment.id)
        decision = Decision(
            kind="refuse",
            deployment=deployment.id,
            summary=f"{deployment.name}: no place for a replica of {gb(wish.memory_bytes)}",
            why=reason,
            replica=replica.id if replica is not None else "",
            inputs=self._inputs(deployment, wish),
            candidates=self._judged(wish, action is not None),
        )
        self.decisions.append(Planned(decision, None))

    def _no_room(self, wish: Wish) -> str:
        key = wish.memory_bytes, wish.demand.id if wish.demand is not None else "", wish.burst
        if key not in self.no_room:
            self.no_room[key] = self.floor.no_room_reason(wish)
        return self.no_room[key]

    def _judged(self, wish: Wish, news: bool) -> tuple[Candidate, ...]:
        self.judged_again += not news
        if len(self.decisions) >= MOST_JUDGED or (not news and self.judged_again > MOST_JUDGED_AGAIN):
            return ()
        return self.floor.candidates(wish)

    def _hold(self, failures: list[Failure]) -> str | None:
        """Why a deployment that failed must wait before a node is tried once more; None when it need not."""
        if not failures:
            return None
        last = max(failures, key=lambda failure: failure.at)
        pause = min(LONGEST_RETRY_S, RETRY_S * 2 ** min(len(failures) - 1, 10))
        if self.now - last.at >= pause:
            return None
        node = self.nodes.get(last.node)
        where = f" on {node.name}" if node is not None else ""
        times = f"{len(failures)} times" if len(failures) > 1 else "once"
        said = f" Last{where}: {last.reason.rstrip('.')}." if last.reason else ""
        return f"It failed {times} where it could run.{said} The next try is {pause:.0f} s after the last"
