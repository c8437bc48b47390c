"""The official client's suite (``tests/sdk``) against the running system: beside our own client in each run, beside
the newest of both major versions in ``make test-sdk``. Afterwards: what the clients left did not go on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.cluster import REPOSITORY, Cluster, Person
from helpers.patience import eventually
from helpers.sdk_world import CALLER, make_world, run_suite

from .conftest import Demo

OWN = REPOSITORY / ".cache" / "sdk"
VERSIONS = [
    pytest.param(sys.executable, id="ours"),
    pytest.param(OWN / "openai-2/bin/python", id="openai-2", marks=pytest.mark.sdk),
    pytest.param(OWN / "openai-3/bin/python", id="openai-3", marks=pytest.mark.sdk),
]


@pytest.fixture(scope="module")
def world(cluster: Cluster, operator: Person, demo: Demo) -> Iterator[dict[str, str]]:
    yield make_world(cluster, operator, demo.tenant_id, demo.deployment_id)
    rows = operator.get(f"deployments?tenant={demo.tenant_id}")["results"]
    operator.post(f"deployments/{next(row['id'] for row in rows if row['name'] == CALLER)}/stop")


@pytest.mark.parametrize("python", VERSIONS)
def test_the_suite_passes(python: str | Path, world: dict[str, str]) -> None:
    done = run_suite(python, world)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_clients_left_did_not_go_on(world: dict[str, str], operator: Person, demo: Demo) -> None:
    """Each had asked for 4,000 tokens; the door's own count says how many were made."""

    keys = operator.get(f"keys?tenant={demo.tenant_id}")["results"]
    single = next(key["id"] for key in keys if key["name"] == "sdk single")

    def left() -> list[dict[str, object]]:
        rows = operator.get(f"usage?tenant={demo.tenant_id}&key={single}&outcome=client_left")["results"]
        return [row for row in rows if row["counted_by"] == "door"]

    rows = eventually(lambda: len(left()) >= 2 and left(), "the door has counted them")
    assert all(int(str(row["completion_tokens"])) < 2000 for row in rows)
