"""A house in one file and back: the same rows, secrets and files; what cannot be done changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from berth.catalog.files import models_directory, path_of
from berth.config import CONFIG
from berth.deployments.models import Replica
from berth.deployments.services import create_replica
from berth.embedded.paths import Home
from berth.tenants.services import create_key, create_user
from helpers.factories import PASSWORD, make_deployment, make_model, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT = Path(__file__).with_name("restored_house.py")
# Equal row for row; replicas, models without files and the configuration's version are settled anew.
TABLES = [
    "tenants_tenant", "tenants_user", "tenants_apikey", "catalog_model", "deployments_deployment", "slas_contract",
    "slas_serviceclass",
]  # fmt: skip
FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 4096}


def place_files() -> tuple[str, dict[str, str]]:
    """A model's files where a registration leaves them; the digest is computed as its docstring says."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    lines = "".join(f"{name}\0{hashes[name]}\n" for name in sorted(hashes))
    digest = hashlib.sha256(lines.encode()).hexdigest()
    (models_directory() / digest).mkdir()
    for name, content in FILES.items():
        (path_of(digest) / name).write_bytes(content)
    return digest, hashes


def rows(table: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT to_jsonb(t)::text FROM {table} t")
        return sorted(row[0] for row in cursor.fetchall())


def with_wrong_count(source: Path, target: Path) -> Path:
    """Whole by every hash, but its list promises one tenant more than there is."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename == "manifest.json":
                manifest = json.loads(content)
                manifest["tables"]["tenants_tenant"]["rows"] += 1
                content = json.dumps(manifest).encode()
            new.writestr(info, content)
    return target


def test_a_house_goes_into_a_file_and_comes_back(tmp_path: Path) -> None:
    digest, hashes = place_files()
    tenant = make_tenant("acme")
    create_user(email="ann@example.com", password=PASSWORD)
    _, token = create_key(tenant=tenant, name="tab\tand\nline, ü, \\N", actor="test")
    model = make_model("small", digest=digest, files=hashes, size_bytes=sum(map(len, FILES.values())))
    replica = create_replica(deployment=make_deployment(tenant=tenant, model=model), reason="test")
    backup = tmp_path / "house.berth"
    call_command("backup", str(backup), secrets=True, models=True, stdout=StringIO(), stderr=StringIO())
    assert backup.stat().st_mode & 0o777 == 0o600
    expected = {table: rows(table) for table in TABLES}
    with pytest.raises(CommandError, match="--force replaces it"):
        call_command("backup", str(backup), stdout=StringIO(), stderr=StringIO())

    (tmp_path / "cut").write_bytes(backup.read_bytes()[:-2000])
    wrong = with_wrong_count(backup, tmp_path / "wrong")
    tmp_path.chmod(0o711)
    home = tmp_path / "home"
    arguments = [home, backup, tmp_path / "cut", wrong, token, *TABLES]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)

    assert (said["first"], said["force"]) == ("", "")
    assert said["rows"] == expected
    assert said["key_opens"]
    assert {path.name: path.read_bytes() for path in (home / "models" / digest).iterdir()} == FILES
    for secret in Home(CONFIG.home).secrets.iterdir():
        restored = Home(home).secrets / secret.name
        assert restored.read_bytes() == secret.read_bytes()
        assert restored.stat().st_mode & 0o777 == 0o600
    assert Replica.objects.for_platform().get(id=replica.id).ended_at is None, "the house that was backed up goes on"

    assert "Nothing was changed: " in said["cut"]
    assert "cut short" in said["cut"]
    assert not said["made_by_cut"]
    assert "is in use; --force replaces" in said["in_use"]
    assert "cut short" in said["cut_force"]
    assert "tenants_tenant: 1 rows instead of 2" in said["wrong_force"]
    assert "already runs" in said["running"]
    assert said["slugs_kept"] == ["acme", "later"]
    assert said["slugs_forced"] == ["acme"]
