from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berth.core.scoping import UnscopedQuery
from berth.tenants.models import ApiKey, Tenant

pytestmark = pytest.mark.django_db

USES: list[Callable[[Any], object]] = [
    list,
    len,
    bool,
    lambda q: q.count(),
    lambda q: q.exists(),
    lambda q: q.first(),
    lambda q: q.get(id="key_x"),
    lambda q: q.update(name="x"),
    lambda q: q.delete(),
    lambda q: list(q.iterator()),
    lambda q: q.values_list("id")[0],
    lambda q: q.filter(name="a").order_by("id")[:1].get(),
    lambda q: q.in_bulk(["a"]),
    lambda q: q.get_or_create(id="key_x"),
]


@pytest.mark.parametrize("use", USES)
def test_a_query_that_names_no_tenant_raises(use: Callable[[Any], object]) -> None:
    with pytest.raises(UnscopedQuery, match="ApiKey"):
        use(ApiKey.objects.all())


def test_a_scoped_query_sees_only_its_tenant() -> None:
    one, two = (Tenant.objects.create(name=n, slug=n) for n in ("one", "two"))
    for tenant in (one, two, two):
        ApiKey.objects.create(tenant=tenant, name="k", digest="d", pepper_id="1", hint="abcd")

    assert ApiKey.objects.for_tenant(one.id).count() == 1
    assert {k.tenant_id for k in ApiKey.objects.for_tenant(two.id).exclude(name="x")} == {two.id}
    assert ApiKey.objects.for_platform().count() == 3
    assert two.api_keys.for_tenant(two.id).count() == 2
    with pytest.raises(UnscopedQuery):
        two.api_keys.count()
    assert list(ApiKey.objects.for_tenant(one.id).filter(tenant=two)) == []
