"""The fleet and what is asked of it as the packing takes them, from the database as it is now."""

from __future__ import annotations

from django.utils import timezone

from berth.catalog.models import Model
from berth.deployments.models import Deployment
from berth.deployments.needs import needs_of
from berth.plans import world
from berth.plans.demands import demand_of, of_class
from berth.slas.models import ServiceClass
from scheduler.packing.model import Demand, Fleet
from scheduler.planner.fleet import fleet_of


def current() -> tuple[Fleet, dict[str, Demand]]:
    """The GPUs of known boards with who sits where, and the demand of every deployment that is to run, by its id.

    Ids are the public ones; a GPU's node is the node's id. Of a fleet without such GPUs nothing more is read.
    """
    nodes = world.nodes()
    boards = boards_of(nodes)
    if not boards:
        return Fleet(()), {}
    replicas = world.replicas()
    fleet = fleet_of(nodes, replicas, timezone.now().timestamp(), world.cached())
    return fleet, world.demands_of(world.deployments(replicas, boards))


def boards_of(nodes: tuple[world.plan.Node, ...]) -> tuple[str, ...]:
    return tuple(sorted({device.board for node in nodes for device in node.devices if device.board}))


def demand_for(
    *,
    model: Model,
    owner: str,
    service_class: ServiceClass,
    boards: tuple[str, ...],
    dtype: str,
    max_model_len: int | None,
    max_num_seqs: int,
    kv_bytes: int,
    kv_dtype: str,
    replicas: int,
    guaranteed_tokens_per_s: float = 0.0,
    deployment_id: str = "new",
) -> Demand:
    """Of a deployment that is not there yet. ``owner``: the tenant's id. Raises ``Invalid``."""
    needs = needs_of(
        model,
        dtype=dtype,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        kv_bytes=kv_bytes,
        kv_dtype=kv_dtype,
    )
    deployment = Deployment(
        id=deployment_id,
        tenant_id=owner,
        model=model,
        service_class=service_class,
        replica_count=replicas,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
    )
    return demand_of(deployment, needs, of_class(service_class, guaranteed_tokens_per_s), boards)
