"""A command without PostgreSQL or Redis: one sentence that says which is away and how it is started, and status 1."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import IntegrityError, OperationalError, ProgrammingError, connection, transaction
from kombu.exceptions import OperationalError as BrokerError
from psycopg_pool import PoolTimeout

from berth.config import CONFIG
from berth.management import services_away
from berth.management.services_away import explained, in_words

MANAGE = Path(__file__).parents[3] / "manage.py"
NOWHERE = "postgresql://me:pass-word@127.0.0.1:9/x"


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Sets whose services are named; without a name the house's own, which do not run."""

    def names(database: str = "", redis_url: str = "") -> None:
        config = replace(CONFIG, home=tmp_path, database_url=database, redis_url=redis_url)
        monkeypatch.setattr(services_away, "CONFIG", config)
        monkeypatch.setattr(settings, "REDIS_URL", redis_url or f"unix://{tmp_path}/redis.sock")

    return names


def manage(home: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    return subprocess.run(
        [sys.executable, str(MANAGE), *arguments],
        env={**kept, "BERTH_HOME": str(home), **environ},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_command_without_a_database_says_so_in_a_sentence(tmp_path: Path) -> None:
    done = manage(tmp_path, "create_operator", "a@example.com")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"berth: the PostgreSQL of this house (BERTH_HOME={tmp_path}) does not run.")
    assert "manage.py up" in last
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("error", [OperationalError("no"), PoolTimeout("no"), psycopg.OperationalError("no")])
def test_each_error_of_a_database_that_is_away(house: Callable[..., None], error: Exception) -> None:
    house()
    assert "manage.py up" in explained(error)
    house(NOWHERE)
    said = explained(error)
    assert "BERTH_DATABASE_URL" in said
    assert "Connection refused" in said
    assert "pass-word" not in said
    assert "\n" not in said


@pytest.mark.parametrize("error", [redis.ConnectionError("no"), redis.TimeoutError("no"), BrokerError("no")])
def test_each_error_of_a_redis_that_is_away(house: Callable[..., None], error: Exception) -> None:
    house()
    assert explained(error).startswith("the Redis of this house")
    house(redis_url="redis://127.0.0.1:9/0")
    assert "BERTH_REDIS_URL" in explained(error)


def test_what_no_service_that_is_away_explains_is_not_explained(redis_url: str) -> None:
    """The tests' own services answer: then it is a fault of ours."""
    for error in (OperationalError("deadlock"), IntegrityError("twice"), redis.ResponseError("no"), KeyError("x")):
        assert explained(error) == ""
    assert in_words(OperationalError(" deadlock\n")) == "deadlock"


@pytest.mark.django_db
def test_a_database_of_another_version_is_told_apart() -> None:
    with pytest.raises(ProgrammingError) as raised, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM no_such_table")
    assert "manage.py migrate" in explained(raised.value)
    with pytest.raises(ProgrammingError) as raised, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELEC 1")
    assert explained(raised.value) == ""
