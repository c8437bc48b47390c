"""Writes of contracts: versions in time, at most one of a tenant's on a deployment in force at any moment.

grant      [v1 ----------------------------------->
change     [v1 -----][v2 ------------------------->     now, or from a time to come
change v2 before it is in force: [v1 -----][v3 --->     v2 is replaced and never was in force
end        [v1 -----]                                   ending a scheduled version lets its predecessor go on
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max, Q
from django.utils import timezone

from berth.audit.services import changes, record
from berth.core.budgets import BUDGETS, check_budgets
from berth.core.errors import Conflict, Invalid
from berth.core.notify import changed
from berth.core.version import raise_version
from berth.deployments.models import Deployment
from berth.slas.models import Contract, ServiceClass, WhenLate
from berth.slas.selectors import lasts_beyond
from berth.slas.tiers import classes_of, naming, renewed, tiers_of
from berth.tenants.models import Tenant

LIMITS = (
    "guaranteed_requests_per_min", "guaranteed_tokens_per_min", "burst_requests_per_min", "burst_tokens_per_min",
    "max_concurrency", "weight", "when_late", *BUDGETS,
)  # fmt: skip
_BURSTS = {
    "burst_requests_per_min": "guaranteed_requests_per_min",
    "burst_tokens_per_min": "guaranteed_tokens_per_min",
}


@transaction.atomic
def grant_contract(
    *,
    tenant: Tenant,
    deployment: Deployment,
    service_class: ServiceClass,
    actor: str,
    valid_from: datetime | None = None,
    tiers: Mapping[str, ServiceClass] | None = None,
    **limits: Any,
) -> Contract:
    """``limits``: of ``LIMITS``. ``tiers``: classes it allows beside its own, by OpenAI's words.

    ``valid_from``: now, or a time to come. Raises ``Conflict`` and ``Invalid``.
    """
    starts, allowed = _start(valid_from), tiers_of(tiers or {})
    _check_limits(limits)
    Tenant.objects.select_for_update().get(id=tenant.id)
    _check_name_is_free(tenant, deployment)
    versions = Contract.objects.for_tenant(tenant.id).filter(deployment=deployment)
    taken = Conflict(f"{tenant.name} has a contract on {deployment.name!r}; change that one", field="deployment")
    if versions.filter(lasts_beyond(starts)).exists():
        raise taken
    last = versions.aggregate(last=Max("version"))["last"] or 0
    try:
        with transaction.atomic():
            contract = Contract.objects.create(
                tenant=tenant,
                deployment=deployment,
                service_class=service_class,
                version=last + 1,
                terms=service_class.terms(),
                tiers=allowed,
                valid_from=starts,
                **limits,
            )
    except IntegrityError as error:
        raise taken from error
    after = {"tenant": tenant.id, "deployment": deployment.id, "service_class": service_class.name, **limits}
    after |= {"tiers": classes_of(allowed)} if allowed else {}
    record(actor=actor, action="contract.grant", obj=contract, after=after | {"valid_from": starts})
    _announce(contract)
    return contract


@transaction.atomic
def change_contract(*, contract: Contract, actor: str, valid_from: datetime | None = None, **values: Any) -> Contract:
    """Opens the next version, a row of its own: usage keeps the version it met.

    ``values``: service_class, tiers and the limits of ``grant_contract``. ``valid_from``: when it comes into force;
    absent: at once, or, of a scheduled version, when that was to. Raises ``Conflict`` for a version that has ended,
    and for one that a scheduled version already follows.
    """
    old = _lock(contract)
    now = timezone.now()
    _check_open(old, now)
    if "tiers" in values:
        values["tiers"] = tiers_of(values["tiers"])
    kept = {name: getattr(old, name) for name in LIMITS}
    _check_limits(kept | {name: value for name, value in values.items() if name not in ("service_class", "tiers")})
    before, after = changes(old, values)
    scheduled = old.valid_from > now
    starts = old.valid_from if scheduled and valid_from is None else _start(valid_from)
    if not after and not (scheduled and starts != old.valid_from):
        return old
    same = {**kept, "service_class": old.service_class, "tiers": old.tiers}
    new = _follow(old, starts, scheduled=scheduled, values={**same, **after})
    if "tiers" in after:
        before["tiers"], after["tiers"] = classes_of(before["tiers"]), classes_of(after["tiers"])
    record(
        actor=actor,
        action="contract.change",
        obj=new,
        before=before | {"version": old.version, "valid_from": old.valid_from},
        after=after | {"version": new.version, "valid_from": starts},
    )
    _announce(new)
    return new


def _follow(old: Contract, starts: datetime, *, scheduled: bool, values: dict[str, Any]) -> Contract:
    """A scheduled version is replaced where it stands: its predecessor goes on until the new one."""
    if scheduled:
        _versions(old).filter(id=old.replaces).update(valid_until=starts)
    old.valid_until = timezone.now() if scheduled else starts
    old.save(update_fields=["valid_until"])
    return Contract.objects.create(
        tenant_id=old.tenant_id,
        deployment_id=old.deployment_id,
        version=_next_version(old),
        terms=values["service_class"].terms(),
        valid_from=starts,
        replaces=old.replaces if scheduled else old.id,
        **values,
    )


@transaction.atomic
def end_contract(*, contract: Contract, actor: str, at: datetime | None = None) -> Contract:
    """Ends it now or at a time to come. A scheduled version is withdrawn, and the one before it goes on."""
    old = _lock(contract)
    now = timezone.now()
    if old.valid_from > now:
        return _withdraw(old, actor)
    if old.valid_until is not None and old.valid_until <= now:
        raise _has_ended(old)
    for later in _versions(old).filter(valid_until=None, valid_from__gt=now).select_for_update(of=("self",)):
        later.valid_until = now
        later.save(update_fields=["valid_until"])
        record(actor=actor, action="contract.withdraw", obj=later, after={"valid_until": later.valid_until})
    before = {"valid_until": old.valid_until}
    old.valid_until = now if at is None else _start(at)
    old.save(update_fields=["valid_until"])
    record(actor=actor, action="contract.end", obj=old, before=before, after={"valid_until": old.valid_until})
    _announce(old)
    return old


def _withdraw(old: Contract, actor: str) -> Contract:
    if old.valid_until is not None:
        raise Conflict(f"Version {old.version} of this contract was replaced before it came into force")
    old.valid_until = timezone.now()
    old.save(update_fields=["valid_until"])
    _versions(old).filter(id=old.replaces).update(valid_until=None)
    record(actor=actor, action="contract.withdraw", obj=old, after={"valid_until": old.valid_until})
    _announce(old)
    return old


def renew_for_class(*, service_class: ServiceClass, actor: str) -> int:
    """The class promises something else: each contract in force gets a version with the new terms, from now on.

    So do those that allow it as a tier. A scheduled version has judged nothing yet and takes the new terms itself.
    Returns how many were renewed.
    """
    now = timezone.now()
    rows = (
        Contract.objects.for_platform()
        .filter(lasts_beyond(now), Q(service_class=service_class) | naming(service_class))
        .select_for_update(of=("self",))
        .select_related("service_class")
        .order_by("id")
    )
    count = 0
    for old in rows:
        if old.valid_from > now:
            if old.valid_until is None:
                old.terms, old.tiers = old.service_class.terms(), renewed(old.tiers, service_class)
                old.save(update_fields=["terms", "tiers"])
            continue
        new = _succeed(old, old.service_class, now, tiers=renewed(old.tiers, service_class))
        before, after = changes(old, {"terms": new.terms, "tiers": new.tiers})
        record(actor=actor, action="contract.renew", obj=new, before=before, after=after)
        count += 1
    return count


@transaction.atomic
def follow_deployment(*, deployment: Deployment, former: ServiceClass, actor: str) -> None:
    """The deployment has another class than ``former`` from now on: so has its owner's contract, to its same end.

    A scheduled version that would have kept ``former`` takes the new class as well; one that was scheduled with a class
    of its own keeps that.
    """
    now = timezone.now()
    rows = Contract.objects.for_tenant(deployment.tenant_id).filter(lasts_beyond(now), deployment=deployment)
    new = deployment.service_class
    for old in rows.select_for_update(of=("self",)).select_related("service_class").order_by("version"):
        before, row = {"service_class": old.service_class, "version": old.version}, old
        if old.valid_from <= now:
            if old.service_class_id == new.id:
                continue
            row = _succeed(old, new, now, tiers=old.tiers)
        elif old.valid_until is None and old.service_class_id == former.id:
            old.service_class, old.terms = new, new.terms()
            old.save(update_fields=["service_class", "terms"])
        else:
            continue
        after = {"service_class": new, "version": row.version, "valid_from": row.valid_from}
        record(actor=actor, action="contract.change", obj=row, before=before, after=after)
        _announce(row)


def _succeed(old: Contract, service_class: ServiceClass, now: datetime, *, tiers: dict[str, Any]) -> Contract:
    """A version of the same limits in place of ``old`` from ``now`` to its end, with what the class promises now."""
    until = old.valid_until
    old.valid_until = now
    old.save(update_fields=["valid_until"])
    new = Contract.objects.create(
        tenant_id=old.tenant_id,
        deployment_id=old.deployment_id,
        service_class=service_class,
        version=_next_version(old),
        terms=service_class.terms(),
        tiers=tiers,
        valid_from=now,
        valid_until=until,
        replaces=old.id,
        **{name: getattr(old, name) for name in LIMITS},
    )
    _versions(old).filter(replaces=old.id).exclude(id=new.id).update(replaces=new.id)
    return new


def _lock(contract: Contract) -> Contract:
    rows = Contract.objects.for_tenant(contract.tenant_id).select_for_update(of=("self",))
    found: Contract = rows.select_related("service_class").get(id=contract.id)
    return found


def _check_open(old: Contract, now: datetime) -> None:
    if old.valid_until is None:
        return
    if old.valid_until <= now or old.valid_until <= old.valid_from:
        raise _has_ended(old)
    later = _versions(old).filter(valid_until=None, valid_from__gt=now).first()
    if later is not None:
        raise Conflict(
            f"Version {later.version} of this contract is scheduled for {later.valid_from.isoformat()}: "
            "change or end that one first"
        )
    raise Conflict(f"This contract ends at {old.valid_until.isoformat()}: grant a new one from then on")


def _has_ended(old: Contract) -> Conflict:
    until = old.valid_until.isoformat() if old.valid_until is not None else ""
    return Conflict(f"Version {old.version} of this contract ended at {until}")


def _versions(contract: Contract) -> Any:
    return Contract.objects.for_tenant(contract.tenant_id).filter(deployment_id=contract.deployment_id)


def _next_version(contract: Contract) -> int:
    last: int = _versions(contract).aggregate(last=Max("version"))["last"]
    return last + 1


def _start(valid_from: datetime | None) -> datetime:
    """Raises ``Invalid`` for a time that is past: what was promised then has been judged."""
    now = timezone.now()
    if valid_from is None:
        return now
    if valid_from < now:
        raise Invalid(f"{valid_from.isoformat()} is past; leave it empty for now", field="valid_from")
    return valid_from


def _announce(contract: Contract) -> None:
    changed("deployment", contract.deployment_id, contract.tenant_id)
    raise_version()


def _check_limits(limits: Mapping[str, Any]) -> None:
    check_budgets(limits)
    for name, value in limits.items():
        if name not in LIMITS:
            raise Invalid(f"{name!r} is not a limit: expected one of {', '.join(LIMITS)}", field=name)
        if name == "when_late":
            if value not in WhenLate.values:
                raise Invalid(f"when_late is one of {', '.join(WhenLate.values)}", field=name)
        elif value is not None and name not in BUDGETS and value < (0 if name in _BURSTS else 1):
            raise Invalid(f"{value}: at least 1, or empty for no limit", field=name)
    for burst, rate in _BURSTS.items():
        if limits.get(burst) and limits.get(rate) is None:
            raise Invalid(f"A burst needs a guaranteed rate that it goes beyond: set {rate} as well", field=burst)


def _check_name_is_free(tenant: Tenant, deployment: Deployment) -> None:
    """``model`` in /v1 must mean one thing to a tenant."""
    same_name = deployment.tenant_id != tenant.id and (
        Deployment.objects.for_tenant(tenant.id).filter(name=deployment.name).exists()
    )
    contracts = Contract.objects.for_tenant(tenant.id).filter(
        lasts_beyond(timezone.now()), deployment__name=deployment.name
    )
    if same_name or contracts.exclude(deployment=deployment).exists():
        raise Conflict(f"{tenant.name} already has a model named {deployment.name!r}", field="deployment")
