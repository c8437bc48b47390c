"""What the ids in sums are called. Every id given here comes from rows that the asker may see."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from berth.deployments.models import Deployment
from berth.tenants.models import ApiKey, Tenant, User

Labels = dict[tuple[str, str], str]


def labels(
    *,
    tenants: Collection[str] = (),
    deployments: Collection[str] = (),
    keys: Collection[str] = (),
    members: Collection[str] = (),
) -> Labels:
    """By (kind, id). Who or what is gone has no label. A deployment may be another's, used by contract."""
    found: Labels = {}
    if tenants:
        named = Tenant.objects.filter(id__in=tenants).values_list("id", "name")
        found.update({("tenant", id_): name for id_, name in named})
    if deployments:
        rows = Deployment.objects.for_platform().filter(id__in=deployments).values_list("id", "name")
        found.update({("deployment", id_): name for id_, name in rows})
    if keys:
        for id_, name, playground in (
            ApiKey.objects.for_platform().filter(id__in=keys).values_list("id", "name", "playground")
        ):
            found["key", id_] = "Playground" if playground else name
    if members:
        for id_, name, email in User.objects.filter(id__in=members).values_list("id", "name", "email"):
            found["member", id_] = name or email
    return found


def label_of(names: Mapping[tuple[str, str], str], kind: str, id_: str) -> str:
    return names.get((kind, id_), id_)
