"""The embedded PostgreSQL and Redis: started, adopted, killed and started again with their data."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from berth.embedded.paths import Home, postgres_url, redis_url, socket_path
from berth.embedded.postgres import EmbeddedPostgres, Postgres
from berth.embedded.redis import EmbeddedRedis


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="berth-services-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_postgres_keeps_what_was_committed_through_kill_9_and_stop(home: Path) -> None:
    server = EmbeddedPostgres(home / "postgres")
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (n integer)")
            connection.execute("INSERT INTO kept VALUES (7)")
            first = server.pid
            os.kill(first, signal.SIGKILL)  # with a session open: its backend outlives the postmaster for a moment
            server.ensure_running()
        assert server.pid not in (0, first)
        server.stop()
        assert Postgres(home / "postgres").processes() == []
        assert not socket_path(home / "postgres").exists()
        again = EmbeddedPostgres(home / "postgres")
        with psycopg.connect(again.url) as connection:
            assert connection.execute("SELECT n FROM kept").fetchall() == [(7,)]
    finally:
        EmbeddedPostgres(home / "postgres").stop()


def test_a_second_handle_adopts_the_running_postgres(home: Path) -> None:
    server = EmbeddedPostgres(home / "postgres")
    try:
        assert EmbeddedPostgres(home / "postgres").pid == server.pid > 0
        assert server.url == postgres_url(home)
    finally:
        server.stop()


def test_postgres_opens_its_folder_to_nobody_else(home: Path) -> None:
    server = EmbeddedPostgres(home / "postgres")
    try:
        assert stat.S_IMODE((home / "postgres").stat().st_mode) == 0o700
        assert stat.S_IMODE(home.stat().st_mode) & 0o066 == 0  # traversed at most, never listed
        assert stat.S_IMODE(socket_path(home / "postgres").stat().st_mode) == 0o700
    finally:
        server.stop()


def test_a_pid_file_that_outlived_its_server_is_no_server(home: Path) -> None:
    (home / "postgres").mkdir()
    (home / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n/somewhere\n")
    assert Postgres(home / "postgres").postmaster() == 0


def test_redis_keeps_its_data_through_kill_9(home: Path) -> None:
    server = EmbeddedRedis(home / "redis")
    try:
        with redis.Redis.from_url(server.url) as client:
            client.xadd("stream", {"n": "7"})
            time.sleep(1.1)  # append-only, synced each second
        assert server.process is not None
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        server.ensure_running()
        with redis.Redis.from_url(server.url) as client:
            assert client.xlen("stream") == 1
        assert EmbeddedRedis(home / "redis").pid == server.pid
        assert server.url == redis_url(home)
    finally:
        server.stop()


def test_socket_paths_stay_short_below_a_deep_home(home: Path) -> None:
    deep = home / ("d" * 100) / ("e" * 100)
    for url in (postgres_url(deep), redis_url(deep)):
        assert len(url.rsplit("//", 1)[1]) < 100
    assert postgres_url(deep) != postgres_url(home)


def test_the_home_is_private_save_for_traversal(home: Path) -> None:
    layout = Home(home / "var")
    layout.create()
    layout.create()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in layout.root.iterdir()}
    assert stat.S_IMODE(layout.root.stat().st_mode) == 0o711
    assert set(modes.values()) == {0o700}
