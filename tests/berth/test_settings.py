"""What the settings promise a person who waits."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError
from django.db.utils import ConnectionHandler


@pytest.mark.django_db
def test_a_database_that_is_gone_is_told_long_before_the_pools_own_half_minute(tmp_path: Path) -> None:
    gone = settings.DATABASES["default"] | {"HOST": str(tmp_path), "PORT": "1", "NAME": "nowhere"}
    connection = ConnectionHandler({"default": {}, "gone": gone})["gone"]  # pools are kept by alias
    started = time.monotonic()
    with pytest.raises(OperationalError):
        connection.ensure_connection()
    assert time.monotonic() - started < 20
    connection.close_pool()
