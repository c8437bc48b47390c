"""Who reads plans, by which filter, and that a list leaves out what only one plan's page shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from berth.plans.models import Plan
from helpers.api_cases import World, problem, url

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FIGURES = {"gpus": 4, "gpus_in_use": 2, "stranded_units": 1, "fragmentation": 0.1, "goodput": 900.0}


def plan(kind: str, state: str, minutes: int, **values: object) -> Plan:
    at = NOON + timedelta(minutes=minutes)
    given = {"why": "because", "objective": 2.1, "bound": 2.0, "gap": 0.05, "seconds": 0.2}
    return Plan.objects.create(
        kind=kind, state=state, at=at, last_at=at, before=FIGURES, after=FIGURES, **{**given, **values}
    )


def test_it_is_found_by_what_an_operator_would_ask_for() -> None:
    client = World().client("operator")
    idle = plan("nothing", "idle", 0, count=7)
    packed = plan("compact", "running", 10, moves=3, why="a GPU is emptied")
    placed = plan("insert", "done", 20, pending=[{"deployment": "dep_1", "reason": "full"}])

    def found(query: str) -> list[str]:
        return [row["id"] for row in client.get(url("plans") + query).json()["results"]]

    assert found("") == [placed.id, packed.id, idle.id]
    assert found("?kind=compact&kind=insert") == [placed.id, packed.id]
    assert found("?state=running") == [packed.id]
    assert found("?search=emptied") == [packed.id]
    assert found("?ordering=-moves")[0] == packed.id
    assert found("?from=2026-11-30T12:05:00Z&to=2026-11-30T12:15:00Z") == [packed.id]
    problem(client.get(url("plans") + "?kind=magic"), 400, "kind")
    problem(client.get(url("plans") + "?state=magic"), 400, "state")


def test_a_list_is_lean_and_one_plan_is_whole() -> None:
    client = World().client("operator")
    spot = {"gpu": "gpu_1", "gpu_name": "gpu-0", "node": "nod_1", "node_name": "a", "start": 4}
    change = {
        "replica": "rep_1",
        "deployment": "dep_1",
        "deployment_name": "chat",
        "why": "w",
        "from": spot,
        "to": None,
    }
    made = plan("exact", "running", 0, changes=[change], waves=[{"starts": [], "stops": []}] * 3, wave=1,
                inputs={"gpus": 4}, candidates=[{"kind": "exact", "why_not": ""}])  # fmt: skip
    (line,) = client.get(url("plans")).json()["results"]
    assert (line["waves_total"], line["wave"], line["pending_total"]) == (3, 1, 0)
    assert not {"changes", "waves", "inputs", "candidates", "pending"} & set(line)
    whole = client.get(url("plans", made.id)).json()
    assert whole["changes"] == [change]
    assert (whole["inputs"], len(whole["waves"]), whole["before"]["goodput"]) == ({"gpus": 4}, 3, 900.0)
