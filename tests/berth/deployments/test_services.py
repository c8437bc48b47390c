from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from berth.core.errors import Conflict, Invalid
from berth.deployments.models import Deployment, Replica
from berth.deployments.needs import needs_of_deployment
from berth.deployments.services import (
    change_deployment,
    clone_deployment,
    create_replica,
    delete_deployment,
    drain_replica,
    end_replica,
    scale_deployment,
    start_deployment,
    stop_deployment,
)
from berth.slas.models import Contract
from berth.slas.selectors import classes
from berth.slas.services import change_contract, end_contract, ensure_default_classes, grant_contract
from berth.tenants.models import CapacityQuota
from helpers.factories import make_deployment, make_tenant

pytestmark = pytest.mark.django_db
MIB = 1 << 20


def test_its_owner_has_a_contract_of_its_class() -> None:
    deployment = make_deployment(service_class=ensure_default_classes()["rag"])
    contract = Contract.objects.for_tenant(deployment.tenant_id).get()
    assert (contract.deployment, contract.service_class.name) == (deployment, "rag")

    change_deployment(deployment=deployment, actor="t", service_class=ensure_default_classes()["code"])
    versions = Contract.objects.for_tenant(deployment.tenant_id).order_by("version")
    assert [(v.version, v.service_class.name, v.valid_until is None) for v in versions] == [
        (1, "rag", False),
        (2, "code", True),
    ]


@pytest.mark.parametrize("scheduled", ["chat", "batch"])
def test_a_change_of_class_is_of_now_and_what_was_scheduled_otherwise_stays(scheduled: str) -> None:
    classes = ensure_default_classes()
    deployment = make_deployment(service_class=classes["chat"])
    versions = Contract.objects.for_tenant(deployment.tenant_id).order_by("version")
    monday = timezone.now() + timedelta(days=3)
    change_contract(contract=versions.get(), actor="t", weight=4, service_class=classes[scheduled], valid_from=monday)
    change_deployment(deployment=deployment, actor="t", service_class=classes["code"])

    first, second, third = versions
    now = timezone.now()
    # A limit alone was scheduled: it comes with the class that the deployment has by then.
    then = "code" if scheduled == "chat" else "batch"
    assert [(v.service_class.name, v.weight, v.state(now)) for v in (first, second, third)] == [
        ("chat", 1, "ended"),
        (then, 4, "scheduled"),
        ("code", 1, "current"),
    ]
    assert (third.valid_until, second.valid_from, second.valid_until) == (monday, monday, None)
    assert (second.replaces, third.replaces) == (third.id, first.id)
    assert second.terms == classes[then].terms()
    assert third.terms == classes["code"].terms()


def test_a_contract_that_will_end_has_the_new_class_until_then() -> None:
    deployment = make_deployment(service_class=ensure_default_classes()["chat"])
    versions = Contract.objects.for_tenant(deployment.tenant_id).order_by("version")
    monday = timezone.now() + timedelta(days=3)
    end_contract(contract=versions.get(), actor="t", at=monday)
    change_deployment(deployment=deployment, actor="t", service_class=ensure_default_classes()["code"])
    assert [v.service_class.name for v in versions] == ["chat", "code"]
    assert [v.valid_until == monday for v in versions] == [False, True]


def test_needs_are_weights_kv_and_workspace() -> None:
    deployment = make_deployment(kv_bytes=256 * MIB, max_num_seqs=32)
    needs = needs_of_deployment(deployment)
    # 134,515,008 parameters of two bytes; 2 · 30 layers · 3 heads · 64 · 2 bytes a token.
    assert needs.weights_bytes == 269_030_016 + 49_152 * 576 * 2  # and the packed copy of the tied head
    assert needs.kv_bytes_per_token == 2 * 30 * 3 * 64 * 2
    assert needs.kv_capacity_tokens == 256 * MIB // 23_040 // 16 * 16
    assert needs.total_bytes == needs.weights_bytes + 256 * MIB + needs.workspace_bytes
    assert create_replica(deployment=deployment, reason="").memory_bytes == needs.total_bytes


