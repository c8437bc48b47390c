"""``make audit``: the dependencies of Python and of the console, against .ci/audit.toml.

Offline: each is pinned and is the version that is installed, its licence is allowed, none was removed. Then OSV is
asked about all of them: osv.dev knows the advisories of PyPI and npm. A service that cannot be reached leaves that
part unchecked, in words; an advisory that is not accepted fails by its name.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
SERVICE = os.environ.get("AUDIT_OSV_URL", "https://api.osv.dev")
TIMEOUT_S = 20
EXTRAS = ("cpu", "test", "tracing")


@dataclass(frozen=True)
class Package:
    """``ecosystem``: as OSV calls it. ``licence``: as its metadata say it."""

    ecosystem: str
    name: str
    version: str
    licence: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.ecosystem})"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Name -> version of a file of constraints. Raises ``ValueError`` for a line that pins nothing."""
    found = {}
    for line in text.splitlines():
        words = line.partition("#")[0].strip()
        if words:
            name, equal, version = words.partition("==")
            if not equal or not version:
                raise ValueError(f"constraints.txt: {line!r} pins no version")
            found[normal(name)] = version
    return found


def asked_for(project: Mapping[str, Any]) -> list[str]:
    """The requirements of ``pyproject.toml``: of the platform, and of the extras that are audited."""
    return [*project["dependencies"], *(text for extra in EXTRAS for text in project["optional-dependencies"][extra])]


def python_packages(asked: Sequence[str], closed: Mapping[str, str]) -> dict[str, Package]:
    """All that is needed for what is ``asked``, as it is installed here; not what only one of ``closed`` brings."""
    found: dict[str, Package] = {}
    waiting = [Requirement(text) for text in asked]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = normal(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        distribution = importlib.metadata.distribution(name)
        found[name] = Package("PyPI", name, distribution.version, licence_of(distribution.metadata))
        environments = [{"extra": extra} for extra in (extras or {""})]
        for needed in map(Requirement, [] if name in closed else distribution.requires or []):
            if needed.marker is None or any(needed.marker.evaluate(e) for e in environments):
                waiting.append(needed)
    return found


def licence_of(metadata: Any) -> str:
    classifiers = [text for text in metadata.get_all("Classifier") or [] if text.startswith("License ::")]
    first_line = (metadata.get("License") or "").strip().partition("\n")[0]
    return metadata.get("License-Expression") or "; ".join([*classifiers, first_line]).strip("; ")


def npm_packages(lock: Mapping[str, Any]) -> Iterator[Package]:
    """Raises ``ValueError`` for one without a digest."""
    for path, entry in lock["packages"].items():
        if path:
            if not entry.get("integrity"):
                raise ValueError(f"package-lock.json: {path} has no digest")
            yield Package("npm", path.rpartition("node_modules/")[2], entry["version"], str(entry.get("license", "")))


def offline_faults(packages: Sequence[Package], pinned: Mapping[str, str], rules: Mapping[str, Any]) -> Iterator[str]:
    licences = rules["licences"]
    allowed = re.compile("|".join(map(re.escape, licences["allowed"])))
    refused = re.compile(r"(?<![A-Za-z])(" + "|".join(map(re.escape, licences["refused"])) + ")")
    for package in packages:
        if package.name in rules["removed"]:
            yield f"{package}: was removed: {rules['removed'][package.name]}"
        pin = pinned.get(package.name)
        if package.ecosystem == "PyPI" and pin != package.version.partition("+")[0]:  # "+cpu" names a build
            yield f"{package}: constraints.txt pins {pin or 'no version of it'}"
        licence = package.licence or licences["known"].get(package.name, "")
        if not allowed.search(licence) or refused.search(licence):
            yield f"{package}: the licence {licence[:80]!r} is not among the allowed ones"


def advisories(packages: Sequence[Package], service: str) -> list[tuple[Package, str]]:
    """Raises ``requests.RequestException`` and ``ValueError`` where the service cannot be asked."""
    queries = [{"package": {"name": p.name, "ecosystem": p.ecosystem}, "version": p.version} for p in packages]
    answer = requests.post(f"{service}/v1/querybatch", json={"queries": queries}, timeout=TIMEOUT_S)
    answer.raise_for_status()
    results = answer.json()["results"]
    if len(results) != len(packages):
        raise ValueError("it answered another number of questions")
    found = zip(packages, results, strict=True)
    return [(package, vuln["id"]) for package, result in found for vuln in result.get("vulns", [])]


def not_accepted(
    found: Sequence[tuple[Package, str]], accepted: Sequence[Mapping[str, Any]], today: datetime.date
) -> Iterator[str]:
    known = {entry["id"]: entry for entry in accepted}
    for package, advisory in found:
        entry = known.get(advisory)
        if entry is None:
            yield f"{package}: {advisory}"
        elif entry["until"] < today:
            yield f"{package}: {advisory} was accepted until {entry['until']}: {entry['reason']}"


def main() -> int:
    rules = tomllib.loads((ROOT / ".ci" / "audit.toml").read_text())
    lock = json.loads((ROOT / "frontend" / "package-lock.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = [*python_packages(asked_for(project), rules["closed"]).values(), *npm_packages(lock)]
    faults = list(offline_faults(packages, pins((ROOT / "constraints.txt").read_text()), rules))
    try:
        found = advisories(packages, SERVICE)
    except (requests.RequestException, ValueError, KeyError, TypeError) as error:
        print(f"audit: advisories were NOT checked: {SERVICE} cannot be asked ({type(error).__name__})")
    else:
        faults += not_accepted(found, rules.get("accepted", []), datetime.datetime.now(tz=datetime.UTC).date())
        print(f"audit: advisories of {len(packages)} packages checked, {len(found)} known")
    for fault in faults:
        print(f"audit: {fault}", file=sys.stderr)
    print(f"audit: {len(packages)} packages pinned, licensed and looked through; {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
