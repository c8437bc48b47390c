"""How fast the replicas on each GPU work, compared with their siblings: what finds a GPU that is merely slow.

Speed is E of docs/goodput.md over some minutes: ideal seconds executed a busy second. It is a roofline's share, so it
does not rise and fall with how much there is to do, as tokens do.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection

from berth.fleet.health import note_speed, state_of
from berth.fleet.models import Gpu, Seat
from scheduler.health.stragglers import Speed, shares

WINDOW = timedelta(minutes=5)
# Of one that hardly works the few steps say more of chance than of its GPU.
LEAST_BUSY = 0.2
# What is nothing is not written down in a window.
_WORK = """
SELECT replica_id, ideal_s / busy_s
FROM (
    SELECT replica_id,
           SUM(COALESCE(("window"->>'executed_ideal_s')::float, 0)) AS ideal_s,
           SUM(COALESCE(("window"->>'busy_s')::float, 0)) AS busy_s,
           SUM(COALESCE(("window"->>'provisioned_s')::float, 0)) AS provisioned_s
    FROM metering_goodputminute
    WHERE minute > %(since)s AND minute <= %(until)s AND replica_id <> ''
    GROUP BY replica_id
) AS work
WHERE busy_s > 0 AND ideal_s > 0 AND busy_s >= %(least)s * provisioned_s
"""


def judge_speeds(now: datetime) -> list[str]:
    """The GPUs whose health changed by it. Writes only to those that are slow, or were."""
    slow = shares(_speeds(now))
    moved = []
    for gpu in Gpu.objects.filter(id__in=slow).order_by("id"):
        share = slow[gpu.id]
        if (share > 0 or state_of(gpu).memory.slow > 0) and note_speed(gpu_id=gpu.id, share=share, now=now):
            moved.append(gpu.id)
    return moved


def _speeds(now: datetime) -> list[Speed]:
    """Of replicas that sat where they sit for the whole time, on GPUs. Runtimes of simulated ones share processors."""
    since = now - WINDOW
    with connection.cursor() as cursor:
        cursor.execute(_WORK, {"since": since, "until": now, "least": LEAST_BUSY})
        worked: dict[str, float] = dict(cursor.fetchall())
    seats = Seat.objects.filter(replica_id__in=worked, created_at__lt=since, slice__gpu__kind="gpu")
    columns = ("replica_id", "replica__deployment_id", "slice__gpu_id", "slice__gpu__name")
    return [
        Speed(gpu=gpu, group=f"{deployment} {name} {kind} {profile}", value=worked[replica])
        for replica, deployment, gpu, name, kind, profile in seats.values_list(
            *columns, "slice__kind", "slice__profile"
        )
    ]
