from __future__ import annotations

import pytest
import structlog
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from berth.audit.models import AuditEvent
from berth.audit.selectors import annotate_names
from berth.audit.services import MASKED, changes, record
from berth.tenants.models import Tenant
from berth.tenants.services import create_key, create_tenant, create_user
from helpers.factories import PASSWORD, make_deployment, make_node, make_tenant

pytestmark = pytest.mark.django_db


def test_secrets_are_masked_and_objects_are_ids() -> None:
    tenant = make_tenant()
    with structlog.contextvars.bound_contextvars(request_id="req_1"):
        event = record(
            actor="ann",
            action="x",
            obj=tenant,
            after={"api_token": "t", "password": "p", "token_digest": "d", "default_max_tokens": 5, "tenant": tenant},
        )
    event.refresh_from_db()
    assert event.after == {
        "api_token": MASKED,
        "password": MASKED,
        "token_digest": MASKED,
        "default_max_tokens": 5,
        "tenant": tenant.id,
    }
    assert (event.object_type, event.object_id, event.request_id, event.before) == ("tenant", tenant.id, "req_1", None)


def test_a_key_made_leaves_no_secret_in_the_trail() -> None:
    tenant = make_tenant()
    key, token = create_key(tenant=tenant, name="ci", actor="ann")
    event = AuditEvent.objects.for_tenant(tenant.id).get(action="key.create")
    assert (event.object_id, event.actor, event.request_id) == (key.id, "ann", "")
    assert token.split(".")[1] not in str(vars(event))


def test_only_what_differs_is_a_change() -> None:
    tenant = Tenant(name="a", weight=1)
    assert changes(tenant, {"name": "b", "weight": 1}) == ({"name": "a"}, {"name": "b"})


def test_a_change_that_fails_leaves_no_event() -> None:
    class Failed(Exception):
        pass

    @transaction.atomic
    def fail() -> None:
        create_tenant(name="gone", slug="gone", actor="ann")
        raise Failed

    with pytest.raises(Failed):
        fail()
    assert not AuditEvent.objects.for_platform().filter(action="tenant.create").exists()


def test_what_happened_to_a_person_names_whom() -> None:
    tenant, ann = make_tenant(), create_user(email="ann@example.com", password=PASSWORD)
    gone = create_user(email="gone@example.com", password=PASSWORD)
    events = [
        record(actor="ann@example.com", action="session.create", obj=ann),
        record(actor="x", action="user.set_password", obj=gone),
        record(actor="x", action="tenant.change", obj=tenant),
    ]
    node, deployment = make_node("pier"), make_deployment(name="lantern")
    events += [record(actor="x", action="change", obj=one) for one in (node, deployment)]
    gone.delete()
    with CaptureQueriesContext(connection) as queries:
        annotate_names(events)
    assert [event.object_name for event in events] == ["ann@example.com", "", "", "pier", "lantern"]  # type: ignore[attr-defined]
    assert len(queries) == 1
