"""Every test run has its own PostgreSQL, Redis and BERTH_HOME, started before Django reads its settings."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

# A busy machine makes an example slow without making it wrong; pytest-timeout still ends one that hangs.
hypothesis_settings.register_profile("berth", deadline=None)
hypothesis_settings.load_profile("berth")

collect_ignore = ["sdk"]  # a suite of its own, which tests/e2e/test_sdk.py runs
_services: list[object] = []


def pytest_configure(config: pytest.Config) -> None:
    """Runs before pytest-django sets Django up, so the settings see these services."""
    for variable in [name for name in os.environ if name.startswith("BERTH_")]:
        del os.environ[variable]
    home = Path(tempfile.mkdtemp(prefix="berth-test-"))
    home.chmod(0o711)
    os.environ["BERTH_HOME"] = str(home)
    os.environ["DJANGO_SETTINGS_MODULE"] = "berth.settings"

    from berth.embedded.postgres import EmbeddedPostgres
    from berth.embedded.redis import EmbeddedRedis

    postgres = EmbeddedPostgres(home / "postgres")
    redis = EmbeddedRedis(home / "redis", append_only=False)
    _services.extend([redis, postgres])
    os.environ["BERTH_DATABASE_URL"] = postgres.url
    os.environ["BERTH_REDIS_URL"] = redis.url

    from django.conf import settings

    assert settings.DATABASES
    _hash_passwords_cheaply()
    _flush_beside_readers()


def _hash_passwords_cheaply() -> None:
    """The same algorithm with the least work: at its real cost one hash takes longer than most tests."""
    from django.contrib.auth.hashers import Argon2PasswordHasher

    Argon2PasswordHasher.time_cost = 1
    Argon2PasswordHasher.memory_cost = 8
    Argon2PasswordHasher.parallelism = 1


def _flush_beside_readers() -> None:
    """A server that a test started reads while tables are emptied: where each waits for the other, one gives way."""
    from django.core.management import CommandError
    from django.db import OperationalError
    from django.test import TransactionTestCase

    empty = TransactionTestCase._fixture_teardown

    def empty_at_last(self: TransactionTestCase) -> None:
        for _ in range(9):
            try:
                return empty(self)
            except CommandError as error:
                if not isinstance(error.__cause__, OperationalError):
                    raise
        return empty(self)

    TransactionTestCase._fixture_teardown = empty_at_last  # type: ignore[method-assign]


def pytest_unconfigure(config: pytest.Config) -> None:
    for service in _services:
        service.stop()  # type: ignore[attr-defined]
    _services.clear()
    shutil.rmtree(os.environ["BERTH_HOME"], ignore_errors=True)


@pytest.fixture
def redis_url() -> str:
    """The run's Redis; tests use keys of their own or flush it."""
    return os.environ["BERTH_REDIS_URL"]


@pytest.fixture(autouse=True)
def options_from_the_database() -> None:
    """A test's options end with it: what memory holds was rolled back."""
    import sys

    if "berth.options.selectors" in sys.modules:
        sys.modules["berth.options.selectors"].MEMORY.forget()
