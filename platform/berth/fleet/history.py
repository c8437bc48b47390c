"""What a device did: a row a minute, made from samples of what its agent said last, and thrown away in time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.db.models import Avg, Max
from django.utils import timezone

from berth.fleet.models import HEARD_WITHIN, Gpu, GpuMinute

MOST_MINUTES = 30 * 24 * 60
# More points than a chart is wide say nothing.
MOST_POINTS = 360

# Of nodes that were heard lately: a silent node's last words are no measurement.
_SAMPLE = """
INSERT INTO fleet_gpuminute AS old
    (gpu_id, at, samples, memory_used_bytes, promised_bytes, utilisation, temperature_c, power_w)
SELECT gpu.id, %(minute)s, 1, gpu.memory_used_bytes, COALESCE(promised.bytes, 0), gpu.utilisation,
       gpu.temperature_c, gpu.power_w
FROM fleet_gpu gpu
JOIN fleet_node node ON node.id = gpu.node_id AND node.last_seen_at > %(heard_since)s
LEFT JOIN (
    SELECT slice.gpu_id, SUM(seat.memory_bytes) AS bytes
    FROM fleet_seat seat JOIN fleet_slice slice ON slice.id = seat.slice_id GROUP BY slice.gpu_id
) promised ON promised.gpu_id = gpu.id
WHERE gpu.present
ORDER BY gpu.id  -- each row locks its device, in the order in which a report locks them
ON CONFLICT (gpu_id, at) DO UPDATE SET
    samples = old.samples + 1,
    memory_used_bytes = GREATEST(old.memory_used_bytes, EXCLUDED.memory_used_bytes),
    promised_bytes = GREATEST(old.promised_bytes, EXCLUDED.promised_bytes),
    utilisation = COALESCE(  -- what is not measured at times is the mean of the rest
        old.utilisation + (EXCLUDED.utilisation - old.utilisation) / (old.samples + 1),
        old.utilisation, EXCLUDED.utilisation
    ),
    temperature_c = old.temperature_c + (EXCLUDED.temperature_c - old.temperature_c) / (old.samples + 1),
    power_w = old.power_w + (EXCLUDED.power_w - old.power_w) / (old.samples + 1)
"""


@dataclass(frozen=True, slots=True)
class Point:
    at: datetime
    memory_used_bytes: int
    promised_bytes: int
    utilisation: float | None
    temperature_c: float | None
    power_w: float | None


def sample(now: datetime) -> None:
    """Adds what every device shows at ``now`` to its minute. One statement, whatever the size of the fleet."""
    values = {"minute": now.replace(second=0, microsecond=0), "heard_since": now - HEARD_WITHIN}
    with connection.cursor() as cursor:
        cursor.execute(_SAMPLE, values)


def forget(before: datetime) -> int:
    """Removes minutes before that time; how many."""
    return GpuMinute.objects.filter(at__lt=before).delete()[0]


def points(gpu: Gpu, minutes: int, now: datetime | None = None) -> list[Point]:
    """The last ``minutes``, oldest first, at most ``MOST_POINTS``: minutes are put together where there are more."""
    now = now or timezone.now()
    step_s = 60 * -(-minutes // MOST_POINTS)
    rows = GpuMinute.objects.filter(gpu=gpu, at__gt=now - timedelta(minutes=minutes))
    grouped = (
        rows.extra(select={"step": "floor(extract(epoch from at) / %s)"}, select_params=[step_s])
        .values("step")
        .annotate(
            used=Max("memory_used_bytes"),
            promised=Max("promised_bytes"),
            busy=Avg("utilisation"),
            warm=Avg("temperature_c"),
            power=Avg("power_w"),
        )
        .order_by("step")
    )
    return [
        Point(
            at=datetime.fromtimestamp(int(row["step"]) * step_s, UTC),
            memory_used_bytes=row["used"],
            promised_bytes=row["promised"],
            utilisation=row["busy"],
            temperature_c=row["warm"],
            power_w=row["power"],
        )
        for row in grouped
    ]
