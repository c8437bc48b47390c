"""The websockets as their peers use them: a real server process, a real client, real rows."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from berth.catalog.files import path_of
from berth.core.secrets import replica_token
from berth.deployments.models import Replica
from berth.deployments.services import create_replica
from berth.fleet.models import Node
from berth.fleet.services import create_node, observe_node, reserve_seat
from berth.live import names
from berth.tenants.models import Membership, User
from berth.tenants.sessions import SessionStore
from gpuruntime import protocol
from helpers.factories import device, hello, make_deployment, make_model, make_tenant, make_user
from helpers.patience import PATIENCE_S, eventually
from helpers.web import REPOSITORY, Web, serving_web

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def web(django_db_setup: None) -> Iterator[Web]:
    with serving_web() as running:
        yield running


@pytest.fixture
def store(redis_url: str) -> Iterator[Any]:
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    yield client
    client.close()


# --- Agents -----------------------------------------------------------------------------------------------------


def agent_headers(node: Node, token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "x-berth-node": node.name}


def desired(socket: ClientConnection) -> protocol.Desired:
    return protocol.decode_desired(socket.recv(timeout=PATIENCE_S))


def test_an_agent_reports_and_hears_what_should_be(web: Web, store: Any) -> None:
    node, token = create_node(name="n-one", actor="test")
    with pytest.raises(InvalidStatus):
        web.open("/ws/agent", agent_headers(node, "wrong"))
    with web.open("/ws/agent", agent_headers(node, token)) as socket:
        socket.send(protocol.encode(hello(node.name, device(), address="10.1.2.3")))
        first = desired(socket)
        assert first.replicas == []
        node.refresh_from_db()
        assert (node.address, node.gpus.get().units) == ("10.1.2.3", 4)

        replica = create_replica(deployment=make_deployment(), reason="test")
        reserve_seat(replica=replica, gpu=node.gpus.get(), memory_bytes=1 << 30)
        changed = desired(socket)
        assert changed.generation > first.generation
        assert [(spec.replica_id, spec.token) for spec in changed.replicas] == [(replica.id, replica_token(replica.id))]

        seen = protocol.ObservedReplica(replica_id=replica.id, state="ready", alive=True, pid=7, port=4321, epoch="e1")
        report = protocol.Observed(generation=changed.generation, devices=[device()], replicas=[seen])
        socket.send(protocol.encode(report))
        row = eventually(lambda: Replica.objects.for_platform().filter(id=replica.id, state="ready").first())
        assert (row.port, row.pid, row.epoch) == (4321, 7, "e1")

        # A report of an older generation is answered with the newer one, though no message told of it.
        Node.objects.filter(id=node.id).update(generation=99)
        socket.send(protocol.encode(report))
        assert desired(socket).generation == 99

        socket.send(protocol.encode(protocol.LogLines(replica_id=replica.id, first=0, lines=["a", "b"])))
        lines = [f"line {number}" for number in range(250)]
        socket.send(protocol.encode(protocol.LogLines(replica_id=replica.id, first=2, lines=lines)))
        eventually(lambda: store.lindex(names.log(replica.id), -1) == "line 249")
        assert store.lrange(names.log(replica.id), 0, -1) == lines[-200:]

        socket.send('{"type":"hello","v":99}')
        assert close_code(socket) == 4400


def test_what_an_older_connection_of_an_agent_still_says_is_not_taken(web: Web) -> None:
    node, token = create_node(name="n-again", actor="test")
    said = hello(node.name, device())
    with web.open("/ws/agent", agent_headers(node, token)) as older:
        older.send(protocol.encode(said))
        desired(older)
        with web.open("/ws/agent", agent_headers(node, token)) as newer:
            newer.send(protocol.encode(said))
            desired(newer)
            late = protocol.Observed(generation=7, devices=[device(memory_used_bytes=111)], replicas=[])
            older.send(protocol.encode(late))
            with pytest.raises(ConnectionClosed) as closed:
                older.recv(timeout=PATIENCE_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4409
            now = protocol.Observed(generation=8, devices=[device(memory_used_bytes=222)], replicas=[])
            newer.send(protocol.encode(now))
            eventually(lambda: node.gpus.get().memory_used_bytes == 222)
            node.refresh_from_db()
            assert node.observed_generation == 8


def test_model_files_are_for_nodes(web: Web) -> None:
    node, token = create_node(name="n-two", actor="test")
    digest = "c" * 64
    make_model(digest=digest, files={"config.json": "x"})
    path_of(digest).mkdir(parents=True)
    (path_of(digest) / "config.json").write_bytes(b"0123456789")
    (path_of(digest) / "secret.txt").write_bytes(b"not listed")
    url, headers = f"/internal/models/{digest}/config.json", agent_headers(node, token)
    assert web.get(url)[0] == 401
    assert web.get(url, agent_headers(node, "wrong"))[0] == 401
    assert web.get(url, headers)[:2] == (200, b"0123456789")
    status, body, _ = web.get(url, headers | {"Range": "bytes=4-6"})
    assert (status, body) == (206, b"456")
    for path in (f"/internal/models/{digest}/secret.txt", f"/internal/models/{'e' * 64}/config.json", "/internal/x"):
        assert web.get(path, headers)[0] == 404
    for path in (f"{digest}/..%2f..%2fsecrets%2fdjango_key", "%2e%2e/django_key", "%00/config.json", f"{digest}/%00"):
        assert web.get(f"/internal/models/{path}", headers)[0] == 404, path


def test_a_body_without_end_is_refused_before_anyone_signed_in(web: Web) -> None:
    just_over = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n1\r\nx\r\n"
    for head, body in (("Transfer-Encoding: chunked", just_over), (f"Content-Length: {1 << 40}", b"")):
        with socket.create_connection(("127.0.0.1", web.port), timeout=10) as raw:
            raw.sendall(f"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n\r\n".encode() + body)
            answer = raw.recv(4096)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"application/problem+json" in answer


def test_the_process_answers_for_itself(web: Web) -> None:
    assert web.get("/healthz")[0] == 200
    status, body, _ = web.get("/readyz")
    assert (status, json.loads(body)) == (200, {"status": "ok", "database": "ok", "redis": "ok"})
    taken = subprocess.run(
        [sys.executable, "manage.py", "serve", "--port", str(web.port)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert taken.returncode == 2
    assert taken.stderr.strip().splitlines() == [
        f"berth: cannot listen: port {web.port} on 127.0.0.1 is taken by another process."
    ]


# --- Runtimes ---------------------------------------------------------------------------------------------------


def test_a_runtime_lives_works_and_accounts(web: Web, store: Any) -> None:
    headers = {"Authorization": f"Bearer {replica_token('rep_x')}", "x-berth-replica": "rep_x"}
    with pytest.raises(InvalidStatus):
        web.open("/ws/runtime", headers | {"x-berth-replica": "rep_y"})
    with web.open("/ws/runtime", headers) as socket:
        about = protocol.RuntimeHello(
            replica_id="rep_x", epoch="e7", engine="native", model="m", max_model_len=8192, max_num_seqs=8
        )
        socket.send(protocol.encode(about))
        work = protocol.Work(seconds=1.0, busy_s=0.5, executed_ideal_s=0.2, ideal_s_by_tenant={"ten_1": 0.2})
        stats = protocol.Stats(replica_id="rep_x", epoch="e7", state="ready", running=2, queued=1, work=work)
        socket.send(protocol.encode(stats))
        assert eventually(lambda: store.get(names.alive("rep_x"))) == "e7"
        assert 8 <= store.ttl(names.alive("rep_x")) <= 10
        assert json.loads(store.get(names.stats("rep_x")))["running"] == 2
        assert json.loads(store.get(names.hello("rep_x")))["max_model_len"] == 8192
        (works,) = [fields for _, fields in store.xrange(names.DELTAS_STREAM) if fields["kind"] == "work"]
        assert (works["replica"], json.loads(works["work"])["busy_s"]) == ("rep_x", 0.5)

        ended = protocol.EndedRequest(
            request_id="req_1", tenant="ten_1", deployment="dep_1", replica_id="rep_x", epoch="e7",
            outcome="completed", finish_reason="stop", prompt_tokens=3, completion_tokens=4,
        )  # fmt: skip
        socket.send(protocol.encode(protocol.Ended(replica_id="rep_x", requests=[ended])))
        assert protocol.decode_ended_ack(socket.recv(timeout=PATIENCE_S)).request_ids == ["req_1"]
        ((_, fields),) = store.xrange(names.ENDED_STREAM)
        assert json.loads(fields["request"])["completion_tokens"] == 4

        stats.replica_id = "rep_y"
        socket.send(protocol.encode(stats))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4403
    assert store.get(names.alive("rep_y")) is None


def test_work_that_cannot_be_reaches_no_window(web: Web, store: Any) -> None:
    store.delete(names.DELTAS_STREAM)
    headers = {"Authorization": f"Bearer {replica_token('rep_w')}", "x-berth-replica": "rep_w"}
    bad = [{"t" * 33: 1.0}, {"a\0b": 1.0}, {"ten_1": -1.0}, {"ten_1": 1e300}]
    with web.open("/ws/runtime", headers) as socket:
        for number, by_tenant in enumerate([*bad, {"ten_1": 0.5}]):
            work = protocol.Work(seconds=1.0, ideal_s_by_tenant=by_tenant)
            stats = protocol.Stats(replica_id="rep_w", epoch="e", state="ready", running=number, queued=0, work=work)
            socket.send(protocol.encode(stats))
        eventually(lambda: json.loads(store.get(names.stats("rep_w")) or "{}").get("running") == len(bad))
    works = [fields["work"] for _, fields in store.xrange(names.DELTAS_STREAM) if fields.get("replica") == "rep_w"]
    assert [json.loads(work)["ideal_s_by_tenant"] for work in works] == [{"ten_1": 0.5}]


def test_totals_that_cannot_be_are_left_out_of_a_report(web: Web, store: Any) -> None:
    headers = {"Authorization": f"Bearer {replica_token('rep_p')}", "x-berth-replica": "rep_p"}
    fair = protocol.Pace(8, 300, 30.0, 2400)
    bad = [protocol.Pace(0, 1, 1.0, 1), protocol.Pace(8, -1, 1.0, 1), protocol.Pace(8, 1, 1e300, 1)]
    with web.open("/ws/runtime", headers) as socket:
        for number, paces in enumerate([[fair], *[[fair, one] for one in bad], [fair] * 33]):
            stats = protocol.Stats(
                replica_id="rep_p", epoch="e", state="ready", running=number, queued=0, paces=paces
            )  # fmt: skip
            socket.send(protocol.encode(stats))
            told = eventually(lambda n=number: _told_of(store, "rep_p", n))  # type: ignore[misc]
            assert told.get("paces", []) == ([] if number else [[8, 300, 30.0, 2400]])


def _told_of(store: Any, replica: str, running: int) -> Any:
    told = json.loads(store.get(names.stats(replica)) or "{}")
    return told if told.get("running") == running else None


def test_a_node_writes_no_log_of_another_nodes_replica(web: Web, store: Any) -> None:
    node, _ = create_node(name="n-owner", actor="test")
    observe_node(node=node, seen=hello(node.name, device(uuid="CPU-owner")))
    replica = create_replica(deployment=make_deployment(), reason="test")
    reserve_seat(replica=replica, gpu=node.gpus.get(), memory_bytes=1 << 30)
    store.rpush(names.log(replica.id), "true line")
    other, token = create_node(name="n-other", actor="test")
    with web.open("/ws/agent", agent_headers(other, token)) as socket:
        for replica_id in (replica.id, "rep_\0", "rep_none"):
            forged = protocol.LogLines(replica_id=replica_id, first=0, lines=["forged"], reset=True)
            socket.send(protocol.encode(forged))
        socket.send(protocol.encode(hello(other.name, device(uuid="CPU-other"))))
        desired(socket)  # messages are taken in order
    assert store.lrange(names.log(replica.id), 0, -1) == ["true line"]
    assert store.exists(names.log("rep_none")) == 0


def test_a_replica_accounts_for_its_own_requests_and_for_what_can_be(web: Web, store: Any) -> None:
    fair = {
        "request_id": "req_1", "tenant": "ten_1", "deployment": "dep_1", "replica_id": "rep_x", "epoch": "e7",
        "outcome": "completed", "finish_reason": "stop", "prompt_tokens": 3, "completion_tokens": 4,
    }  # fmt: skip
    forged: list[dict[str, Any]] = [
        {"replica_id": "rep_y"}, {"completion_tokens": -5}, {"completion_tokens": 1 << 40}, {"duration_ms": 1e300},
        {"tenant": "t" * 33}, {"tenant": "a\0b"}, {"outcome": "free of charge"}, {"preemptions": -1},
    ]  # fmt: skip
    bad = [protocol.EndedRequest(**fair | {"request_id": f"req_bad_{n}"} | one) for n, one in enumerate(forged)]
    headers = {"Authorization": f"Bearer {replica_token('rep_x')}", "x-berth-replica": "rep_x"}
    with web.open("/ws/runtime", headers) as socket:
        every = [*bad, protocol.EndedRequest(**fair)]
        for _ in range(2):
            before = store.xlen(names.ENDED_STREAM)
            socket.send(protocol.encode(protocol.Ended(replica_id="rep_x", requests=every)))
            acknowledged = protocol.decode_ended_ack(socket.recv(timeout=PATIENCE_S)).request_ids
            assert acknowledged == [request.request_id for request in every], "the spool must let go of them"
            assert store.xlen(names.ENDED_STREAM) == before + 1
            _, fields = store.xrevrange(names.ENDED_STREAM, count=1)[0]
            assert json.loads(fields["request"])["request_id"] == "req_1"


# --- Consoles ---------------------------------------------------------------------------------------------------


def cookie(user: User) -> dict[str, str]:
    session = SessionStore()
    session[SESSION_KEY] = user.pk
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session.session_key}"}


def subscribe(socket: ClientConnection, scope: str) -> list[Any]:
    """The history; windows of what was subscribed to before may come until then."""
    socket.send(json.dumps({"subscribe": scope}))
    while (told := json.loads(socket.recv(timeout=PATIENCE_S)))["type"] != "history":
        assert told["type"] == "window"
    return list(told["windows"])


def close_code(socket: ClientConnection, timeout_s: float = 5.0) -> int:
    """Reads on until the other side closes."""

    def read_on() -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            socket.recv(timeout=timeout_s)

    with pytest.raises(ConnectionClosed) as closed:
        read_on()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def test_a_console_shows_its_own_tenant_and_no_other(web: Web) -> None:
    mine, other = make_tenant(), make_tenant()
    headers = cookie(make_user(tenant=mine))
    with web.open("/ws/console", headers, web.origin) as socket:
        subscribe(socket, mine.id)
        window = json.loads(socket.recv(timeout=PATIENCE_S))
        assert (window["type"], window["scope"], window["seconds"]) == ("window", mine.id, 1)
        assert window["total"]["offered"] == 0
        assert set(window) >= {"at", "classes", "deployments", "devices", "replicas"}
        assert subscribe(socket, mine.id)[-1]["scope"] == mine.id, "history holds what was shown"
        socket.send(json.dumps({"subscribe": other.id}))
        assert close_code(socket) == 4403
    with web.open("/ws/console", headers, web.origin) as socket:
        socket.send(json.dumps({"subscribe": "platform"}))
        assert close_code(socket) == 4403
    with web.open("/ws/console", cookie(make_user(operator=True)), web.origin) as socket:
        subscribe(socket, "platform")
        assert json.loads(socket.recv(timeout=PATIENCE_S))["scope"] == "platform"


def test_who_may_not_open_a_console(web: Web) -> None:
    headers = cookie(make_user(tenant=make_tenant()))
    for origin in ("http://evil.example", None):
        with pytest.raises(InvalidStatus):
            web.open("/ws/console", headers, origin)
    with web.open("/ws/console", None, web.origin) as socket:
        assert close_code(socket) == 4401
    with web.open("/ws/console", {"Cookie": f"{settings.SESSION_COOKIE_NAME}=made-up"}, web.origin) as socket:
        assert close_code(socket) == 4401
    with pytest.raises(InvalidStatus):
        web.open("/ws/nothing", headers, web.origin)


@pytest.mark.parametrize(
    "message",
    [
        "not json", "", "[]", '{"subscribe": 7}', '{"subscribe": "ten_\\u0000"}', '{"subscribe": "\\ud800"}',
        "[" * 200_000, '{"subscribe": "' + "x" * 100_000 + '"}', b"\xff\xfe",
    ],
    ids=["text", "empty", "list", "number", "nul", "surrogate", "deep", "long", "bytes"],
)  # fmt: skip
def test_a_message_a_console_never_sends_closes_it(web: Web, message: str | bytes) -> None:
    with web.open("/ws/console", cookie(make_user(tenant=make_tenant())), web.origin) as socket:
        socket.send(message)
        assert close_code(socket) == 4400


def test_a_console_closes_when_the_membership_or_the_session_ends(web: Web) -> None:
    tenant = make_tenant()
    user = make_user(tenant=tenant)
    with web.open("/ws/console", cookie(user), web.origin) as socket:
        subscribe(socket, tenant.id)
        Membership.objects.for_tenant(tenant.id).delete()
        assert close_code(socket, 8) == 4403
    leaver = make_user(tenant=tenant)
    with web.open("/ws/console", cookie(leaver), web.origin) as socket:
        subscribe(socket, tenant.id)
        leaver.is_active = False
        leaver.save()
        assert close_code(socket, 8) == 4401
