"""What a plan leaves behind when there is nothing left to plan for."""

from __future__ import annotations

import pytest

from berth.deployments.models import Deployment
from berth.fleet.models import Gpu
from helpers.factories import cut_device, make_deployment, make_node
from helpers.fleets import H100
from scheduler.planning import plan_now

pytestmark = pytest.mark.django_db
NOW = 1_800_000_000.0


def planned(deployment: Deployment) -> int:
    deployment.refresh_from_db()
    return deployment.planned_replicas


def test_replicas_are_planned_while_there_are_gpus_to_plan_on() -> None:
    deployment = make_deployment(replica_count=2)
    make_node(None, cut_device(H100, 0), cut_device(H100, 1))
    plan_now(NOW)
    assert planned(deployment) == 2
    Gpu.objects.update(present=False)
    assert plan_now(NOW + 60) is None
    assert planned(deployment) == 0


def test_of_one_that_is_stopped_nothing_stays_planned() -> None:
    deployment, other = make_deployment(), make_deployment()
    make_node(None, cut_device(H100, 0), cut_device(H100, 1))
    plan_now(NOW)
    Deployment.objects.for_platform().filter(id=deployment.id).update(desired_state="stopped")
    plan_now(NOW + 60)
    assert (planned(deployment), planned(other)) == (0, 1)
