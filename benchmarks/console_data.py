"""How long the console waits for its data: usage, requests and SLAs of a million records, and lists of many rows.

    python benchmarks/console_data.py [--records 1000000] [--runs 7] [--json FILE] [--check]

Records are made by the database over 30 days: 20 tenants, 10 keys each, 8 deployments, 4 classes, 5 % of them bad.
The lists have 1,000 deployments and 10,000 keys. Exit code 1 with ``--check`` when a page misses its target.
Each figure is the whole answer of a request to the API, without a network; the median of the runs.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "platform"))

from benchmarks.common.house import database, listed_model
from benchmarks.common.report import conclude, end_on_signals, median, options_parser, say

TARGET_MS = 300.0
LIST_TARGET_MS = 100.0
DEPLOYMENTS, KEYS = 1000, 10_000
RECORDS = """
    INSERT INTO metering_usagerecord (
        request_id, tenant_id, deployment_id, deployment_name, key_id, member_id, replica_id, contract_id,
        contract_version, class_name, arrived_at, stream, outcome, finish_reason, status, counted_by, prompt_tokens,
        cached_tokens, new_prompt_tokens, completion_tokens, offered, good, compatible, reason, ttft_us, ttft_limit_us,
        tpot_us, fluidity, e2e_us, queue_ms, prefill_ms, decode_ms, created_at, cost
    )
    SELECT 'req_' || lpad(i::text, 26, '0'), 'ten_' || lpad((i %% 20)::text, 26, '0'),
        'dep_' || i %% 8, 'deployment-' || i %% 8,
        'key_' || i %% 200, 'usr_' || i %% 60, 'rep_' || i %% 16, '', 1,
        (ARRAY['chat', 'code', 'rag', 'batch'])[1 + i %% 4],
        date_trunc('minute', now()) - interval '30 days' * (1 - i::float / %(n)s), true, 'completed', 'stop', 200,
        'door', i %% 4000, i %% 1000, i %% 3000, i %% 700, true, h >= 5, true,
        CASE WHEN h >= 5 THEN '' ELSE (ARRAY['queued', 'prefill', 'decode', 'refused', 'failed'])[1 + h::int %% 5] END,
        100000 + h * 9000, 1000000, 40000, 1.0, 3000000, h, h, 900, now(), i %% 1000 * 0.000001
    FROM (SELECT i, (i::bigint * 7919 / 4 %% 100)::int AS h FROM generate_series(1, %(n)s) AS i) AS made
