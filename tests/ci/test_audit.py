"""The audit of dependencies: what it lets through, and what it says when it cannot ask."""

from __future__ import annotations

import datetime
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.http_servers import LocalServer, QuietHandler, serving

ROOT = Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
assert _SPEC is not None
assert _SPEC.loader is not None
audit = importlib.util.module_from_spec(_SPEC)
sys.modules["audit"] = audit
_SPEC.loader.exec_module(audit)

# What signing in by a provider brings, down to the last one (https://pypi.org/project/django-allauth).
SOCIALACCOUNT = {
    *("oauthlib", "requests", "pyjwt", "cryptography", "cffi", "pycparser"),
    *("charset-normalizer", "idna", "urllib3", "certifi"),
}
TODAY = datetime.date(2026, 12, 1)
RULES = {
    "licences": {"allowed": ["MIT", "LGPL-3"], "refused": ["GPL", "AGPL"], "known": {"quiet": "MIT"}},
    "removed": {"pycrypto": "unmaintained"},
}


class Osv(LocalServer):
    """Knows an advisory of django."""

    def __init__(self, status: int = 200) -> None:
        self.status, self.asked = status, 0
        super().__init__(_Handler)


class _Handler(QuietHandler):
    server: Osv

    def do_POST(self) -> None:
        queries = json.loads(self.body())["queries"]
        self.server.asked += len(queries)
        results = [{"vulns": [{"id": "GHSA-1"}]} if q["package"]["name"] == "django" else {} for q in queries]
        self.answer(self.server.status, json.dumps({"results": results}).encode())


@pytest.fixture
def osv() -> Iterator[Osv]:
    with serving(Osv()) as server:
        yield server


def package(name: str, licence: str = "MIT", version: str = "1") -> Any:
    return audit.Package("PyPI", name, version, licence)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (package("fine"), ""),
        (package("fine", version="1+cpu"), ""),
        (package("quiet", ""), ""),
        (package("lesser", "LGPL-3.0-only"), ""),
        (package("unknown", ""), "licence"),
        (package("viral", "GPL-3.0-or-later"), "licence"),
        (package("both", "MIT AND AGPL-3.0"), "licence"),
        (package("pycrypto"), "was removed"),
        (package("fine", version="2"), "pins 1"),
        (package("loose", version="1"), "pins no version"),
    ],
    ids=str,
)
def test_what_is_held_against_a_package(found: Any, said: str) -> None:
    pinned = dict.fromkeys(("fine", "quiet", "lesser", "unknown", "viral", "both", "pycrypto"), "1")
    faults = list(audit.offline_faults([found], pinned, RULES))
    assert (said in " ".join(faults)) if said else faults == []


def test_what_is_needed_is_followed_but_for_what_is_closed() -> None:
    asked = ["Django>=5", "django-allauth[socialaccount]", "torch"]
    found = audit.python_packages(asked, {"torch": "its build decides"})
    assert found.keys() == {"django", "asgiref", "sqlparse", "django-allauth", "torch"} | SOCIALACCOUNT
    assert "sympy" in audit.python_packages(asked, {})
    extras = {key: ["b"] for key in audit.EXTRAS}
    platform = audit.asked_for({"dependencies": ["a"], "optional-dependencies": extras})
    assert platform == ["a", *["b"] * len(audit.EXTRAS)]


def test_a_pin_is_a_version() -> None:
    assert audit.pins("# a word\nDjango==5.2\nredis_lite==1 # why\n") == {"django": "5.2", "redis-lite": "1"}
    for loose in ("django>=5", "django", "django=="):
        with pytest.raises(ValueError, match="pins no version"):
            audit.pins(loose)
    with pytest.raises(ValueError, match="no digest"):
        list(audit.npm_packages({"packages": {"node_modules/x": {"version": "1", "license": "MIT"}}}))


def test_an_advisory_fails_by_its_name_until_it_is_accepted_and_after(osv: Osv) -> None:
    found = audit.advisories([package("django"), package("fine")], osv.url)
    assert [(p.name, advisory) for p, advisory in found] == [("django", "GHSA-1")]
    accepted = {"id": "GHSA-1", "reason": "not reached", "until": TODAY}
    assert list(audit.not_accepted(found, [], TODAY)) == ["django 1 (PyPI): GHSA-1"]
    assert list(audit.not_accepted(found, [accepted], TODAY)) == []
    (late,) = audit.not_accepted(found, [accepted], TODAY + datetime.timedelta(days=1))
    assert "GHSA-1 was accepted until 2026-12-01: not reached" in late


def run(url: str) -> tuple[int, str]:
    command = [sys.executable, ".ci/audit.py"]
    done = subprocess.run(command, cwd=ROOT, env={"AUDIT_OSV_URL": url}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_our_own_dependencies_pass_where_nobody_can_be_asked() -> None:
    code, said = run("http://127.0.0.1:9")
    assert code == 0, said
    assert "advisories were NOT checked" in said


def test_a_known_advisory_of_ours_fails(osv: Osv) -> None:
    code, said = run(osv.url)
    assert code == 1
    assert "(PyPI): GHSA-1" in said
    assert osv.asked > 300


def test_a_service_that_is_broken_is_one_that_was_not_asked() -> None:
    with serving(Osv(status=405)) as broken:
        code, said = run(broken.url)
    assert (code, "NOT checked" in said) == (0, True)
