"""Tenant scoping that fails closed: a query on a tenant's rows that names no tenant raises instead of answering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.db import models


class UnscopedQuery(RuntimeError):
    """A query on tenant-owned rows was run without saying whose. A fault in our code, never the user's."""


class ScopedQuerySet(models.QuerySet[Any]):
    """Runs only after ``for_tenant`` or, for code that serves the whole platform, ``for_platform``."""

    _scoped = False

    def for_tenant(self, tenant_id: str) -> Self:
        return self.for_tenants([tenant_id])

    def for_tenants(self, tenant_ids: Sequence[str]) -> Self:
        scoped = self.filter(tenant_id__in=tenant_ids)
        scoped._scoped = True
        return scoped

    def for_platform(self) -> Self:
        """All tenants' rows: the operator's views and background work. Search for this name to review them."""
        every = self.all()
        every._scoped = True
        return every

    def _clone(self) -> Self:
        clone: Self = super()._clone()  # type: ignore[misc]
        clone._scoped = self._scoped
        return clone

    def _require_scope(self) -> None:
        if not self._scoped:
            raise UnscopedQuery(f"{self.model.__name__}: say for_tenant(id) or for_platform() before the query")

    def _fetch_all(self) -> None:
        self._require_scope()
        super()._fetch_all()

    def iterator(self, *args: Any, **kwargs: Any) -> Any:
        self._require_scope()
        return super().iterator(*args, **kwargs)

    def count(self) -> int:
        self._require_scope()
        return super().count()

    def exists(self) -> bool:
        self._require_scope()
        return super().exists()

    def aggregate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self._require_scope()
        return super().aggregate(*args, **kwargs)

    def update(self, **kwargs: Any) -> int:
        self._require_scope()
        return super().update(**kwargs)

    def delete(self) -> tuple[int, dict[str, int]]:
        self._require_scope()
        return super().delete()


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose rows a reader may see: some tenants', or, with None, the whole platform's. Selectors take it first."""

    tenant_ids: tuple[str, ...] | None

    def of(self, manager: Any) -> Any:
        return manager.for_platform() if self.tenant_ids is None else manager.for_tenants(self.tenant_ids)


PLATFORM = Scope(None)

ScopedManager = models.Manager.from_queryset(ScopedQuerySet)


class TenantOwned(models.Model):
    """Base of every tenant's row. Following a foreign key uses the plain manager: it starts from a scoped object.

    The other way (``tenant.api_keys``, ``prefetch_related``) is a query like any other and must be scoped.
    """

    objects = ScopedManager()
    related = models.Manager()

    class Meta:
        abstract = True
        base_manager_name = "related"
        default_manager_name = "objects"
