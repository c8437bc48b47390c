"""What tests of the tick share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from berth.live import names


@pytest.fixture
def liveness(redis_url: str) -> Iterator[redis.Redis]:
    """Redis, where nothing is remembered of whom another test's ticks missed."""
    client = redis.Redis.from_url(redis_url)
    client.delete(names.WATCH)
    yield client
    client.delete(names.WATCH)
    client.close()
