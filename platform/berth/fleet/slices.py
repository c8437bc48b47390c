"""What an agent says of the slices on its devices: which are ready, and which units it cannot free."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction

from berth.core.notify import changed, nudge_scheduler
from berth.fleet.models import Gpu, Node, Slice
from gpuruntime import protocol

_STRAYS = ("foreign", "quarantined")


@transaction.atomic
def observe_slices(*, node: Node, gpus: Iterable[Gpu], seen: Iterable[protocol.ObservedSlice]) -> bool:
    """Stores it; True when something changed. ``gpus``: those of the node that are cut; it speaks of no others."""
    seen, gpus = list(seen), list(gpus)
    known = {item.slice_id: item for item in seen if item.slice_id}
    moved = False
    for row in Slice.objects.filter(gpu__in=gpus, id__in=known).order_by("id"):
        item = known[row.id]
        # An agent that begins anew has not looked yet, and is told by this UUID which instance is its own.
        now = {"state": item.state, "reason": item.reason[:300], "uuid": item.uuid[:120] or row.uuid}
        if any(getattr(row, name) != value for name, value in now.items()):
            Slice.objects.filter(id=row.id).update(**now)
            moved = True
    strays: dict[str, list[dict[str, Any]]] = {}
    for item in seen:
        if item.state in _STRAYS:
            strays.setdefault(item.device_uuid, []).append(_stray(item))
    for gpu in gpus:
        blocked = sorted(strays.get(gpu.uuid, []), key=lambda one: (one["start"], one["profile"]))
        if blocked != gpu.blocked:
            Gpu.objects.filter(id=gpu.id).update(blocked=blocked)
            moved = True
    if moved:
        changed("node", node.id)
        nudge_scheduler()
    return moved


def _stray(item: protocol.ObservedSlice) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "profile": item.profile,
        "start": item.start,
        "size": item.size,
        "state": item.state,
        "reason": item.reason[:300],
    }
