"""What a simulated fleet's file asks to be there at the first start, beside its nodes: classes and deployments.

[[service_class]]       # optional
name = "dedicated"
isolation = "whole"     # any field of a class

[[deployment]]
name = "assistant"      # of the first start's model
tenant = "acme"         # optional: the demo tenant
service_class = "chat"
replicas = 2            # optional: 1
guaranteed_tokens_per_min = 60000    # optional
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from berth.catalog.models import Model
from berth.core.errors import BerthError, NotFound
from berth.deployments.models import Deployment
from berth.deployments.services import create_deployment
from berth.slas.models import Contract, ServiceClass
from berth.slas.services import change_contract, create_class
from berth.tenants.models import Tenant
from berth.tenants.services import create_tenant

T = TypeVar("T")


class BadShowcase(RuntimeError):
    """The file's classes or deployments cannot be made; the text says which and why."""


def tables_of(path: Path) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Its classes and its deployments. Raises ``BadShowcase``."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadShowcase(f"{path}: {error}") from error
    classes, deployments = content.get("service_class", []), content.get("deployment", [])
    for row in (*classes, *deployments):
        if not isinstance(row.get("name"), str):
            raise BadShowcase(f"{path}: each [[service_class]] and [[deployment]] needs a name, found {row}")
    return classes, deployments


def show(path: Path, *, demo: Tenant, model: Model, actor: str) -> list[Deployment]:
    """Makes what the file names. Raises ``BadShowcase``; what was made before that stays."""
    classes, deployments = tables_of(path)
    made = []
    for row in classes:
        if not ServiceClass.objects.filter(name=row["name"]).exists():
            _said(path, row, partial(create_class, actor=actor, **row))
    for row in deployments:
        made.append(_said(path, row, partial(_deploy, row, demo, model, actor)))
    return made


def _deploy(row: Mapping[str, Any], demo: Tenant, model: Model, actor: str) -> Deployment:
    slug = row.get("tenant", demo.slug)
    tenant = Tenant.objects.filter(slug=slug).first() or create_tenant(name=slug.capitalize(), slug=slug, actor=actor)
    name = row.get("service_class", "chat")
    service_class = ServiceClass.objects.filter(name=name).first()
    if service_class is None:
        raise NotFound(f"no service class is named {name!r}")
    made = create_deployment(
        tenant=tenant,
        name=row["name"],
        model=model,
        service_class=service_class,
        replica_count=row.get("replicas", 1),
        actor=actor,
    )
    if guaranteed := row.get("guaranteed_tokens_per_min"):
        contract = Contract.objects.for_tenant(tenant.id).get(deployment=made, valid_until=None)
        change_contract(contract=contract, actor=actor, guaranteed_tokens_per_min=guaranteed)
    return made


def _said(path: Path, row: Mapping[str, Any], make: Callable[[], T]) -> T:
    try:
        return make()
    except (BerthError, TypeError, ValueError) as error:
        raise BadShowcase(f"{path}: {row['name']!r}: {error}") from error
