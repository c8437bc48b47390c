"""The reconciliation: the doors' own sums against the records', whatever is lost, repeated, late or resumed."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import redis
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.live import names
from berth.metering import doors
from berth.metering.hours import seal_hours
from berth.metering.ledger import post
from berth.metering.models import DoorCount, DoorEpoch, LooseAccount, UsageHour, UsageRecord
from berth.metering.reconcile import COUNTS, reconcile
from berth.metering.records import UsageEvent, encode
from gpuruntime.protocol import EndedRequest

AT = 1_790_000_000.0
HOUR = datetime.fromtimestamp(AT // 3600 * 3600, UTC)
STREAMS = ((names.ENDED_STREAM, "request"), (names.USAGE_STREAM, "record"))
SPAN = (HOUR - timedelta(days=1), HOUR + timedelta(days=1))


@pytest.fixture
def store(redis_url: str) -> Iterator[Any]:
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    client.flushdb()
    yield client
    client.close()


def account(request: int, number: int, **values: Any) -> EndedRequest:
    given = {
        "request_id": f"req_{request}", "tenant": "ten_1", "deployment": "dep_1", "replica_id": "rep_1", "epoch": "e1",
        "outcome": "completed", "finish_reason": "stop", "prompt_tokens": 21, "completion_tokens": 8,
        "cached_tokens": 16, "number": number, "ended_at": AT,
    }  # fmt: skip
    return EndedRequest(**given | values)


def event(request: int, **values: Any) -> UsageEvent:
    given = {
        "request_id": f"req_{request}", "tenant_id": "ten_1", "deployment_id": "dep_1", "deployment_name": "small",
        "key_id": "key_1", "at": AT - 2, "replica_id": "rep_1", "reached": True, "outcome": "completed",
        "prompt_tokens": 20, "completion_tokens": 7, "offered": True, "good": True,
    }  # fmt: skip
    return UsageEvent(**given | values)


def put(store: Any, *pieces: UsageEvent | EndedRequest) -> None:
    for piece in pieces:
        stream, name = STREAMS[isinstance(piece, UsageEvent)]
        store.xadd(stream, {name: encode(piece)})


def age(store: Any) -> None:
    """What is in the streams came three minutes ago: nobody waits for it any longer."""
    for stream, name in STREAMS:
        entries = store.xrange(stream)
        store.delete(stream)
        at = (store.time()[0] - 180) * 1000
        for number, (_, fields) in enumerate(entries):
            store.xadd(stream, {name: fields[name]}, id=f"{at}-{number + 1}")


def counts(requests: int, prompt: int, cached: int, completion: int) -> dict[str, int]:
    return dict(zip(COUNTS, (requests, prompt, cached, completion), strict=True))


def only(store: Any) -> dict[str, Any]:
    (row,) = reconcile(store, *SPAN)["rows"]
    return row


@pytest.mark.django_db(transaction=True)
def test_a_repeated_account_counts_once(store: Any) -> None:
    put(store, account(1, 1), event(1), account(1, 1))
    post(store)
    put(store, account(1, 1))  # the door was not told, and sends it again
    post(store)
    post(store)
    row = only(store)
    assert row["doors"] == row["records"] == counts(1, 21, 16, 8)
    assert (row["difference"], row["loose"], row["settled"]) == (counts(0, 0, 0, 0), counts(0, 0, 0, 0), False)
    assert DoorEpoch.objects.get().counted == 1
    assert store.xlen(names.ENDED_STREAM) == 0


@pytest.mark.django_db(transaction=True)
def test_an_account_that_waits_for_its_gateway_is_said_to_wait(store: Any) -> None:
    put(store, account(1, 1))
    assert reconcile(store, *SPAN)["rows"] == [], "nobody has counted it yet"
    post(store)
    row = only(store)
    assert (row["waiting"], row["records"]) == (counts(1, 21, 16, 8), counts(0, 0, 0, 0))
    assert (row["equal"], row["settled"]) == (True, False)
    seal_hours(HOUR + timedelta(days=1))
    assert not only(store)["settled"], "a sealed hour is not settled while something waits"
    put(store, event(1))
    post(store)
    row = only(store)
    assert (row["equal"], row["settled"]) == (True, True)
    assert row["records"] == counts(1, 21, 16, 8)


@pytest.mark.django_db(transaction=True)
def test_what_another_door_finished_is_loose_and_an_invalid_one_nobodys(store: Any) -> None:
    """The second door's account has the first one's tokens too; the first one's is not charged twice."""
    broken = account(1, 1, outcome="failed", completion_tokens=3, replica_id="rep_0", epoch="e0")
    put(store, broken, account(1, 1, replayed_tokens=3), event(1, tries=2))
    put(store, account(2, 2, outcome="invalid", prompt_tokens=5, completion_tokens=0, cached_tokens=0))
    age(store)
    post(store)
    row = only(store)
    assert row["doors"] == counts(3, 47, 32, 11)
    assert row["records"] == counts(1, 21, 16, 8)
    assert row["why_loose"] == {"elsewhere": 1, "invalid": 1}
    assert row["outcomes"] == {"completed": 1, "failed": 1, "invalid": 1}
    assert row["difference"] == counts(0, 0, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_a_door_that_took_its_account_with_it_is_listed(store: Any) -> None:
    put(store, event(1, outcome="failed"))
    age(store)
    put(store, event(2, reached=False, replica_id="", outcome="over_quota", prompt_tokens=0, completion_tokens=0))
    post(store)
    found = only(store)["gateway_only"]
    told = {(one["why"], one["outcome"]): one["completion_tokens"] for one in found}
    assert told == {("no_account", "failed"): 7, ("no_door", "over_quota"): 0}


@pytest.mark.django_db(transaction=True)
def test_an_account_after_its_record_corrects_it(store: Any) -> None:
    put(store, event(1, outcome="failed"))
    age(store)
    post(store)
    put(store, account(1, 1))
    booked = post(store)
    assert (booked.corrected, only(store)["records"]) == (1, counts(1, 21, 16, 8))
    assert only(store)["difference"] == counts(0, 0, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_a_run_that_died_before_it_let_go_is_repeated_with_what_came_since(store: Any) -> None:
    """It booked the gateway's word and died; the door's account has come since, and its piece is read again."""
    put(store, event(1, outcome="failed"))
    age(store)
    post(store)
    put(store, event(1, outcome="failed"), account(1, 1))  # as if it had never been let go
    post(store)
    row = UsageRecord.objects.for_platform().get()
    assert (row.counted_by, row.counted_as, row.completion_tokens) == ("door", "e1:1", 8)
    assert UsageHour.objects.for_platform().get().completion_tokens == 8
    assert only(store)["difference"] == counts(0, 0, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_a_record_that_is_wrong_or_missing_is_found(store: Any) -> None:
    put(store, account(1, 1), event(1), account(2, 2), event(2))
    post(store)
    seal_hours(HOUR + timedelta(days=1))
    assert reconcile(store, *SPAN)["equal"]
    UsageRecord.objects.for_platform().filter(request_id="req_1").update(completion_tokens=9)
    assert (only(store)["difference"], reconcile(store, *SPAN)["equal"]) == (counts(0, 0, 0, -1), False)
    UsageRecord.objects.for_platform().filter(request_id="req_1").delete()
    assert only(store)["difference"] == counts(1, 21, 16, 8)


@pytest.mark.django_db(transaction=True)
def test_two_that_count_at_once_count_once(store: Any) -> None:
    accounts = [account(i, i) for i in range(1, 201)]
    start = threading.Barrier(4)

    def run() -> None:
        start.wait()
        try:
            for end in range(20, 220, 20):
                doors.count(accounts[:end])
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert DoorCount.objects.get().requests == 200
    assert DoorCount.objects.get().completion_tokens == 1600


STORIES = st.lists(
    st.fixed_dictionaries(
        {
            "gateway": st.booleans(),
            "tries": st.lists(st.sampled_from(["rep_1", "rep_2"]), min_size=0, max_size=3),
            "tokens": st.integers(0, 1000),
            "hour": st.integers(0, 2),
            "invalid": st.booleans(),
        }
    ),
    max_size=8,
)


@pytest.mark.django_db(transaction=True)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stories=STORIES, cut=st.randoms(use_true_random=False))
def test_whatever_comes_when_and_how_often_the_difference_is_nothing(store: Any, stories: Any, cut: Any) -> None:
    """Accounts arrive in order at each door, repeated from any point on; runs happen in between; gateways die."""
    store.flushdb()
    for model in (DoorCount, DoorEpoch, LooseAccount):
        model.objects.all().delete()
    UsageRecord.objects.for_platform().delete()
    by_door: dict[str, list[EndedRequest]] = defaultdict(list)
    events = []
    for index, story in enumerate(stories):
        for replica in story["tries"]:
            sent = by_door[replica]
            outcome = "invalid" if story["invalid"] else "completed"
            values = {"replica_id": replica, "completion_tokens": story["tokens"], "outcome": outcome}
            sent.append(account(index, len(sent) + 1, ended_at=AT + 3600 * story["hour"], **values))
        if story["gateway"]:
            last = story["tries"][-1] if story["tries"] else ""
            events.append(event(index, replica_id=last, reached=bool(last)))
    queue: list[Any] = list(events)
    for sent in by_door.values():
        again = cut.randrange(len(sent) + 1)
        queue += [*sent[:again], *sent[cut.randrange(again + 1) :]]
    order = cut.sample(range(len(queue)), len(queue))  # across streams in any order, within a door's in its own
    placed: dict[str, list[Any]] = defaultdict(list)
    for piece in queue:
        placed[getattr(piece, "epoch", "") and piece.replica_id].append(piece)
    for position in order:
        piece = queue[position]
        put(store, placed[getattr(piece, "epoch", "") and piece.replica_id].pop(0))
        if cut.random() < 0.3:
            post(store)
    age(store)
    for _ in range(2):
        post(store)
    found = reconcile(store, *SPAN)
    total = {"requests": 0, "completion_tokens": 0}
    for sent in by_door.values():
        for one in sent:
            total["requests"] += 1
            total["completion_tokens"] += one.completion_tokens
    assert {name: found["total"]["doors"][name] for name in total} == total
    assert not any(found["total"]["waiting"].values())
    assert all(row["equal"] for row in found["rows"]), found
    taken = [row for row in UsageRecord.objects.for_platform() if row.counted_as]
    assert found["total"]["records"]["completion_tokens"] == sum(row.completion_tokens for row in taken)


def test_the_wire_takes_an_account_of_the_version_before() -> None:
    data = msgspec.json.encode(account(1, 1))
    old = {k: v for k, v in msgspec.json.decode(data).items() if k not in ("number", "ended_at")}
    decoded = msgspec.convert(old, EndedRequest)
    assert (decoded.number, decoded.ended_at) == (None, None)
