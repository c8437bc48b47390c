"""Each minute: what the replicas on GPUs that are cut have told of their steps and their memory is noted for plans."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

import redis
from celery import shared_task
from django.conf import settings
from django.utils import timezone

from berth.core import leases
from berth.fleet.models import Seat
from berth.fleet.places import place_of
from berth.live import names
from berth.plans.measured import Run, forget_measurements, note_runs, precision_of
from gpuruntime import protocol

LEASE_S = 55.0
REDIS_TIMEOUT_S = 1.0
# A model that ran nowhere for so long is estimated anew: drivers, engines and boards' settings change meanwhile.
KEPT = timedelta(days=30)

log = logging.getLogger(__name__)


@shared_task(name="scheduler.measuring.measure")
def measure() -> None:
    """May be lost: the next one notes the same totals, a minute older."""
    with leases.hold("measure", LEASE_S) as mine:
        if mine:
            measure_now(timezone.now())


def measure_now(now: datetime) -> None:
    note_runs(runs=_runs(), now=now)
    forget_measurements(before=now - KEPT)


def _runs() -> list[Run]:
    """Of replicas that report now, on GPUs. What a simulated one shows is its host's processor."""
    columns = ("slice__gpu", "replica__deployment__model")
    seats = list(Seat.objects.filter(slice__gpu__kind="gpu").exclude(slice__gpu__board="").select_related(*columns))
    told = _told([names.hello(seat.replica_id) for seat in seats] + [names.stats(seat.replica_id) for seat in seats])
    runs = []
    for seat, hello, stats in zip(seats, told[: len(seats)], told[len(seats) :], strict=True):
        place = place_of(seat.slice, seat.slice.gpu.board)
        if place is None or not isinstance(hello, protocol.RuntimeHello) or not isinstance(stats, protocol.Stats):
            continue
        if hello.epoch == stats.epoch:
            runs.append(
                Run(
                    id=f"{seat.replica_id}/{stats.epoch}",
                    precision=precision_of(seat.replica.deployment),
                    slot=place.slot,
                    paces=tuple(stats.paces),
                    weights_bytes=hello.weights_bytes or 0,
                    kv_bytes=seat.replica.deployment.kv_bytes,
                    memory_bytes=stats.memory_bytes,
                )
            )
    return runs


def _told(keys: list[str]) -> list[object]:
    """The last message under each key; None where there is none, or Redis is away."""
    if not keys:
        return []
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=REDIS_TIMEOUT_S) as client:
            return [_decoded(data) for data in client.mget(keys)]
    except redis.RedisError as error:
        log.warning("reports_not_read", extra={"reason": str(error)})
        return [None] * len(keys)


def _decoded(data: bytes | None) -> object:
    try:
        return protocol.decode_runtime(data) if data else None
    except protocol.ProtocolError:
        return None