"""
PAGES = {
    "usage by day": "usage/summary?group=day{span}",
    "usage by hour and class": "usage/summary?group=hour,class{span}",
    "usage by tenant": "usage/summary?group=tenant{span}",
    "usage by key, one tenant": "usage/summary?group=key&tenant={tenant}{span}",
    "usage by member, odd ends": "usage/summary?group=member{odd}",
    "requests, newest": "requests?page_size=50",
    "requests of a tenant, late": "requests?verdict=late&tenant={tenant}",
    "requests by reason": "requests?reason=failed",
    "requests of a key, a day": "requests?key=key_7{day}",
    "requests of a replica": "requests?replica=rep_3",
    "requests of a class and a deployment": "requests?class=chat&deployment=dep_4",
    "requests, slowest first, a tenant": "requests?ordering=-ttft&tenant={tenant}",
    "requests, slowest first, all": "requests?ordering=-ttft",
    "a request explained": "requests/{request}",
    "attainment, a day": "slas/attainment",
    "attainment, 30 days by contract": "slas/attainment?group=contract{span}",
    "violations, 30 days": "slas/violations?group=deployment{span}",
}
LISTS = {
    "me": "me",
    "deployments": "deployments",
    "deployments of a tenant": "deployments?tenant={tenant}",
    "deployments, searched": "deployments?search=list-77",
    "deployments by name": "deployments?ordering=name&page_size=200",
    "a deployment": "deployments/dep_{deployment}",
    "keys": "keys",
    "keys of a tenant": "keys?tenant={tenant}",
    "keys, searched": "keys?search=key-777",
    "search everything": "search?q=list-77",
}


def measure(records: int, runs: int) -> dict[str, Any]:
    with database():
        from rest_framework.test import APIClient

        from berth.tenants.models import User

        fill(records)
        operator = User.objects.create(email="operator@example.com", is_operator=True, password="!")
        client = APIClient(headers={"host": "localhost"})
        client.force_login(operator, backend="django.contrib.auth.backends.ModelBackend")
        words = _words(records) | {"tenant": f"ten_{4:026d}", "deployment": f"{DEPLOYMENTS // 2:026d}"}
        pages = ask(client, PAGES, words, runs)
        return {"records": records, "median_ms": pages, "lists_median_ms": ask(client, LISTS, words, runs)}


def ask(client: Any, pages: dict[str, str], words: dict[str, str], runs: int) -> dict[str, float]:
    """Medians in ms; the first, which fills caches, counts like any other."""
    found = {}
    for name, path in pages.items():
        times = []
        for _ in range(runs):
            started = time.perf_counter()
            answer = client.get("/api/v1/" + path.format(**words))
            times.append(1000 * (time.perf_counter() - started))
            if answer.status_code != 200:
                raise SystemExit(f"{path}: {answer.status_code} {answer.content[:300]!r}")
        found[name] = median(times)
    return found


def fill(records: int) -> None:
    from django.db import connection

    from berth.metering import hours
    from berth.metering.models import UsageRecord
    from berth.tenants.models import Tenant

    for number in range(20):
        Tenant.objects.create(id=f"ten_{number:026d}", name=f"Tenant {number}", slug=f"tenant-{number}")
    started = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute(RECORDS, {"n": records})
        say(f"{records:,} records in {time.perf_counter() - started:.0f} s")
        ids = UsageRecord.objects.for_platform().values_list("request_id", flat=True)
        started = time.perf_counter()
        hours.add_to_hours(ids.iterator(), 1)
        say(f"their hours in {time.perf_counter() - started:.0f} s")
        lately = "arrived_at > now() - interval '2 days'"
        # What is not over yet is added up from its minutes: a span of it would be made anew every few seconds
        over = "arrived_at < date_trunc('{unit}', now(), 'UTC')"
        for table, column, more, unit, where in (
            ("goodputminute", "minute, replica_id", "''", "minute", lately),
            ("goodputspan", "at, seconds", "3600", "hour", over.format(unit="hour")),
            ("goodputspan", "at, seconds", "86400", "day", over.format(unit="day")),
        ):
            cursor.execute(_WINDOWS.format(table=table, columns=column, more=more, unit=unit, where=where))
        fill_lists()
        cursor.execute("ANALYZE")


def fill_lists() -> None:
    """Deployments that want no replica, each with its owner's contract, and keys, over the 20 tenants."""
    from berth.deployments.models import Deployment, DesiredState
    from berth.slas.models import Contract
    from berth.slas.services import ensure_default_classes
    from berth.tenants.models import ApiKey

    model = listed_model()
    chat = ensure_default_classes()["chat"]
    rows = [
        Deployment(
            id=f"dep_{i:026d}",
            tenant_id=f"ten_{i % 20:026d}",
            name=f"list-{i}",
            model=model,
            service_class=chat,
            desired_state=DesiredState.STOPPED,
        )
        for i in range(DEPLOYMENTS)
    ]
    Deployment.objects.bulk_create(rows)
    terms = chat.terms()
    Contract.objects.bulk_create(
        Contract(tenant_id=row.tenant_id, deployment=row, service_class=chat, terms=terms) for row in rows
    )
    ApiKey.objects.bulk_create(
        ApiKey(
            id=f"key_{i}",
            tenant_id=f"ten_{i % 20:026d}",
            name=f"key-{i}",
            digest=f"{i:064x}",
            pepper_id="1",
            hint="abcd",
        )
        for i in range(KEYS)
    )


# What the aggregator and ``metering.rollups`` write, made by the database: 20 buckets a histogram.
_WINDOWS = """
    INSERT INTO metering_{table} ({columns}, tenant_id, deployment_id, class_name, "window", offered, good)
    SELECT at, {more}, tenant_id, deployment_id, class_name, jsonb_build_object('offered', n, 'good', g,
        'reasons', CASE WHEN g < n THEN jsonb_build_object('queued', n - g) ELSE '{{}}'::jsonb END,
        'ttft', (SELECT jsonb_agg(jsonb_build_array(600 + b, n)) FROM generate_series(1, 20) AS b),
        'tpot', (SELECT jsonb_agg(jsonb_build_array(500 + b, n)) FROM generate_series(1, 20) AS b)), n, g
    FROM (
        SELECT date_trunc('{unit}', arrived_at, 'UTC') AS at, tenant_id, deployment_id, class_name, count(*) AS n,
            count(*) FILTER (WHERE good) AS g
        FROM metering_usagerecord WHERE {where} GROUP BY 1, 2, 3, 4
    ) AS cells
"""


def _words(records: int) -> dict[str, str]:
    from datetime import timedelta

    from django.utils import timezone

    now = timezone.now()
    month = now - timedelta(days=30)
    begun = month.replace(minute=0, second=0, microsecond=0)
    day = (
        (now - timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        (now - timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    return {
        "span": f"&from={begun:%Y-%m-%dT%H:%M:%SZ}",
        "odd": f"&from={month + timedelta(days=1):%Y-%m-%dT%H}:17:03Z&to={now - timedelta(days=1):%Y-%m-%dT%H}:41:59Z",
        "day": f"&from={day[0]}&to={day[1]}",
        "request": f"req_{records // 2:026d}",
    }


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    end_on_signals()
    result = measure(options.records, options.runs)
    missed = []
    for figures, target in (("median_ms", TARGET_MS), ("lists_median_ms", LIST_TARGET_MS)):
        for name, value in result[figures].items():
            print(f"{name:40s} {value:7.1f} ms")
            if value > target:
                missed.append(f"{name}: {value:.0f} ms, at most {target:.0f}")
    return conclude(result, missed, options)


if __name__ == "__main__":
    raise SystemExit(main())
