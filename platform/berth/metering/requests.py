"""Reads of requests as a person looks for them: by verdict, and one of them with all that explains it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce

from berth.core.scoping import PLATFORM, ScopedQuerySet
from berth.deployments.models import Replica
from berth.metering.explain import ERRORS, LATE
from berth.metering.models import UsageRecord
from berth.metering.names import labels
from berth.slas.models import Contract, ServiceClass
from berth.slas.tiers import terms_by_class

_VERDICTS = {
    "good": Q(good=True),
    "late": Q(reason__in=[reason.value for reason in LATE]),
    "error": Q(reason__in=[reason.value for reason in ERRORS]),
    "bad": Q(reason__in=[reason.value for reason in (*LATE, *ERRORS)]),
    "apart": Q(offered=False),
}
ASKED_VERDICTS = tuple(_VERDICTS)
# Who was there is looked for among what arrived in the last hour; a request that ran longer is not seen.
_LONGEST = timedelta(hours=1)


def with_verdict(records: ScopedQuerySet, verdict: str) -> ScopedQuerySet:
    return records.filter(_VERDICTS[verdict])


def promised(record: UsageRecord) -> dict[str, Any] | None:
    """The terms it was judged by: of its contract's version, else of its class as it is; None where both are gone."""
    contract = Contract.objects.for_tenant(record.tenant_id).filter(id=record.contract_id).first()
    if contract is not None and contract.terms:
        return dict(terms_by_class(contract.terms, contract.tiers, record.class_name))
    service_class = ServiceClass.objects.filter(name=record.class_name).first()
    return None if service_class is None else service_class.terms()


def replica_of(record: UsageRecord) -> dict[str, Any] | None:
    """How its replica stands now. It may be a replica of another tenant, which served it by contract."""
    row = PLATFORM.of(Replica.objects).filter(id=record.replica_id).select_related("node").first()
    if row is None:
        return None
    return {"id": row.id, "state": row.state, "reason": row.reason, "ended_at": row.ended_at}


def meanwhile(record: UsageRecord) -> dict[str, int] | None:
    """Other requests on the replica between its arrival and its end, of anyone: numbers only. None without one."""
    if not record.replica_id:
        return None
    end = record.arrived_at + timedelta(microseconds=record.e2e_us)
    others = (
        UsageRecord.objects.for_platform()
        .filter(replica_id=record.replica_id, arrived_at__lt=end, arrived_at__gt=record.arrived_at - _LONGEST)
        .exclude(request_id=record.request_id)
        .extra(  # no function of Django's makes an interval of a column's microseconds
            where=["arrived_at + e2e_us * interval '1 microsecond' > %s"], params=[record.arrived_at]
        )
    )
    mine = Q(tenant_id=record.tenant_id)
    tokens = Coalesce(Sum("new_prompt_tokens"), 0)
    found = others.aggregate(
        requests=Count("request_id"), of_tenant=Count("request_id", filter=mine), new_prompt_tokens=tokens
    )
    return {name: int(value) for name, value in found.items()}


def names_of(records: list[UsageRecord]) -> dict[tuple[str, str], str]:
    """Of tenants, keys and members in a page."""
    return labels(
        tenants={record.tenant_id for record in records},
        keys={record.key_id for record in records} - {""},
        members={record.member_id for record in records} - {""},
    )
