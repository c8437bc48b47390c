"""The command line: held against the schema, and tried over real HTTP against a stand-in that answers as Berth."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from click.testing import CliRunner, Result

from berth.cli import operations
from berth.cli.chat import Answer, summary
from berth.cli.credentials import Credentials, config_file, load, save
from berth.cli.logs import new_lines
from berth.cli.main import berth
from berth.cli.operations import Operation
from berth.cli.terminal import ago
from helpers.http_servers import LocalServer, QuietHandler, serving

ROOT = Path(__file__).resolve().parents[3]
ALL = [value for value in vars(operations).values() if isinstance(value, Operation)]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


# --- the schema -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    text = (ROOT / "platform" / "berth" / "api" / "schema.yaml").read_text()
    loaded: dict[str, Any] = yaml.load(text, Loader=LOADER)
    return loaded


def resolved(schema: dict[str, Any], node: Any) -> Any:
    while "$ref" in node or "allOf" in node:
        if "allOf" in node:
            node = node["allOf"][0]
            continue
        node = schema["components"]["schemas"][node["$ref"].split("/")[-1]]
    return node


def properties(schema: dict[str, Any], node: Any) -> dict[str, Any]:
    node = resolved(schema, node)
    if "oneOf" in node:
        node = resolved(schema, node["oneOf"][0])
    if node.get("type") == "array":
        node = resolved(schema, node["items"])
    found: dict[str, Any] = node.get("properties", {})
    return found


@pytest.mark.parametrize("operation", ALL, ids=lambda one: f"{one.method} {one.path}")
def test_every_call_and_every_field_is_the_schemas(schema: dict[str, Any], operation: Operation) -> None:
    described = schema["paths"][f"/api/v1/{operation.path}"][operation.method.lower()]
    parameters = {one["name"] for one in described.get("parameters", []) if one["in"] == "query"}
    assert set(operation.query) <= parameters
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    assert set(operation.body) <= set(properties(schema, body) if body else {})
    answers = [answer for status, answer in described["responses"].items() if status.startswith("2")]
    if not operation.shows:
        return
    shown = answers[0]["content"]["application/json"]["schema"]
    if operation.listed:
        shown = properties(schema, shown)["results"]
    for path in operation.shows:
        node = shown
        for name in path.split("."):
            fields = properties(schema, node)
            assert name in fields, (operation.path, path)
            node = fields[name]


# --- a stand-in -------------------------------------------------------------------------------------------------

ME = {
    "user": {"id": "usr_1", "email": "ada@example.com", "name": "Ada", "is_operator": False},
    "is_operator": False,
    "memberships": [{"tenant": {"id": "ten_1", "name": "Acme", "slug": "acme"}, "role": "developer"}],
}
CHAT = {
    "id": "dep_1",
    "name": "chat",
    "tenant": {"id": "ten_1", "slug": "acme", "name": "Acme"},
    "model": {"id": "mdl_1", "name": "smol"},
    "service_class": {"id": "cls_1", "name": "chat"},
    "state": {"state": "running", "ready": 1, "wanted": 1, "reason": "", "stale": False},
    "replica_count": 2,
    "desired_state": "stopped",
    "engine": "native",
    "dtype": "bf16",
    "kv_dtype": "auto",
    "max_model_len": None,
    "max_num_seqs": 32,
    "updated_at": "2026-01-01T00:00:00Z",
}
MADE = "2026-01-01T00:00:00Z"
TOKENS = ["Par", "is", "."]


class StandIn(LocalServer):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, Any], dict[str, str]]] = []
        self.mfa = False
        self.lines = ["one", "two"]
        self.differs = {"requests": 0, "completion_tokens": 0}
        super().__init__(_Handler)

    def asked(self, method: str, path: str) -> dict[str, Any]:
        """The body or query of the last such call."""
        return [data for m, p, data, _ in self.seen if (m, p) == (method, path)][-1]

    def answer(self, method: str, path: str, data: dict[str, Any]) -> Any:
        page = {"next": None, "previous": None}
        replica = {"id": "rep_1", "state": "ready", "reason": "", "node": "n1"}
        never = {"expires_at": None, "revoked_at": None, "last_used_at": None, "previous_until": None}
        key = {"id": "key_1", "name": "ci", "hint": "abcd", "scopes": ["inference"], "created_at": MADE, **never}
        sums = {"requests": 3, "offered": 3, "good": 2, "prompt_tokens": 1000, "cached_tokens": 0,
                "completion_tokens": 50, "good_tokens": 40, "cost": "0.0012"}  # fmt: skip
        named = {"tenant_name": "Acme", "deployment_name": "chat", "class": "paid", "key_name": "ci"}
        counted = {"requests": 3, "prompt_tokens": 1000, "cached_tokens": 0, "completion_tokens": 50}
        return {
            ("GET", "session"): {"user": None},
            ("POST", "session"): ME,
            ("GET", "me"): ME,
            ("GET", "tenants"): {**page, "results": [ME["memberships"][0]["tenant"]]},
            ("GET", "deployments"): {**page, "results": [] if data.get("name") == ["none"] else [CHAT]},
            ("GET", "deployments/dep_1"): CHAT,
            ("POST", "deployments"): CHAT,
            ("POST", "deployments/dep_1/scale"): CHAT,
            ("POST", "deployments/dep_1/stop"): CHAT,
            ("GET", "keys"): {**page, "results": [key]},
            ("POST", "keys"): {"key": key, "token": "key_1.secret"},
            ("POST", "keys/key_1/revoke"): {**key, "revoked_at": "2026-01-01T00:00:00Z"},
            ("POST", "keys/key_1/rotate"): {"key": key, "token": "key_1.another"},
            ("POST", "keys/playground"): {"token": "key_p.s", "expires_at": "2026-01-01T00:00:00Z"},
            ("GET", "replicas"): {**page, "results": [replica]},
            ("GET", "replicas/rep_1/logs"): {"lines": self.lines, "stale": False},
            ("GET", "usage/summary"): {
                "groups": ["day"], "truncated": False, "currency": "USD", "total": sums,
                "rows": [{**sums, "key": "d", "label": "2026-01-01", "by": []}],
            },
            ("GET", "usage/chargeback"): {
                "from": MADE, "to": MADE, "by": "key", "sealed": True, "currency": "USD", "total": sums,
                "lines": [
                    {**sums, **named, "kind": "sealed", "hour": None, "written_at": None},
                    {**sums, **named, "kind": "correction", "hour": MADE, "written_at": MADE},
                ],
            },
            ("GET", "usage/chargeback.csv"): "kind,cost",
            ("GET", "usage/reconciliation"): {
                "equal": not any(self.differs.values()), "open_requests": 2, "rows": [{
                    "hour": MADE, "deployment": "dep_1", "deployment_name": "chat", "settled": True,
                    "difference": self.differs, **dict.fromkeys(("doors", "records", "loose", "waiting"), counted),
                }],
            },
        }.get((method, path))  # fmt: skip


class _Handler(QuietHandler):
    server: StandIn
    protocol_version = "HTTP/1.1"

    def _any(self) -> None:
        parts = urlsplit(self.path)
        body = self.body()
        data: dict[str, Any] = json.loads(body) if body else parse_qs(parts.query)
        path = parts.path.removeprefix("/api/v1/")
        headers = self.lower_headers()
        self.server.seen.append((self.command, path, data, headers))
        if path == "/v1/chat/completions":
            self._stream(data)
            return
        if headers.get("authorization") == "Bearer wrong":
            self._send(401, {"detail": "The key is not valid", "code": "authentication_failed"})
        elif (self.command, path) == ("POST", "session") and self.server.mfa and not data.get("code"):
            self._send(401, {"detail": "A code is needed", "code": "mfa_required"})
        elif (answer := self.server.answer(self.command, path, data)) is None:
            self._send(404, {"detail": "Not found", "code": "not_found"})
        else:
            cookie = "sessionid=s1; Path=/" if (self.command, path) == ("POST", "session") else "csrftoken=c1; Path=/"
            self._send(200, answer, cookie)

    do_GET = do_POST = _any

    def _send(self, status: int, answer: Any, cookie: str = "") -> None:
        self.answer(status, json.dumps(answer).encode(), set_cookie=cookie)

    def _stream(self, data: dict[str, Any]) -> None:
        if data["model"] == "none":
            error = {
                "message": "The model 'none' does not exist.",
                "type": "x",
                "param": "model",
                "code": "model_not_found",
            }
            self._send(404, {"error": error})
            return
        verdict = {"request_id": "req_1", "good": False, "reason": "decode", "ttft_ms": 112.4, "ttft_limit_ms": 1000.0,
                   "tpot_ms": 24.04, "tokens": 3}  # fmt: skip
        events = [
            f'data: {{"choices":[{{"index":0,"delta":{{"content":{json.dumps(text)}}}}}]}}\n\n' for text in TOKENS
        ]
        events += [f"event: berth.verdict\ndata: {json.dumps(verdict)}\n\n", "data: [DONE]\n\n"]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write("".join(events).encode())
        self.close_connection = True


@pytest.fixture
def house() -> Iterator[StandIn]:
    with serving(StandIn()) as server:
        yield server


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("URL", "KEY", "API_KEY", "TENANT"):
        monkeypatch.delenv(f"BERTH_CLI_{name}", raising=False)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def signed_in(house: StandIn, environ: dict[str, str]) -> StandIn:
    save(Credentials(house.url, key="key_m.secret"), environ)
    return house


def run(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(berth, arguments, input=given)


def worked(*arguments: str, given: str = "") -> str:
    result = run(*arguments, given=given)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


# --- signing in -------------------------------------------------------------------------------------------------


def test_a_key_is_checked_and_kept_for_its_owner_alone(house: StandIn, environ: dict[str, str]) -> None:
    assert "Signed in" in worked("login", "--url", house.url + "/", given="key_m.secret\n")
    path = config_file(environ)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(environ) == Credentials(house.url, key="key_m.secret", cookies={"csrftoken": "c1"})
    assert house.seen[-1][3]["authorization"] == "Bearer key_m.secret"
    assert "the key key_m of acme" in worked("whoami")
    worked("logout")
    assert not path.exists()


def test_a_wrong_key_is_not_kept(house: StandIn, environ: dict[str, str]) -> None:
    result = run("login", "--url", house.url, given="wrong\n")
    assert result.exit_code == 1
    assert "The key is not valid" in result.stderr
    assert not config_file(environ).exists()


def test_a_person_signs_in_with_a_second_factor(house: StandIn, environ: dict[str, str]) -> None:
    house.mfa = True
    worked("login", "--url", house.url, "--email", "ada@example.com", given="password\n123456\n")
    assert house.asked("POST", "session") == {"email": "ada@example.com", "password": "password", "code": "123456"}
    assert "ada@example.com: acme (developer)" in worked("whoami")
    assert load(environ).cookies == {"sessionid": "s1", "csrftoken": "c1"}
    worked("deployments", "stop", "chat")
    assert house.seen[-1][3]["x-csrftoken"] == "c1"
    assert "sessionid=s1" in house.seen[-1][3]["cookie"]


def test_a_stored_key_goes_to_no_other_address(signed_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_CLI_URL", "http://127.0.0.1:9")
    assert load(dict(os.environ)).key == ""
    result = run("whoami")
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr
    assert "Is Berth running there?" in result.stderr


# --- the rest ---------------------------------------------------------------------------------------------------


def test_deployments(signed_in: StandIn) -> None:
    listed = worked("deployments", "list")
    assert all(word in listed for word in ("chat", "running", "1/1", "smol", "acme"))
    assert "rep_1" in worked("deployments", "show", "chat")
    assert json.loads(worked("--json", "deployments", "list"))[0]["id"] == "dep_1"
    assert "should have 2 replicas" in worked("deployments", "scale", "chat", "2")
    assert signed_in.asked("POST", "deployments/dep_1/scale") == {"replicas": 2}
    worked("deployments", "create", "new", "--model", "smol")
    assert signed_in.asked("POST", "deployments") == {
        "tenant": "ten_1", "name": "new", "model": "smol", "service_class": "chat", "replica_count": 1,
    }  # fmt: skip
    result = run("deployments", "show", "none")
    assert (result.exit_code, "There is no deployment 'none'" in result.stderr) == (1, True)


def test_keys(signed_in: StandIn) -> None:
    assert "abcd" in worked("keys", "list")
    assert signed_in.asked("GET", "keys")["revoked"] == ["false"]
    made = worked("keys", "create", "ci", "--days", "30", "--scope", "inference", "--deployment", "chat")
    assert made == "key_1.secret\n"  # alone, so that a script can take it
    body = signed_in.asked("POST", "keys")
    assert (body["scopes"], body["deployments"], body["tenant"]) == (["inference"], ["dep_1"], "ten_1")
    assert not {name for name in body if "_per_" in name or name == "max_concurrency"}  # what is not said is no limit
    limits = {
        "requests_per_minute": 60, "tokens_per_minute": 9000, "max_concurrency": 4, "tokens_per_day": 10**6,
        "tokens_per_month": 10**7, "cost_per_day": "1.1", "cost_per_month": "20.0001",
    }  # fmt: skip
    worked(
        "keys",
        "create",
        "ci",
        *(part for name, value in limits.items() for part in (f"--{name.replace('_', '-')}", str(value))),
    )
    body = signed_in.seen[-1][2]
    assert {name: body[name] for name in limits} == limits
    for amount in ("0", "-1", "nan", "a lot"):
        assert run("keys", "create", "ci", "--cost-per-day", amount).exit_code == 2
    assert worked("keys", "rotate", "key_1", "--grace", "60") == "key_1.another\n"
    assert signed_in.asked("POST", "keys/key_1/rotate") == {"grace_seconds": 60}
    assert run("keys", "revoke", "key_1", given="n\n").exit_code == 1
    assert "is revoked" in worked("keys", "revoke", "key_1", "--yes")


def test_usage_and_logs(signed_in: StandIn) -> None:
    shown = worked("usage", "--by", "deployment", "--days", "3")
    assert all(word in shown for word in ("2026-01-01", "66.7%", "1,000", "0.0012 USD"))
    assert signed_in.asked("GET", "usage/summary")["group"] == ["deployment"]
    assert worked("logs", "chat", "-n", "1") == "two\n"


def test_chargeback(signed_in: StandIn) -> None:
    shown = worked("usage", "chargeback", "--month", "2026-01", "--deployment", "chat")
    assert all(word in shown for word in ("sealed", "correction of 2026-01-01T00:00Z", "Acme", "ci", "66.7%"))
    assert "All: 3 requests, 0.0012 USD; sealed" in shown
    asked = signed_in.asked("GET", "usage/chargeback")
    assert asked == {"month": ["2026-01"], "by": ["key"], "deployment": ["dep_1"]}
    assert "kind,cost" in worked("usage", "chargeback", "--csv", "--by", "member")
    assert json.loads(worked("--json", "usage", "chargeback"))["sealed"] is True


def test_reconcile_ends_with_1_when_a_settled_hour_differs(signed_in: StandIn) -> None:
    shown = worked("usage", "reconcile")
    assert "2 requests are open." in shown
    signed_in.differs = {"requests": 0, "completion_tokens": -3}
    differs = run("usage", "reconcile", "--from", "2026-01-01T00:00Z")
    assert differs.exit_code == 1
    assert "-3 completion tokens" in differs.stdout
    assert "A settled hour differs" in differs.stderr


def test_one_answer_with_its_verdict(signed_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("chat", "chat", "Capital of France?", "--temperature", "0")
    assert result.stdout.strip() == "Paris."
    assert "TTFT 112 ms of 1000 · TPOT 24.0 ms · 3 tokens · not good: tokens came too slowly" in result.stderr
    body = signed_in.asked("POST", "/v1/chat/completions")
    assert (body["temperature"], body["stream"]) == (0, True)
    assert signed_in.seen[-1][3]["authorization"] == "Bearer key_p.s"
    monkeypatch.setenv("BERTH_CLI_API_KEY", "key_own.s")
    answer = json.loads(worked("--json", "chat", "chat", given="from a pipe"))
    assert answer["text"] == "Paris."
    assert answer["verdict"]["request_id"] == "req_1"
    assert signed_in.seen[-1][3]["authorization"] == "Bearer key_own.s"
    assert "does not exist" in run("chat", "none", "Hello").stderr


def test_without_a_sign_in_it_says_what_to_do(house: StandIn, environ: dict[str, str]) -> None:
    save(Credentials(house.url, key="wrong"), environ)
    assert "berth login" in run("deployments", "list").stderr


# --- parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "fresh"),
    [
        ([], ["a"], ["a"]),
        (["a", "b"], ["a", "b"], []),
        (["a", "b"], ["a", "b", "c"], ["c"]),
        (["a", "b"], ["b", "c"], ["c"]),
        (["a", "a"], ["a", "a", "a"], ["a"]),
        (["a", "b"], ["x", "y"], ["x", "y"]),
    ],
)
def test_what_is_new_in_a_log(old: list[str], new: list[str], fresh: list[str]) -> None:
    assert new_lines(old, new) == fresh


def test_a_summary_without_a_verdict_says_what_was_seen() -> None:
    assert summary(Answer("x", 0.05, 0.02, {})) == "TTFT 50 ms · TPOT 20.0 ms"


def test_times_as_people_say_them() -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime(2026, 1, 2, tzinfo=UTC)
    texts = [ago((now - timedelta(seconds=s)).isoformat(), now) for s in (0, 120, 7200, 200_000, -7200)]
    assert texts == ["just now", "2 min ago", "2 h ago", "2 d ago", "in 2 h"]


def test_it_starts_without_django() -> None:
    program = (
        "import sys; sys.path[:0] = ['platform']; import berth.cli.main;"
        "print([n for n in sys.modules if n.split('.')[0] in ('django', 'rich', 'celery') or n == 'berth.config'])"
    )
    run_ = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run_.stdout.strip() == "[]"
