"""No secret and no text of a tenant's comes out where it does not belong.

Every secret that goes into the house is marked, used rightly and wrongly, and then looked for: in all files of the
house (logs of every process, Redis, run files), a backup, answers, pages, metrics, traces, the audit trail, and what
the system tells of the processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from helpers.cluster import DEPLOYMENT, Cluster, Person
from helpers.collector import Collector
from helpers.patience import eventually

from .conftest import Demo

# Where secrets are kept, models lie, and PostgreSQL keeps what the backup is read for.
NOT_SINKS = ("secrets", "postgres", "node/models", "models")


@dataclass
class Canaries:
    """name -> text that must be found nowhere. ``said``: every answer, with what asked for it."""

    values: dict[str, str] = field(default_factory=dict)
    said: list[tuple[str, bytes]] = field(default_factory=list)

    def new(self, name: str) -> str:
        """Of a form that no escaping changes."""
        self.values[name] = f"canary{secrets.token_hex(12)}"
        return self.values[name]

    def heard(self, asked: str, answer: requests.Response) -> requests.Response:
        head = "".join(f"{name}: {value}\n" for name, value in answer.headers.items() if name.lower() != "set-cookie")
        self.said.append((asked, head.encode() + answer.content))
        return answer

    def found_in(self, text: bytes, *, but: tuple[str, ...] = ()) -> list[str]:
        return [name for name, value in self.values.items() if name not in but and value.encode() in text]


@pytest.fixture(scope="module")
def used(cluster: Cluster, operator: Person, demo: Demo) -> Canaries:
    """After this every secret was used, by who may and by who may not."""
    canaries = Canaries()
    _people(cluster, operator, demo, canaries)
    _inference(cluster, operator, demo, canaries)
    _machines(cluster, operator, canaries)
    for path in (cluster.home / "secrets").iterdir():
        for number, line in enumerate(path.read_text().split()):
            canaries.values[f"{path.name} {number}"] = line.rpartition(":")[2]
    return canaries


def _people(cluster: Cluster, operator: Person, demo: Demo, canaries: Canaries) -> None:
    run, base = secrets.token_hex(3), cluster.base
    made = operator.post(
        "invitations", {"tenant": demo.tenant_id, "email": f"guest-{run}@canary.test", "role": "admin"}
    )
    token = made["url"].rpartition("#")[2]
    canaries.values["invitation"] = token.rpartition(".")[2]
    http = requests.Session()
    http.get(f"{base}/api/v1/session", timeout=10)

    def send(path: str, body: Any, method: str = "POST", **headers: str) -> requests.Response:
        headers |= {"X-CSRFToken": http.cookies.get("csrftoken", ""), "Referer": base}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        return canaries.heard(path, http.request(method, base + path, data=data, headers=headers | kind, timeout=30))

    # The slug is taken: the statement fails in the database, which has a log of its own.
    operator.status("POST", "tenants", {"name": canaries.new("name in a statement that fails"), "slug": "demo"})
    password, wrong = canaries.new("password"), canaries.new("wrong password")
    send("/api/v1/invitations/accept", {"token": token, "password": "short"})
    send("/api/v1/invitations/accept", {"token": token[:-2], "name": "x", "password": password})
    send("/api/v1/invitations/accept", {"token": token, "name": ["x"], "password": password})
    send("/api/v1/invitations/accept", f'{{"token": "{token}", "password": "{password}"'.encode())
    assert send("/api/v1/invitations/accept", {"token": token, "name": "x", "password": password}).ok
    canaries.values["session"] = http.cookies["sessionid"]
    assert send("/api/v1/invitations/accept", {"token": token, "name": "x", "password": password}).status_code == 410
    send("/api/v1/me/password", {"current": wrong, "new": password})
    send("/api/v1/me/password", {"current": password, "new": [password]})
    send("/api/v1/me/password", f'{{"current": "{password}'.encode())
    factor = send("/api/v1/me/mfa", {}).json()
    canaries.said.pop()  # told once, to the one it is for
    canaries.values["second factor"] = factor["secret"]
    send("/api/v1/me/mfa/confirm", {"code": canaries.new("code")})
    send(f"/api/v1/session?password={canaries.new('password in an address')}", {})
    for body in ({"email": f"guest-{run}@canary.test", "password": wrong}, {"email": wrong, "password": [password]}):
        canaries.heard("session", requests.post(f"{base}/api/v1/session", json=body, timeout=30))
    with contextlib.suppress(WebSocketException):
        bad = {"Cookie": f"sessionid={canaries.new('a session that is none')}"}
        connect(f"ws://127.0.0.1:{cluster.port}/ws/console", origin=base, additional_headers=bad).close()  # type: ignore[arg-type]


def _inference(cluster: Cluster, operator: Person, demo: Demo, canaries: Canaries) -> None:
    made = operator.post("keys", {"tenant": demo.tenant_id, "name": "canary"})
    canaries.values["key"] = made["token"].rpartition(".")[2]
    wrong = f"{made['key']['id']}.{canaries.new('wrong key')}"
    prompt = canaries.new("prompt")
    chat = {"model": DEPLOYMENT, "messages": [{"role": "user", "content": prompt}], "max_tokens": 4, "temperature": 0}

    def ask(body: Any, token: str = made["token"], path: str = "chat/completions", **headers: str) -> requests.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"Authorization": f"Bearer {token}"} | headers
        return requests.post(f"{cluster.base}/v1/{path}", data=data, headers=head, timeout=120)

    eventually(lambda: ask(chat).status_code == 200, "the key works")
    assert ask(chat | {"stream": True, "user": canaries.new("user")}).ok
    assert ask({"model": DEPLOYMENT, "prompt": prompt, "max_tokens": 3}, path="completions").ok
    tool = {"name": "look", "description": canaries.new("tool"), "parameters": {"type": "object"}}
    wrongs: list[Any] = [
        chat | {"temperature": prompt},
        chat | {"messages": prompt},
        chat | {"messages": [{"role": "user", "content": {"text": prompt}}]},
        chat | {"messages": [{"role": prompt, "content": "x"}]},
        chat | {"response_format": {"type": prompt}},
        chat | {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": prompt}}}},
        chat | {"structured_outputs": {"regex": f"({canaries.new('regex')}"}},
        chat | {"structured_outputs": {"grammar": f"start: {canaries.new('grammar')} ["}},
        chat | {"tools": [{"type": "function", "function": tool}], "tool_choice": {"type": prompt}},
        chat | {"stop": [prompt] * 9, "logit_bias": {prompt: 1}},
        chat | {canaries.new("unknown field"): prompt},
        chat | {"max_tokens": 10**9},
        chat | {"messages": [{"role": "user", "content": prompt + " word" * 20_000}]},
        f'{{"messages": "{prompt}'.encode(),
        prompt.encode(),
        f'{{"a": "{prompt}\ud800"}}'.encode("utf-8", "surrogatepass"),
    ]
    for body in wrongs:
        ask(body)
    canaries.heard("wrong key", ask(chat, wrong))
    canaries.heard("key of a model", ask(chat | {"model": "none"}))
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    ask(chat, tracestate=f"berth={canaries.new('tracestate')}", baggage=f"x={canaries.new('baggage')}", **trace)
    canaries.heard("models", requests.get(f"{cluster.base}/v1/models?key={made['token']}", timeout=10))
    os.kill(cluster.process("gpuruntime", "serve").pid, signal.SIGKILL)
    with contextlib.suppress(requests.RequestException):
        ask(chat | {"stream": True})
    eventually(lambda: ask(chat).status_code == 200, "a door answers again", every_s=0.5)


def _machines(cluster: Cluster, operator: Person, canaries: Canaries) -> None:
    name = f"canary-{secrets.token_hex(3)}"
    token = operator.post("nodes", {"name": name})["token"]
    canaries.values["node"] = token.rpartition(".")[2]
    for given in (token, token[:-2], canaries.new("wrong node")):
        headers = {"Authorization": f"Bearer {given}", "x-berth-node": name}
        url = f"{cluster.base}/internal/models/{'a' * 64}/x"
        canaries.heard("model file", requests.get(url, headers=headers, timeout=10))
        for path in ("agent", "runtime"):
            with (
                contextlib.suppress(WebSocketException),
                connect(f"ws://127.0.0.1:{cluster.port}/ws/{path}", additional_headers=headers) as socket,
            ):
                socket.send(json.dumps({"token": given}))
    hook = f"https://hooks.invalid/{canaries.new('hook')}"
    made = operator.post("alerts/routes", {"kind": "webhook", "target": hook, "tenant": None})
    canaries.values["webhook"] = made["secret"].partition("_")[2]
    operator.status("POST", f"alerts/routes/{made['route']['id']}/test", {})
    operator.delete(f"alerts/routes/{made['route']['id']}")
    wrong = {"Authorization": f"Bearer {canaries.new('wrong door')}"}
    refused = 0
    for run in cluster.home.glob("node/run/*.json"):
        port = json.loads(run.read_text()).get("port")
        with contextlib.suppress(requests.ConnectionError):  # that of the door which was killed
            refused += requests.get(f"http://127.0.0.1:{port}/metrics", headers=wrong, timeout=10).status_code == 401
    assert refused


def test_no_file_of_the_house_holds_one(cluster: Cluster, used: Canaries) -> None:
    """Logs of all processes and of runtimes that ended, run files, what Redis wrote, the terminal."""
    looked, found = 0, []
    for path in [cluster.home.parent / "up.log", *cluster.home.rglob("*")]:
        within = str(path.relative_to(cluster.home)) if path.is_relative_to(cluster.home) else path.name
        if path.is_file() and not within.startswith(NOT_SINKS):
            looked += 1
            # The first start tells its operator the two sign-ins and the key, once, on the terminal.
            told = ("operator_password 0", "demo_password 0") if within == "up.log" else ()
            found += [(within, name) for name in used.found_in(path.read_bytes(), but=told)]
    assert looked >= 8
    assert found == []


def test_no_answer_says_one_back(used: Canaries) -> None:
    assert len(used.said) >= 15
    assert [(asked, name) for asked, text in used.said for name in used.found_in(text)] == []


def test_neither_metrics_nor_pages_nor_lists_show_one(cluster: Cluster, operator: Person, used: Canaries) -> None:
    texts = {path: operator.http.get(f"{cluster.base}{path}", timeout=20).content for path in PAGES}
    assert [(path, name) for path, text in texts.items() for name in used.found_in(text)] == []


def test_no_trace_carries_one(collector: Collector, used: Canaries) -> None:
    eventually(lambda: {span["service"] for span in collector.spans()} >= {"berth-gateway"}, "spans arrive")
    assert [name for body in collector.bodies for name in used.found_in(body)] == []


def test_the_system_tells_none_of_a_process(cluster: Cluster, used: Canaries) -> None:
    """Any user of the machine reads the command lines."""
    processes = cluster.processes()
    assert len(processes) >= 6
    for process in processes:
        with contextlib.suppress(FileNotFoundError):
            folder = Path(f"/proc/{process.pid}")
            assert used.found_in((folder / "cmdline").read_bytes()) == []
            assert used.found_in((folder / "environ").read_bytes()) == []


def test_a_backup_without_the_secrets_opens_nothing(cluster: Cluster, used: Canaries, tmp_path: Path) -> None:
    """It is the database as well: what is kept there of a secret is a digest, or sealed."""
    target = tmp_path / "house.zip"
    cluster.manage("backup", str(target))
    assert target.stat().st_mode & 0o077 == 0
    with zipfile.ZipFile(target) as archive:
        found = [(name, used.found_in(archive.read(name))) for name in archive.namelist()]
    assert [(member, names) for member, names in found if names] == []


PAGES = (
    "/metrics", "/", "/signin", "/api/v1/audit?page_size=200", "/api/v1/keys?page_size=200", "/api/v1/invitations",
    "/api/v1/members?page_size=200", "/api/v1/nodes", "/api/v1/alerts/routes", "/api/v1/settings", "/api/v1/me",
    "/api/v1/me/sessions", "/api/v1/requests?page_size=200", "/api/v1/usage?page_size=200", "/api/v1/replicas",
    "/api/v1/decisions", "/api/v1/schema",
)  # fmt: skip
