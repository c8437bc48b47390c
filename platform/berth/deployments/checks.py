"""What a deployment may ask for: refused with the value, the limit and the way out."""

from __future__ import annotations

from berth.catalog.models import ModelState
from berth.core.errors import Conflict, Invalid
from berth.deployments.models import Deployment, Dtype, Engine, KvDtype
from berth.deployments.needs import longest_of, needs_of_deployment
from berth.deployments.quota import reserved_by, reserved_bytes
from berth.tenants.models import CapacityQuota
from gpuruntime.modelinfo import MemoryNeeds

MAX_REPLICAS = 1000
MAX_NUM_SEQS = 1024


def check_settings(deployment: Deployment) -> None:
    """Raises ``Invalid`` naming the first field that cannot be."""
    model = deployment.model
    if model.tenant_id is not None and model.tenant_id != deployment.tenant_id:
        raise Invalid(f"There is no model {model.name!r}", field="model")
    if model.state != ModelState.READY:
        raise Invalid(f"{model.name} is {model.state}: {model.reason or 'wait until it is ready'}", field="model")
    _within("replica_count", deployment.replica_count, 0, MAX_REPLICAS)
    _within("max_num_seqs", deployment.max_num_seqs, 1, MAX_NUM_SEQS)
    _one_of("engine", deployment.engine, Engine.values)
    _one_of("dtype", deployment.dtype, Dtype.values)
    _one_of("kv_dtype", deployment.kv_dtype, KvDtype.values)
    check_engine(deployment.engine, deployment.dtype, deployment.kv_dtype)
    if deployment.max_model_len is not None:
        _within("max_model_len", deployment.max_model_len, 16, model.context_length)
    longest = longest_of(model, deployment.max_model_len)
    _within("default_max_tokens", deployment.default_max_tokens, 1, longest)
    check_kv(needs_of_deployment(deployment), longest)


def check_engine(engine: str, dtype: str, kv_dtype: str) -> None:
    """int8 weights and int8 K and V are the native engine's own; vLLM would be started without them."""
    if engine == Engine.NATIVE:
        return
    for field, value, others in (("dtype", dtype, "bf16 or fp32"), ("kv_dtype", kv_dtype, "auto")):
        if value == "int8":
            raise Invalid(f"int8: {engine} takes {others}; the native engine takes int8", field=field)


def check_kv(needs: MemoryNeeds, longest: int) -> None:
    """One request of full length must fit, or it could never finish."""
    if needs.kv_capacity_tokens < longest:
        raise Invalid(
            f"{needs.kv_bytes} bytes hold {needs.kv_capacity_tokens} tokens; one request may have {longest} "
            f"({-(-longest // 16) * 16 * needs.kv_bytes_per_token} bytes). Give more, or lower max_model_len",
            field="kv_bytes",
        )


def _within(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise Invalid(f"{value}: expected {low} to {high}", field=field)


def _one_of(field: str, value: str, expected: list[str]) -> None:
    if value not in expected:
        raise Invalid(f"{value!r}: expected one of {', '.join(expected)}", field=field)


def check_quota(deployment: Deployment) -> None:
    """Memory of all the tenant's running deployments against its quota, under the quota's lock.

    Only what asks for more than it holds is refused: a quota that was lowered stops nothing.
    """
    quota = CapacityQuota.objects.select_for_update().filter(tenant_id=deployment.tenant_id).first()
    wanted = reserved_by(deployment)
    if quota is None or not wanted:
        return
    held = Deployment.objects.for_tenant(deployment.tenant_id).filter(id=deployment.id).select_related("model").first()
    before = reserved_by(held) if held is not None else 0
    if wanted <= before:
        return
    total = reserved_bytes([deployment.tenant_id])[deployment.tenant_id] - before + wanted
    limit = quota.guaranteed_bytes + quota.burst_bytes
    if total > limit:
        raise Conflict(
            f"This would reserve {total >> 20} MiB in all; the tenant's quota is {limit >> 20} MiB "
            f"({quota.guaranteed_bytes >> 20} guaranteed, {quota.burst_bytes >> 20} burst). "
            "Take fewer replicas, stop another deployment, or ask an operator for more",
            field="replica_count",
            code="over_quota",
        )
