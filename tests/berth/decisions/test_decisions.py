"""Who sees which decision, by which filter; for how long they are kept. How they come about: tests/scheduler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from berth.decisions.models import Decision
from berth.decisions.services import Taken, record_decisions
from berth.decisions.tasks import forget
from berth.deployments.models import Deployment
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment, unique
from scheduler.decisions import Candidate
from scheduler.decisions import Decision as Planned

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def candidate(name: str, fits: bool = True) -> Candidate:
    why = "" if fits else "the node is cordoned"
    return Candidate(name, "gpu-0", f"nod-{name}", name, fits, why, 3.0 if fits else None, "", 8, 9, 1, 1)


def decide(deployment: Deployment, kind: str = "place", at: datetime = NOON, **values: object) -> Decision:
    given = {"summary": f"{deployment.name}: placed", "why": unique("why"), "device": "a", "node": "nod-a"}
    planned = Planned(kind, deployment.id, **{**given, "candidates": (candidate("a"), candidate("b", False)), **values})  # type: ignore[arg-type]
    taken = Taken(planned, deployment.tenant_id, deployment.name, node_name="a", replica="rep_1")
    (row,) = record_decisions(taken=[taken], now=at)
    return row


@pytest.mark.django_db
def test_it_is_found_by_what_a_person_would_ask_for() -> None:
    world = World()
    deployment, other = make_deployment(tenant=world.tenant), make_deployment(tenant=world.tenant)
    placed = decide(deployment)
    drained = decide(deployment, "drain", NOON + timedelta(hours=1), device="", node="nod-b")
    elsewhere = decide(other, "scale", NOON + timedelta(hours=2), device="", node="")
    client = world.client("viewer")

    def found(query: str) -> list[str]:
        return [row["id"] for row in client.get(url("decisions") + query).json()["results"]]

    assert found("") == [elsewhere.id, drained.id, placed.id]
    assert found(f"?deployment={deployment.id}") == [drained.id, placed.id]
    assert found("?kind=drain&kind=scale") == [elsewhere.id, drained.id]
    assert found("?node=nod-b") == [drained.id]
    assert found("?replica=rep_1") == [elsewhere.id, drained.id, placed.id]
    assert found("?from=2026-11-30T12:30:00Z&to=2026-11-30T13:30:00Z") == [drained.id]
    assert found(f"?search={placed.why}") == [placed.id]
    assert found("?ordering=at") == [placed.id, drained.id, elsewhere.id]
    problem(client.get(url("decisions") + "?kind=magic"), 400, "kind")
    problem(client.get(url("decisions") + "?from=soon"), 400, "from")

    row = client.get(url("decisions", placed.id)).json()
    assert (row["deployment_name"], row["node_name"], row["count"]) == (deployment.name, "a", 1)
    assert [(one["node"], one["fits"], one["score"]) for one in row["candidates"]] == [
        ("a", True, 3.0),
        ("b", False, None),
    ]
    assert row["chosen"]["node"] == "a"
    assert client.get(url("decisions", drained.id)).json()["chosen"] is None


@pytest.mark.django_db
def test_old_ones_are_forgotten_but_not_a_refusal_that_still_holds() -> None:
    deployment = make_deployment()
    now = timezone.now()
    decide(deployment, at=now - timedelta(days=40))
    lasting = decide(deployment, "refuse", at=now - timedelta(days=40))
    Decision.objects.for_platform().filter(id=lasting.id).update(last_at=now)
    recent = decide(deployment, at=now - timedelta(days=20))
    forget()
    assert {row.id for row in Decision.objects.for_platform()} == {lasting.id, recent.id}
