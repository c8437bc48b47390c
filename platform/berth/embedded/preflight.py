"""What must hold before anything is started. Each failure is one line that names the value and the way out."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import psycopg
import redis

from berth.embedded.house import House

NEEDED_BYTES = 1 << 30  # the database, the logs, and one small model converted


class CannotStart(RuntimeError):
    """Nothing was started; the text says why and what to do."""


def check_port(host: str, port: int) -> None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise CannotStart(f"--host {host}: {error.strerror}") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            way_out = "choose another: manage.py up --port 8001, or BERTH_PORT=8001 make run"
            raise CannotStart(f"port {port} on {host} cannot be used ({error.strerror}); {way_out}") from None


def check_disk(folder: Path, needed: int = NEEDED_BYTES) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise CannotStart(
            f"{folder} has {free >> 20} MiB free and Berth needs {needed >> 20} MiB there; "
            "free some, or set BERTH_HOME to a folder on another disk"
        )


def check_given_services(database_url: str, redis_url: str, timeout_s: float = 5.0) -> None:
    """Whether the services that the settings name answer; empty URLs mean the embedded ones, which are not up yet."""
    if database_url and (why := why_no_database(database_url, timeout_s)):
        raise CannotStart(f"the database of BERTH_DATABASE_URL does not answer: {why}")
    if redis_url and (why := why_no_redis(redis_url, timeout_s)):
        raise CannotStart(f"the Redis of BERTH_REDIS_URL does not answer: {why}")


def why_no_database(url: str, timeout_s: float = 5.0) -> str:
    """Why nobody can connect there, on one line; empty when PostgreSQL answers."""
    try:
        psycopg.connect(url, connect_timeout=int(timeout_s)).close()
    except psycopg.Error as error:
        return _one_line(error)
    return ""


def why_no_redis(url: str, timeout_s: float = 5.0) -> str:
    """As ``why_no_database``."""
    try:
        with redis.Redis.from_url(
            url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=None
        ) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        return _one_line(error)
    return ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def make_home(house: House) -> None:
    folder = house.home.root
    try:
        house.home.create()
    except OSError as error:
        raise CannotStart(f"cannot use {folder} ({error.strerror}); set BERTH_HOME to a folder of yours") from None
    if not os.access(folder, os.W_OK):
        raise CannotStart(f"cannot write to {folder}; set BERTH_HOME to a folder of yours")
