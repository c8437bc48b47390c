"""What a command says when PostgreSQL or Redis is away: one sentence with the way out, whatever the command.

``manage.py`` asks for it, and exits with 1. Commands let the services' errors through.
"""

from __future__ import annotations

import psycopg
import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, ProgrammingError
from kombu.exceptions import OperationalError as BrokerError
from psycopg_pool import PoolTimeout

from berth.config import CONFIG
from berth.embedded import preflight
from berth.embedded.paths import postgres_url

DATABASE_ERRORS = (DatabaseError, InterfaceError, psycopg.Error, PoolTimeout)
REDIS_ERRORS = (redis.RedisError, BrokerError)
NOT_MIGRATED = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)


def in_words(error: Exception) -> str:
    """For a command that catches the error itself, to add what became of its work."""
    return explained(error) or str(error).strip()


def explained(error: Exception) -> str:
    """Which service is away and how it is started; empty when those that the error could blame answer."""
    if isinstance(error, REDIS_ERRORS):
        why = preflight.why_no_redis(settings.REDIS_URL)
        return _away("Redis", "BERTH_REDIS_URL", CONFIG.redis_url, why) if why else ""
    if isinstance(error, ProgrammingError) and isinstance(error.__cause__, NOT_MIGRATED):
        return "the database has not the tables of this version; manage.py migrate makes them (manage.py up does it)"
    if isinstance(error, DATABASE_ERRORS):
        why = preflight.why_no_database(CONFIG.database_url or postgres_url(CONFIG.home))
        return _away("PostgreSQL", "BERTH_DATABASE_URL", CONFIG.database_url, why) if why else ""
    return ""


def _away(service: str, setting: str, given: str, why: str) -> str:
    if given:
        return f"the {service} that {setting} names does not answer; start it, or correct {setting}. The reason: {why}"
    return (
        f"the {service} of this house (BERTH_HOME={CONFIG.home}) does not run. Start the house with manage.py up "
        f"and leave it running, or name its folder by BERTH_HOME, or another {service} by {setting}"
    )
