"""Two tenants on one platform see nothing of each other: REST, /v1 and live data; a revoked key stops at once."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import openai
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from helpers.cluster import DEPLOYMENT, Cluster, Person, is_refused, messages
from helpers.patience import PATIENCE_S, eventually

from .conftest import Demo


@dataclass(frozen=True)
class Outsider:
    tenant_id: str
    key: str
    person: Person


@pytest.fixture(scope="module")
def outsider(cluster: Cluster, operator: Person) -> Outsider:
    """A second tenant with an owner and a key, and no contract."""
    tenant = operator.post("tenants", {"name": "Other", "slug": "other"})
    said = cluster.manage("create_user", "owner@other.test", "--tenant", "other", "--role", "owner")
    person = Person(cluster.base, "owner@other.test", said.split()[-1])
    made = person.post("keys", {"tenant": tenant["id"], "name": "theirs"})
    return Outsider(tenant["id"], made["token"], person)


def test_a_foreign_model_looks_like_no_model(cluster: Cluster, outsider: Outsider) -> None:
    client = cluster.client(outsider.key)
    texts = []
    for name in (DEPLOYMENT, "never-existed"):
        with pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(model=name, messages=messages("hi"))
        texts.append(str(caught.value.body["message"]).replace(name, "NAME"))  # type: ignore[index]
    assert texts[0] == texts[1]
    assert client.models.list().data == []


def test_rest_shows_nothing_of_another_tenant(demo: Demo, outsider: Outsider) -> None:
    for path in ("deployments", "keys", "usage", "replicas", "contracts"):
        assert outsider.person.get(path)["results"] == [] or path == "keys"
        foreign = outsider.person.status("GET", f"{path}?tenant={demo.tenant_id}")
        assert foreign == 404, path
    keys = outsider.person.get("keys")["results"]
    assert {key["tenant"] for key in keys} == {outsider.tenant_id}
    for path in (f"deployments/{demo.deployment_id}", f"keys/{demo.key_id}", f"tenants/{demo.tenant_id}"):
        assert outsider.person.status("GET", path) == 404, path
    assert outsider.person.status("POST", f"deployments/{demo.deployment_id}/stop", {}) == 404
    assert outsider.person.status("POST", f"keys/{demo.key_id}/revoke", {}) == 404


def refusal(url: str, origin: str, headers: dict[str, str], scope: str) -> int | None:
    """The code the socket is closed with; nothing of the scope may come before."""
    with connect(url, origin=origin, additional_headers=headers) as socket:  # type: ignore[arg-type]
        try:
            socket.send(json.dumps({"subscribe": scope}))
            while True:
                assert json.loads(socket.recv(timeout=PATIENCE_S)).get("scope") != scope
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd is not None else None


def test_live_data_stays_with_its_tenant(cluster: Cluster, demo: Demo, outsider: Outsider) -> None:
    url = f"ws://127.0.0.1:{cluster.port}/ws/console"
    headers = {"Cookie": outsider.person.cookie_header}
    assert refusal(url, cluster.base, {}, demo.tenant_id) == 4401
    assert refusal(url, cluster.base, headers, demo.tenant_id) == 4403
    assert refusal(url, cluster.base, headers, "platform") == 4403

    with connect(url, origin=cluster.base, additional_headers=headers) as socket:
        socket.send(json.dumps({"subscribe": outsider.tenant_id}))
        cluster.client(demo.key).chat.completions.create(model=DEPLOYMENT, messages=messages("hi"), max_tokens=4)
        windows = []
        while len(windows) < 3:
            message = json.loads(socket.recv(timeout=10))
            windows += [message] if message["type"] == "window" else []
        assert all(w["total"]["offered"] == 0 for w in windows)
        assert all(w["deployments"] == {} and w["replicas"] == [] for w in windows)


def test_the_operator_sees_the_stream_live(cluster: Cluster, demo: Demo, operator: Person) -> None:
    headers = {"Cookie": operator.cookie_header}
    with connect(
        f"ws://127.0.0.1:{cluster.port}/ws/console", origin=cluster.base, additional_headers=headers
    ) as socket:
        socket.send(json.dumps({"subscribe": "platform"}))
        cluster.client(demo.key).chat.completions.create(model=DEPLOYMENT, messages=messages("hi"), max_tokens=8)
        deadline = time.monotonic() + 15
        seen = 0
        while time.monotonic() < deadline and not seen:
            message = json.loads(socket.recv(timeout=10))
            seen = message["total"]["offered"] if message["type"] == "window" else 0
        assert seen == 1


def test_a_revoked_key_stops(cluster: Cluster, demo: Demo, operator: Person) -> None:
    made = operator.post("keys", {"tenant": demo.tenant_id, "name": "short lived"})
    client = cluster.client(made["token"])
    eventually(lambda: client.models.list().data, "the new key works")

    operator.post(f"keys/{made['key']['id']}/revoke")
    eventually(lambda: is_refused(client), "the key is refused", every_s=0.02)
