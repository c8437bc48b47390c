"""What each deployment's contracts ask of the fleet: goodput, isolation and the slowest step, for the packing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from berth.deployments.models import Deployment
from berth.deployments.needs import longest_of
from berth.plans.measured import Precision, precision_of
from berth.slas.models import Contract, Isolation, ServiceClass
from berth.slas.selectors import in_force
from gpuruntime.modelinfo import MemoryNeeds
from scheduler.packing import model as packing
from scheduler.packing.measured import Seen, with_seen
from scheduler.packing.model import Demand, Need
from scheduler.packing.needs import ReplicaProfile
from scheduler.planner.demands import Asked, demand

# Of the longest request that a replica takes, what a sequence of a running batch holds on average: half of it.
HELD = 0.5


@dataclass(frozen=True, slots=True)
class Promises:
    """Of all contracts in force on one deployment. Rates in tokens/s: a contract's tokens are counted as output, which
    is on the safe side. ``isolation``: the highest that any asks for; ``tpot_s``: the shortest.
    """

    guaranteed: float = 0.0
    burst: float = 0.0
    isolation: packing.Isolation = packing.Isolation.TIME_SLICE
    tpot_s: float | None = None
    weight: int = 1

    def plus(self, other: Promises) -> Promises:
        steps = [step for step in (self.tpot_s, other.tpot_s) if step is not None]
        return Promises(
            self.guaranteed + other.guaranteed,
            self.burst + other.burst,
            max(self.isolation, other.isolation),
            min(steps, default=None),
            max(self.weight, other.weight),
        )


_FIELDS = ("deployment_id", "guaranteed_tokens_per_min", "burst_tokens_per_min", "weight", "terms")


def promises(now: datetime) -> dict[str, Promises]:
    """By deployment, of every contract in force. One query."""
    found: dict[str, Promises] = {}
    for row in in_force(Contract.objects.for_platform(), now).values(*_FIELDS):
        terms = row["terms"]
        one = Promises(
            (row["guaranteed_tokens_per_min"] or 0) / 60,
            row["burst_tokens_per_min"] / 60,
            packing.ISOLATION[terms.get("isolation") or Isolation.TIME_SLICE],
            terms["tpot_ms"] / 1000 if terms.get("tpot_ms") else None,
            row["weight"],
        )
        before = found.get(row["deployment_id"])
        found[row["deployment_id"]] = one if before is None else before.plus(one)
    return found


def of_class(service_class: ServiceClass, guaranteed: float = 0.0) -> Promises:
    """What one contract of the class would promise. ``guaranteed``: tokens/s."""
    tpot_s = service_class.tpot_ms / 1000 if service_class.tpot_ms else None
    return Promises(guaranteed, 0.0, packing.ISOLATION[service_class.isolation], tpot_s)


def demand_of(deployment: Deployment, promised: Promises, profile: ReplicaProfile, boards: Collection[str]) -> Demand:
    return demand(
        Asked(
            id=deployment.id,
            model=deployment.model.digest,
            trust=deployment.tenant_id,
            isolation=promised.isolation,
            min_replicas=deployment.replica_count,
            guaranteed=promised.guaranteed,
            burst=promised.burst,
            weight=float(promised.weight),
            profile=profile,
        ),
        boards,
    )


def profile_of(
    deployment: Deployment, needs: MemoryNeeds, promised: Promises, seen: Mapping[Precision, Seen]
) -> ReplicaProfile:
    """What is known of its replicas: a first estimate by the model's sizes, and what of it was measured (``seen``)."""
    need = Need(needs.weights_bytes, needs.kv_bytes, needs.workspace_bytes)
    longest = longest_of(deployment.model, deployment.max_model_len)
    per_sequence = max(1, min(needs.kv_bytes, int(HELD * longest * needs.kv_bytes_per_token)))
    estimate = ReplicaProfile(need, per_sequence, deployment.max_num_seqs, promised.tpot_s)
    measured = seen.get(precision_of(deployment))
    return estimate if measured is None else with_seen(estimate, measured)
