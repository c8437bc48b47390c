"""Replicas as agents report them, and as readers see them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from berth.core.errors import Invalid
from berth.core.scoping import PLATFORM
from berth.core.secrets import replica_token
from berth.deployments import selectors
from berth.deployments.models import Deployment, Replica
from berth.deployments.services import (
    create_replica,
    drain_replica,
    end_replica,
    observe_replicas,
    scale_deployment,
    stop_deployment,
)
from berth.fleet.models import Seat
from berth.fleet.services import desired_for, reserve_seat
from berth.live import names
from gpuruntime import protocol
from helpers.factories import make_deployment, make_gpu

pytestmark = pytest.mark.django_db


@pytest.fixture
def store(redis_url: str) -> Any:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def seated(deployment: Deployment | None = None) -> Replica:
    replica = create_replica(deployment=deployment or make_deployment(), reason="wanted")
    reserve_seat(replica=replica, gpu=make_gpu(), memory_bytes=1 << 30)
    replica.refresh_from_db()
    return replica


def report(replica: Replica, state: str, **values: Any) -> list[str]:
    given: dict[str, Any] = {"alive": True, "pid": 7, "port": 4000, "epoch": "e1"}
    item = protocol.ObservedReplica(replica_id=replica.id, state=state, **{**given, **values})  # type: ignore[arg-type]
    observed = protocol.Observed(generation=1, devices=[], replicas=[item])
    changed = observe_replicas(node=replica.node, observed=observed)
    replica.refresh_from_db()
    return changed


def test_what_an_agent_says_is_kept() -> None:
    replica = seated()
    assert report(replica, "loading", port=0, progress=0.5) == [replica.id]
    assert (replica.state, replica.progress, replica.ready_at) == ("loading", 0.5, None)
    assert report(replica, "loading", port=0, progress=0.9) == []
    assert replica.progress == 0.9
    assert report(replica, "ready") == [replica.id]
    first = replica.ready_at
    assert (replica.state, replica.port, replica.pid, replica.epoch) == ("ready", 4000, 7, "e1")
    report(replica, "ready")
    assert replica.ready_at == first
    report(replica, "loading", port=0, epoch="e2", restarts=1, reason="crashed: exit 9")
    assert (replica.ready_at, replica.restarts, replica.reason) == (None, 1, "crashed: exit 9")
    report(replica, "failed", alive=False)
    assert (replica.state, replica.port) == ("failed", 0)


def test_an_agent_that_has_not_heard_of_the_drain_does_not_undo_it() -> None:
    replica = seated()
    report(replica, "ready")
    drain_replica(replica=replica, reason="scaled down")
    report(replica, "ready")
    assert (replica.state, replica.reason, replica.run) == ("draining", "scaled down", False)
    report(replica, "stopped", alive=False)
    assert replica.state == "stopped"


def test_what_ended_or_sits_elsewhere_is_left_alone() -> None:
    replica, other = seated(), seated()
    end_replica(replica=replica, state="lost", reason="its node is gone")
    assert report(replica, "ready") == []
    assert (replica.state, replica.reason) == ("lost", "its node is gone")
    observed = protocol.Observed(
        generation=1, devices=[], replicas=[protocol.ObservedReplica(replica_id=other.id, state="ready")]
    )
    assert observe_replicas(node=replica.node, observed=observed) == []


def test_an_end_is_final_and_frees_the_seat() -> None:
    replica = seated()
    end_replica(replica=replica, state="failed", reason="crashed 5 times")
    end_replica(replica=replica, state="stopped", reason="later")
    replica.refresh_from_db()
    assert (replica.state, replica.reason, replica.run) == ("failed", "crashed 5 times", False)
    assert not Seat.objects.exists()
    with pytest.raises(Invalid):
        end_replica(replica=seated(), state="ready", reason="")


def test_one_without_a_seat_ends_when_drained() -> None:
    replica = create_replica(deployment=make_deployment(), reason="")
    assert drain_replica(replica=replica, reason="not wanted any more").state == "stopped"


def test_a_runtime_is_told_the_dtypes_that_were_chosen() -> None:
    replica = seated(make_deployment(dtype="int8", kv_dtype="int8"))
    engine = desired_for(replica.node).replicas[0].engine
    assert (engine.dtype, engine.kv_dtype) == ("int8", "int8")


def test_the_desired_state_of_a_node_holds_what_a_runtime_needs() -> None:
    deployment = make_deployment(max_model_len=1024, kv_bytes=64 << 20, default_max_tokens=99)
    replica = seated(deployment)
    node = replica.node
    spec = desired_for(node).replicas[0]

    assert (spec.replica_id, spec.deployment, spec.served_model_name) == (replica.id, deployment.id, deployment.name)
    assert spec.token == replica_token(replica.id)
    assert spec.engine == protocol.EngineSettings(
        max_model_len=1024, max_num_seqs=32, kv_bytes=64 << 20, default_max_tokens=99
    )
    assert (spec.model_digest, spec.model_files) == ("d" * 64, dict(deployment.model.files))
    assert (spec.device_uuid, spec.memory_bytes, spec.run) == ("CPU-0", 1 << 30, True)
    before = desired_for(node).generation
    drain_replica(replica=replica, reason="")
    assert [s.run for s in desired_for(node).replicas] == [False]
    assert desired_for(node).generation > before
    end_replica(replica=replica, state="stopped", reason="")
    assert desired_for(node).replicas == []


def shown(replica: Replica) -> tuple[str, bool]:
    row = selectors.replicas(PLATFORM).get(id=replica.id)
    selectors.annotate_live([row])
    return row.shown_state, row.stale


def age(replica: Replica, seconds: float) -> None:
    Replica.objects.for_platform().filter(id=replica.id).update(ready_at=timezone.now() - timedelta(seconds=seconds))


def test_lost_is_computed_when_read(store: Any, settings: Any) -> None:
    replica = seated()
    assert shown(replica) == ("placing", False)
    report(replica, "ready")
    assert shown(replica) == ("ready", False)  # just now: its first word may be on the way
    age(replica, names.ALIVE_TTL_S + 1)
    assert shown(replica) == ("lost", False)
    store.set(names.alive(replica.id), "e1", ex=names.ALIVE_TTL_S)
    assert shown(replica) == ("ready", False)
    store.delete(names.alive(replica.id))

    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert shown(replica) == ("ready", True)
    assert selectors.log_lines(replica) is None
    replica.refresh_from_db()
    assert replica.state == "ready"


def test_stats_and_logs_come_from_redis(store: Any) -> None:
    replica = seated()
    store.set(names.stats(replica.id), b'{"running": 3, "queued": 1, "kv_free_blocks": 7}')
    store.rpush(names.log(replica.id), *[f"line {n}" for n in range(3)])
    row = selectors.replicas(PLATFORM).get(id=replica.id)
    selectors.annotate_live([row])
    assert row.stats["running"] == 3
    assert selectors.log_lines(row) == ["line 0", "line 1", "line 2"]
    store.set(names.stats(replica.id), b"{broken")
    selectors.annotate_live([row])
    assert row.stats is None


def summary(deployment: Deployment) -> tuple[int, int, str, str]:
    row = selectors.deployments(PLATFORM).get(id=deployment.id)
    selectors.summarize([row])
    found = row.summary
    return found.wanted, found.ready, found.state, found.reason


def test_a_deployments_state_in_a_word() -> None:
    deployment = make_deployment(replica_count=2)
    assert summary(deployment) == (2, 0, "starting", "")
    one, two = seated(deployment), create_replica(deployment=deployment, reason="needs 2 of 4 units; 1 is free")
    assert summary(deployment)[2:] == ("starting", "needs 2 of 4 units; 1 is free")
    report(one, "ready")
    assert summary(deployment) == (2, 1, "degraded", "needs 2 of 4 units; 1 is free")
    scale_deployment(deployment=deployment, replicas=1, actor="t")
    drain_replica(replica=two, reason="scaled down")
    assert summary(deployment) == (1, 1, "running", "")
    age(one, names.ALIVE_TTL_S + 1)
    assert summary(deployment) == (1, 0, "failed", selectors.LOST_REASON)
    end_replica(replica=one, state="failed", reason="crashed 5 times: out of memory")
    assert summary(deployment) == (1, 0, "failed", "crashed 5 times: out of memory")
    three = seated(deployment)
    assert summary(deployment)[2] == "starting"
    stop_deployment(deployment=deployment, actor="t")
    assert summary(deployment)[:3] == (0, 0, "stopping")
    end_replica(replica=three, state="stopped", reason="")
    assert summary(deployment) == (0, 0, "stopped", "")
