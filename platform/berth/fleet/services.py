"""Writes of nodes and devices. Seats are in ``fleet.seats`` and re-exported here."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from berth.audit.services import record
from berth.core.errors import Conflict
from berth.core.notify import changed, desired_changed, nudge_scheduler
from berth.core.version import raise_version
from berth.deployments.models import Replica
from berth.fleet.desired import desired_for
from berth.fleet.health import judge
from berth.fleet.models import Gpu, Node, SliceUnit
from berth.fleet.seats import release_seat, reserve_seat
from berth.fleet.slices import observe_slices
from berth.fleet.tokens import new_token, token_digest
from gpuruntime import protocol

__all__ = [
    "Superseded",
    "cordon_node",
    "create_node",
    "delete_node",
    "desired_for",
    "drain_node",
    "ensure_node",
    "observe_node",
    "raise_generation",
    "release_seat",
    "reserve_seat",
]


class Superseded(Exception):
    """Another connection speaks for the node now."""


@transaction.atomic
def create_node(*, name: str, actor: str) -> tuple[Node, str]:
    """A node that may join, and its token, shown once."""
    token = new_token()
    try:
        with transaction.atomic():
            node = Node.objects.create(name=name, token_digest=token_digest(token))
    except IntegrityError as error:
        raise Conflict(f"A node named {name!r} exists", field="name", code="name_taken") from error
    record(actor=actor, action="node.create", obj=node, after={"name": name})
    changed("node", node.id)
    return node, token


@transaction.atomic
def ensure_node(*, name: str, token: str, actor: str = "system") -> Node:
    """The node of that name, opened by ``token``. Idempotent; for nodes whose token is kept elsewhere."""
    node, made = Node.objects.get_or_create(name=name, defaults={"token_digest": token_digest(token)})
    if made:
        record(actor=actor, action="node.create", obj=node, after={"name": name})
        changed("node", node.id)
    elif node.token_digest != token_digest(token):
        node.token_digest = token_digest(token)
        node.save(update_fields=["token_digest"])
        record(actor=actor, action="node.set_token", obj=node)
    return node


@transaction.atomic
def cordon_node(*, node: Node, cordoned: bool, actor: str) -> Node:
    """A cordoned node gets no new replica; what runs there goes on. To uncordon it also ends a drain."""
    row = Node.objects.select_for_update().get(id=node.id)
    before = {"cordoned": row.cordoned, "draining": row.drain_requested_at is not None}
    after = {"cordoned": cordoned, "draining": before["draining"] and cordoned}
    if before != after:
        row.cordoned = cordoned
        if not cordoned:
            row.drain_requested_at, row.drain_requested_by, row.drain_total = None, "", 0
        row.save(update_fields=["cordoned", "drain_requested_at", "drain_requested_by", "drain_total"])
        record(actor=actor, action="node.cordon" if cordoned else "node.uncordon", obj=row, before=before, after=after)
        changed("node", row.id)
        nudge_scheduler()
    return row


@transaction.atomic
def drain_node(*, node: Node, actor: str) -> Node:
    """Empties the node: the scheduler replaces each replica elsewhere, then lets it finish and end. Idempotent."""
    row = Node.objects.select_for_update().get(id=node.id)
    if row.drain_requested_at is None:
        before = {"cordoned": row.cordoned, "draining": False}
        row.cordoned, row.drain_requested_at, row.drain_requested_by = True, timezone.now(), actor
        row.drain_total = Replica.objects.for_platform().filter(node_id=row.id, ended_at=None).count()
        row.save(update_fields=["cordoned", "drain_requested_at", "drain_requested_by", "drain_total"])
        after = {"cordoned": True, "draining": True, "replicas": row.drain_total}
        record(actor=actor, action="node.drain", obj=row, before=before, after=after)
        changed("node", row.id)
        nudge_scheduler()
    return row


@transaction.atomic
def delete_node(*, node: Node, actor: str) -> None:
    """Only one on which nothing runs and nothing may begin. Its devices and their history go with it."""
    list(Gpu.objects.select_for_update().filter(node_id=node.id).order_by("id"))  # nobody is seated meanwhile
    row = Node.objects.select_for_update().get(id=node.id)
    here = Replica.objects.for_platform().filter(node_id=row.id, ended_at=None).count()
    if here:
        way_out = "drain it first" if row.drain_requested_at is None else "wait until its drain is done"
        raise Conflict(f"{here} replica{'s' * (here > 1)} still on {row.name}: {way_out}", code="in_use")
    if not row.cordoned and row.online:
        raise Conflict(f"{row.name} is connected and takes replicas: cordon or drain it first", code="in_use")
    record(actor=actor, action="node.delete", obj=row, before={"name": row.name, "address": row.address})
    changed("node", row.id)
    row.delete()
    raise_version()


def raise_generation(node_id: str) -> None:
    """What should run on the node changed: inside the caller's transaction; tells the agent after the commit."""
    Node.objects.filter(id=node_id).update(generation=F("generation") + 1)
    desired_changed(node_id)


@transaction.atomic
def observe_node(*, node: Node, seen: protocol.Hello | protocol.Observed, session: str = "") -> Node:
    """Store what the agent says of its host and devices. Replicas: ``deployments.services.observe_replicas``.

    ``session``: the connection it said it on. Raises ``Superseded`` for a report on another than the one on which the
    agent greeted last: what an ended connection still holds is older than what is known.
    """
    now = timezone.now()
    # Devices before the node, as whoever seats a replica locks them (fleet.seats): the other order deadlocks.
    known = {gpu.uuid: gpu for gpu in Gpu.objects.select_for_update().filter(node_id=node.id).order_by("id")}
    row = Node.objects.select_for_update().get(id=node.id)
    if isinstance(seen, protocol.Hello):
        moved = row.address != seen.address
        row.provider, row.address, row.agent_version = seen.provider, seen.address, seen.agent_version
        row.boot_id, row.cpu_count, row.memory_bytes = seen.boot_id, seen.cpu_count, seen.memory_bytes
        row.connected_at, row.session = now, session
        changed("node", row.id)
        if moved:
            raise_version()
    else:
        if row.session != session:
            raise Superseded(row.name)
        row.observed_generation = seen.generation
    row.last_seen_at = now
    row.save()
    cut = [gpu for gpu in known.values() if gpu.board]
    _observe_devices(row, known, seen.devices, now)
    if isinstance(seen, protocol.Observed) and cut:
        observe_slices(node=row, gpus=cut, seen=seen.slices)
    return row


def _observe_devices(node: Node, known: dict[str, Gpu], devices: Iterable[protocol.Device], now: datetime) -> None:
    """``known``: the node's devices by UUID, locked."""
    for device in devices:
        gpu = known.pop(device.uuid, None) or Gpu(node=node, uuid=device.uuid, units=device.units)
        # Cutting a device anew under its slices would give units to two owners.
        if gpu.units != device.units and not SliceUnit.objects.filter(gpu=gpu).exists():
            gpu.units = device.units
        gpu.index, gpu.name, gpu.kind, gpu.memory_bytes = device.index, device.name, device.kind, device.memory_bytes
        gpu.memory_used_bytes, gpu.utilisation = device.memory_used_bytes, device.utilisation
        gpu.temperature_c, gpu.power_w, gpu.present = device.temperature_c, device.power_w, True
        gpu.board, gpu.kinds, gpu.unable = device.board, list(device.kinds), dict(device.unable)
        gpu.node = node
        judge(gpu, device.signals, now)
        gpu.save()
    for gone in known.values():
        if gone.present:
            gone.present = False
            gone.save(update_fields=["present"])
