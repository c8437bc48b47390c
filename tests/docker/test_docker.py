"""The image, its entrypoint and the compose file, as far as they can be checked without an engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from berth.config import load

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKER = REPOSITORY / "docker"
ROLES = ["web", "gateway", "scheduler", "beat", "agent", "runtime", "migrate"]
RECORDER = '#!/bin/sh\nprintf \'%s\\n\' "$(basename "$0") $*" >>"$RECORD"\nenv >>"$RECORD.env"\n'


def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return parsed


def instructions() -> list[tuple[str, str]]:
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_compose_file_fits_the_schema_of_the_compose_specification() -> None:
    schema = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text()))
    assert [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(compose())] == []
    broken = compose()
    broken["services"]["web"]["depend_on"] = {}
    assert list(validator.iter_errors(broken))


def test_what_the_compose_file_names_is_there() -> None:
    file = compose()
    services = file["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name
        assert set(service.get("secrets", [])) <= set(file["secrets"]), name
        assert set(service["networks"]) <= set(file["networks"]), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DOCKER / source).exists() if source.startswith(".") else source in file["volumes"], name
        for needed, how in service.get("depends_on", {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in services[needed], name
    ours = {service["command"][0] for service in services.values() if service["image"] == "berth:local"}
    assert ours == set(ROLES) - {"runtime"}  # runtimes are the agent's


def test_every_service_but_the_one_shot_has_a_healthcheck_and_only_the_proxy_is_published() -> None:
    services = compose()["services"]
    assert {name for name, service in services.items() if "healthcheck" not in service} == {"migrate"}
    assert {name for name, service in services.items() if "ports" in service} == {"proxy"}
    assert all(port.startswith("127.0.0.1:") for port in services["proxy"]["ports"])


def test_the_agent_reaches_neither_the_database_nor_redis_nor_their_secrets() -> None:
    file = compose()
    agent, inner = file["services"]["agent"], file["services"]["postgres"]
    assert not set(agent["networks"]) & set(inner["networks"])
    assert agent["secrets"] == ["node_token"]


def test_the_platform_knows_every_variable_that_compose_and_the_image_set() -> None:
    variables = {
        name: "8080" if value.isdigit() else value
        for service in compose()["services"].values()
        for name, value in service.get("environment", {}).items()
        if name.startswith("BERTH_")
    }
    image = dict(pair.split("=", 1) for kind, text in instructions() if kind == "ENV" for pair in shlex.split(text))
    load({**variables, **{name: value for name, value in image.items() if name.startswith("BERTH_")}})


def test_what_the_dockerfile_copies_exists_and_the_image_is_not_root() -> None:
    stages = {text.split()[-1] for kind, text in instructions() if kind == "FROM"}
    for kind, text in instructions():
        if kind == "FROM":
            assert re.match(r"[\w./-]+:[\w.-]+ AS \w+$", text), text
            assert not text.startswith("scratch:latest")
        if kind == "COPY":
            *words, _ = shlex.split(text)
            origin = [word.split("=", 1)[1] for word in words if word.startswith("--from=")]
            assert set(origin) <= stages
            sources = [] if origin else [word for word in words if not word.startswith("--")]
            assert [source for source in sources if not (REPOSITORY / source).exists()] == []
    last = [text for kind, text in instructions() if kind == "USER"][-1]
    assert last not in ("root", "0")
    entry = json.loads(next(text for kind, text in instructions() if kind == "ENTRYPOINT"))
    assert entry == ["/usr/local/bin/berth-entrypoint"]
    assert (DOCKER / "entrypoint.sh").stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("script", ["entrypoint.sh", "make-secrets.sh"])
def test_the_scripts_parse(script: str) -> None:
    subprocess.run(["/bin/sh", "-n", str(DOCKER / script)], check=True)


class Entry:
    """Runs the entrypoint with recorders in place of what it would start."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "record"
        self.secrets = folder / "secrets"
        self.secrets.mkdir()
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ("python", "celery"):
            (self.programs / name).write_text(RECORDER)
            (self.programs / name).chmod(0o755)

    def run(self, *arguments: str, **environment: str) -> list[str]:
        subprocess.run(
            [str(DOCKER / "entrypoint.sh"), *arguments],
            check=True,
            env={
                "PATH": f"{self.programs}:{os.environ['PATH']}",
                "RECORD": str(self.record),
                "BERTH_SECRETS_DIR": str(self.secrets),
                "BERTH_HOME": "/var/lib/berth",
                **environment,
            },
        )
        return self.record.read_text().splitlines()

    def environment(self) -> dict[str, str]:
        lines = Path(f"{self.record}.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    return Entry(tmp_path)


@pytest.mark.parametrize(
    ("role", "starts"),
    [
        ("web", ["python manage.py serve"]),
        ("gateway", ["python manage.py serve"]),
        ("scheduler", ["celery -A berth worker -Q scheduler"]),
        ("beat", ["celery -A berth beat"]),
        ("agent", ["python -m scheduler.node --join ws://web:8000"]),
        ("runtime", ["python -m gpuruntime serve"]),
        ("migrate", ["python manage.py migrate", "python manage.py bootstrap"]),
    ],
)
def test_each_role_starts_its_process_and_passes_the_rest_on(entry: Entry, role: str, starts: list[str]) -> None:
    lines = entry.run(role, "--extra", "two words")
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)
    assert lines[-1].endswith("--extra two words")
    assert entry.environment().get("BERTH_ROLE") == (role if role in ("web", "gateway") else None)


def test_secrets_become_settings_except_for_the_agent(entry: Entry) -> None:
    (entry.secrets / "database_url").write_text("postgresql://berth:pw@postgres/berth")
    entry.run("web")
    assert entry.environment()["BERTH_DATABASE_URL"] == "postgresql://berth:pw@postgres/berth"
    entry.run("web", BERTH_DATABASE_URL="postgresql://given/berth")
    assert entry.environment()["BERTH_DATABASE_URL"] == "postgresql://given/berth"
    Path(f"{entry.record}.env").unlink()
    entry.run("agent")
    assert "BERTH_DATABASE_URL" not in entry.environment()


def test_made_secrets_are_what_the_platform_reads_and_are_made_once(tmp_path: Path) -> None:
    script = tmp_path / "make-secrets.sh"
    script.write_text((DOCKER / "make-secrets.sh").read_text())
    script.chmod(0o755)
    subprocess.run([str(script)], check=True)
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert set(made) == set(compose()["secrets"])
    assert len(bytes.fromhex(made["replica_key"])) == 32
    pepper_id, _, pepper = made["key_peppers"].partition(":")
    assert (pepper_id, len(bytes.fromhex(pepper))) == ("1", 32)
    assert made["postgres_password"] in made["database_url"]
    subprocess.run([str(script)], check=True)
    assert {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()} == made