def test_one_full_request_must_fit_into_its_kv_memory() -> None:
    enough = 2048 * 23_040
    make_deployment(max_model_len=2048, kv_bytes=enough)
    with pytest.raises(Invalid, match=r"hold 2032 tokens; one request may have 2048 \(47185920 bytes\)") as refused:
        make_deployment(max_model_len=2048, kv_bytes=enough - 1)
    assert refused.value.field == "kv_bytes"
    with pytest.raises(Invalid) as refused:
        make_deployment(max_model_len=2048, kv_bytes=enough, dtype="fp32")
    assert refused.value.field == "kv_bytes"


def test_int8_halves_what_weights_and_kv_take() -> None:
    plain = needs_of_deployment(make_deployment(kv_bytes=256 * MIB))
    weights = needs_of_deployment(make_deployment(kv_bytes=256 * MIB, dtype="int8"))
    kv = needs_of_deployment(make_deployment(kv_bytes=256 * MIB, kv_dtype="int8"))
    # The table stays bf16; every other weight, and the head's copy of the table, is one byte and its row's scale.
    table = 49_152 * 576
    scales = weights.weights_bytes - table * 2 - 134_515_008
    assert 0 < scales < 134_515_008 // 100
    assert weights.total_bytes - plain.total_bytes == scales - 134_515_008
    # A head of 64 values and an fp32 scale. The bytes of the cache are what was asked for: they hold more tokens.
    assert kv.kv_bytes_per_token == 2 * 30 * 3 * (64 + 4)
    assert kv.kv_capacity_tokens == 256 * MIB // 12_240 // 16 * 16
    assert (kv.kv_bytes, kv.total_bytes) == (256 * MIB, plain.total_bytes)

    make_deployment(max_model_len=2048, kv_bytes=2048 * 12_240, kv_dtype="int8")
    with pytest.raises(Invalid, match="one request may have 2048") as refused:
        make_deployment(max_model_len=2048, kv_bytes=2048 * 12_240)
    assert refused.value.field == "kv_bytes"


@pytest.mark.parametrize(
    ("field", "settings", "message"),
    [
        ("dtype", {"dtype": "fp8"}, "'fp8': expected one of bf16, int8, fp32"),
        ("kv_dtype", {"kv_dtype": "bf16"}, "'bf16': expected one of auto, int8"),
        ("dtype", {"dtype": "int8", "engine": "vllm"}, "int8: vllm takes bf16 or fp32; the native engine takes int8"),
        ("kv_dtype", {"kv_dtype": "int8", "engine": "vllm"}, "int8: vllm takes auto; the native engine takes int8"),
    ],
)
def test_dtypes_that_an_engine_does_not_run_are_refused(field: str, settings: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid) as refused:
        make_deployment(**settings)
    assert (refused.value.field, str(refused.value)) == (field, message)


def test_what_a_runtime_was_started_with_changes_only_at_rest() -> None:
    deployment = make_deployment()
    with pytest.raises(Conflict, match="max_num_seqs: stop the deployment first"):
        change_deployment(deployment=deployment, actor="t", max_num_seqs=8)
    with pytest.raises(Conflict, match="kv_dtype: stop the deployment first"):
        change_deployment(deployment=deployment, actor="t", kv_dtype="int8")
    replica = create_replica(deployment=deployment, reason="")
    stop_deployment(deployment=deployment, actor="t")
    with pytest.raises(Conflict):
        change_deployment(deployment=deployment, actor="t", max_num_seqs=8)
    end_replica(replica=replica, state="stopped", reason="")
    assert change_deployment(deployment=deployment, actor="t", max_num_seqs=8).max_num_seqs == 8
    assert change_deployment(deployment=deployment, actor="t", default_max_tokens=9).default_max_tokens == 9
    with pytest.raises(Invalid):
        change_deployment(deployment=deployment, actor="t", name="other")


