"""The cap, the bound and the time limit around the queue."""

from __future__ import annotations

import asyncio

import pytest

from gpuruntime.door.admission import Admission, Slo
from gpuruntime.door.errors import ApiError
from gpuruntime.door.queue import NEVER, Ticket


async def test_no_more_than_the_capacity_run_at_once() -> None:
    admission = Admission(3, 100, 10)
    peak = 0

    async def one() -> None:
        nonlocal peak
        ticket = Ticket("t")
        await admission.enter(ticket)
        peak = max(peak, admission.running)
        await asyncio.sleep(0.001)
        admission.leave(ticket, 1)

    await asyncio.gather(*(one() for _ in range(50)))
    assert (peak, admission.running, admission.queued) == (3, 0, 0)


async def test_a_full_queue_refuses_with_a_retry_time_from_the_measured_throughput() -> None:
    admission = Admission(2, 4, 10)
    admission.throughput.record(service_s=6.0, first_token_s=0.5, output_tokens=10)
    waiting = [asyncio.create_task(admission.enter(Ticket("t"))) for _ in range(6)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as caught:
        await admission.enter(Ticket("t"))
    assert (caught.value.status, caught.value.code) == (503, "queue_full")
    assert caught.value.retry_after_s == 2 * 6.0 / 2  # half of the four that wait, two places, six seconds each
    assert admission.predicted_ttft_ms() == 1000 * (5 * 6.0 / 2 + 0.5)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_waiting_too_long_ends_with_queue_timeout_and_leaves_no_trace() -> None:
    admission = Admission(1, 4, 0.02)
    await admission.enter(first := Ticket("t"))
    with pytest.raises(ApiError) as caught:
        await admission.enter(Ticket("t"))
    assert (caught.value.status, caught.value.code) == (503, "queue_timeout")
    assert admission.queued == 0
    admission.leave(first, 1)
    await admission.enter(Ticket("t"))
    assert admission.running == 1


async def test_a_turn_that_meets_a_cancelled_wait_is_passed_on() -> None:
    admission = Admission(1, 4, 10)
    await admission.enter(first := Ticket("t"))
    leaving = asyncio.create_task(admission.enter(Ticket("t")))
    staying = asyncio.create_task(admission.enter(Ticket("t")))
    await asyncio.sleep(0)
    admission.leave(first, 1)  # the turn is given to `leaving` ...
    leaving.cancel()  # ... in the moment in which its client goes
    await asyncio.wait_for(staying, 1)
    assert leaving.cancelled()
    assert admission.running == 1


def test_the_deadline_grows_with_new_tokens_beyond_the_free_ones() -> None:
    slo = Slo(ttft_ms=500, free_tokens=100, prefill_rate=1000)
    assert slo.ttft_left_s(50) == 0.5
    assert slo.ttft_left_s(350) == 0.75
    assert Slo().ttft_left_s(350) == NEVER
