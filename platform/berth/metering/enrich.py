"""What a record is given when it is booked: who made its key, where it ran, what it cost. A few queries a batch."""

from __future__ import annotations

from collections.abc import Sequence

from berth.deployments.models import Replica
from berth.fleet.models import Seat
from berth.metering.models import UsageRecord
from berth.slas.models import Contract, ServiceClass
from berth.slas.prices import cost_of
from berth.slas.tiers import terms_by_class
from berth.tenants.models import ApiKey


def enrich(rows: Sequence[UsageRecord]) -> None:
    """Ids that name nothing leave their fields empty: history is of what was, not of what is."""
    if not rows:
        return
    makers = dict(
        ApiKey.objects.for_platform()
        .filter(id__in={row.key_id for row in rows}, created_by__isnull=False)
        .values_list("id", "created_by_id")
    )
    places = _places({row.replica_id for row in rows} - {""})
    for row in rows:
        row.member_id = makers.get(row.key_id, "")
        row.node_id, row.slice_id, row.place = places.get(row.replica_id, ("", "", ""))
    price(rows)


def price(rows: Sequence[UsageRecord]) -> None:
    """By the terms of the contract's version for the request's class; without a contract, by the class as it is."""
    versions = Contract.objects.for_platform().filter(id__in={row.contract_id for row in rows})
    promised = {id: (terms, tiers) for id, terms, tiers in versions.values_list("id", "terms", "tiers")}
    bare = {row.class_name for row in rows if row.contract_id not in promised} - {""}
    classes = {one.name: one.terms() for one in ServiceClass.objects.filter(name__in=bare)} if bare else {}
    for row in rows:
        terms, tiers = promised.get(row.contract_id, ({}, {}))
        row.cost = cost_of(
            terms_by_class(terms, tiers, row.class_name) or classes.get(row.class_name, {}),
            outcome=row.outcome,
            prompt_tokens=row.prompt_tokens,
            cached_tokens=row.cached_tokens,
            completion_tokens=row.completion_tokens,
        )


def _places(replica_ids: set[str]) -> dict[str, tuple[str, str, str]]:
    """(node id, slice id, words) by replica. One that has given its seat back is at its node still."""
    if not replica_ids:
        return {}
    found: dict[str, tuple[str, str, str]] = {}
    for replica in Replica.objects.for_platform().filter(id__in=replica_ids).select_related("node"):
        if replica.node is not None:
            found[replica.id] = (replica.node.id, "", replica.node.name)
    for seat in Seat.objects.filter(replica_id__in=replica_ids).select_related("slice__gpu__node"):
        part, gpu = seat.slice, seat.slice.gpu
        words = f"{gpu.node.name} / {gpu.index} · {gpu.name} / {part.profile}"
        found[seat.replica_id] = (gpu.node_id, part.id, words[:160])
    return found