def test_only_what_stands_still_is_deleted() -> None:
    deployment = make_deployment()
    replica = create_replica(deployment=deployment, reason="")
    with pytest.raises(Conflict, match="Stop"):
        delete_deployment(deployment=deployment, actor="t")
    stop_deployment(deployment=deployment, actor="t")
    with pytest.raises(Conflict, match="1 of its replicas"):
        delete_deployment(deployment=deployment, actor="t")
    drain_replica(replica=replica, reason="stopped")
    delete_deployment(deployment=deployment, actor="t")
    assert not Deployment.objects.for_platform().filter(id=deployment.id).exists()
    assert not Replica.objects.for_platform().filter(id=replica.id).exists()


def test_a_clone_is_the_same_under_another_name() -> None:
    deployment = make_deployment(
        max_num_seqs=5, max_model_len=1024, kv_bytes=100 * MIB, replica_count=2, dtype="int8", kv_dtype="int8"
    )
    stop_deployment(deployment=deployment, actor="t")
    clone = clone_deployment(deployment=deployment, name="copy", actor="t")
    same = ("tenant_id", "model_id", "service_class_id", "max_num_seqs", "max_model_len", "kv_bytes", "replica_count")
    assert [getattr(clone, f) for f in same] == [getattr(deployment, f) for f in same]
    assert (clone.dtype, clone.kv_dtype) == ("int8", "int8")
    assert (clone.name, clone.desired_state) == ("copy", "running")
    with pytest.raises(Conflict, match="copy"):
        clone_deployment(deployment=deployment, name="copy", actor="t")


def test_a_quota_bounds_what_a_tenants_deployments_reserve_together() -> None:
    tenant = make_tenant()
    deployment = make_deployment(tenant=tenant)
    one = needs_of_deployment(deployment).total_bytes
    CapacityQuota.objects.create(tenant=tenant, guaranteed_bytes=one, burst_bytes=one)

    other = make_deployment(tenant=tenant)
    for refused in (
        lambda: make_deployment(tenant=tenant),
        lambda: scale_deployment(deployment=deployment, replicas=2, actor="t"),
    ):
        with pytest.raises(Conflict, match="quota") as error:
            refused()
        assert error.value.code == "over_quota"
    stop_deployment(deployment=other, actor="t")
    scale_deployment(deployment=deployment, replicas=2, actor="t")
    with pytest.raises(Conflict):
        start_deployment(deployment=other, actor="t")


def test_scaling_to_none_is_allowed() -> None:
    deployment = make_deployment()
    assert scale_deployment(deployment=deployment, replicas=0, actor="t").replica_count == 0
    with pytest.raises(Invalid):
        scale_deployment(deployment=deployment, replicas=-1, actor="t")


@pytest.mark.parametrize("lasts", ["for ever", "until tomorrow", "from tomorrow on", "until yesterday"])
def test_a_name_is_taken_while_a_contract_has_it_or_will(lasts: str) -> None:
    """``model`` in /v1 must mean one thing to a tenant, also once a scheduled contract comes into force."""
    tenant, shared = make_tenant("acme"), make_deployment(tenant=make_tenant("owner"), name="chat")
    day = timedelta(days=1)
    begins = timezone.now() + day if lasts == "from tomorrow on" else None
    service_class = ensure_default_classes()["chat"]
    contract = grant_contract(
        tenant=tenant, deployment=shared, service_class=service_class, actor="t", valid_from=begins
    )
    if lasts == "until tomorrow":
        end_contract(contract=contract, actor="t", at=timezone.now() + day)
    if lasts == "until yesterday":
        Contract.objects.for_tenant(tenant.id).update(
            valid_from=timezone.now() - 2 * day, valid_until=timezone.now() - day
        )
    open_of_class = classes().get(id=service_class.id).contracts_open
    if lasts == "until yesterday":
        make_deployment(tenant=tenant, name="chat")
        assert open_of_class == 1, "the owner's own"
        return
    assert open_of_class == 2
    with pytest.raises(Conflict, match="already has a model named 'chat'"):
        make_deployment(tenant=tenant, name="chat")
