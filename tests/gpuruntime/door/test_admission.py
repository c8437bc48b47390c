"""The cap, the bound and the time limit around the queue."""

from __future__ import annotations

import asyncio

import pytest

from gpuruntime.door.admission import Admission, Slo
from gpuruntime.door.errors import ApiError
from gpuruntime.door.queue import NEVER, FairQueue, Ticket
from helpers.patience import PATIENCE_S


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
    admission.throughput.record(service_s=6.0, output_tokens=10)
    admission.throughput.record_prefill(0.5, 0)
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


async def test_a_flood_leaves_others_a_part_of_the_queue() -> None:
    admission = Admission(1, 90, 10)
    waiting = [asyncio.create_task(admission.enter(promised("flood"))) for _ in range(81)]
    await settle()
    with pytest.raises(ApiError, match=r"1 requests run and 80 wait .* are for other tenants"):
        await admission.enter(promised("flood"))
    waiting += [asyncio.create_task(admission.enter(promised("few"))) for _ in range(8)]
    await settle()
    assert admission.queued == 88, "eight ninths, and of what is left again"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert admission.queued == 0


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
    await asyncio.wait_for(staying, PATIENCE_S)
    assert leaving.cancelled()
    assert admission.running == 1


def test_the_deadline_grows_with_new_tokens_beyond_the_free_ones() -> None:
    slo = Slo(ttft_ms=500, free_tokens=100, prefill_rate=1000)
    assert slo.ttft_left_s(50) == 0.5
    assert slo.ttft_left_s(350) == 0.75
    assert Slo().ttft_left_s(350) == NEVER


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_loose_promise_waits_while_it_would_slow_a_tighter_one_down() -> None:
    step_ms = 50.0
    admission = Admission(8, 100, 10, step_ms=lambda: step_ms)
    tight, loose, none, same = Ticket("t", tpot_ms=60), Ticket("t", tpot_ms=100), Ticket("t"), Ticket("t", tpot_ms=60)
    await admission.enter(tight)
    entering = {name: asyncio.create_task(admission.enter(ticket)) for name, ticket in (("l", loose), ("n", none))}
    await settle()
    assert (admission.running, admission.queued) == (1, 2), "a step of two is taken to last 100 ms"
    await admission.enter(same)
    assert (admission.running, admission.queued) == (2, 2), "requests of one class do not hold each other back"
    step_ms = 40.0
    admission.leave(same, 1)
    await settle()
    assert admission.running == 1, "80 ms for two"
    step_ms = 19.0
    await asyncio.wait_for(entering["l"], PATIENCE_S)
    await asyncio.wait_for(entering["n"], PATIENCE_S)
    assert (admission.running, admission.queued) == (3, 0), "a shorter step lets them in by itself"
    for ticket in (tight, loose, none):
        admission.leave(ticket, 1)
    assert admission.running == 0


async def test_who_is_held_back_can_leave_and_runs_once_the_tighter_one_is_gone() -> None:
    admission = Admission(8, 100, 10, step_ms=lambda: 90.0)
    tight, gone, kept = Ticket("t", tpot_ms=60), Ticket("t"), Ticket("t", tpot_ms=100)
    await admission.enter(tight)
    leaving, staying = (asyncio.create_task(admission.enter(ticket)) for ticket in (gone, kept))
    await settle()
    leaving.cancel()
    await settle()
    assert (admission.running, admission.queued, staying.done()) == (1, 1, False)
    admission.leave(tight, 1)
    await staying
    admission.leave(kept, 1)
    assert (admission.running, admission.queued) == (0, 0)


async def test_without_a_step_time_or_a_tighter_promise_nobody_is_held() -> None:
    for step_ms in (None, 500.0):
        admission = Admission(8, 100, 10, step_ms=lambda step_ms=step_ms: step_ms)  # type: ignore[misc]
        for tpot_ms in (60.0, None) if step_ms is None else (None, 100.0, 60.0):
            await asyncio.wait_for(admission.enter(Ticket("t", tpot_ms=tpot_ms)), PATIENCE_S)
        assert admission.queued == 0


def test_the_other_choices_of_a_prompt_never_start_before_the_first() -> None:
    first = Ticket("t", 2.0, 100.0, 80.0, latest_start=5.0, tpot_ms=60)
    queue, others = FairQueue(), [first.following() for _ in range(3)]
    for ticket in (first, *others):
        queue.push(ticket)
    assert [queue.pop(now) for now in (0.0, 1.0, 6.0, 7.0)] == [first, *others]
    assert [(ticket.cost, ticket.weight, ticket.tpot_ms) for ticket in others] == [(20.0, 2.0, 60)] * 3


def promised(tenant: str = "t", *, new: int = 0, ttft_s: float = 60.0, **more: object) -> Ticket:
    """A ticket that came at 0 by a clock that stands there."""
    return Ticket(tenant, latest_start=ttft_s, deadline=ttft_s, new_tokens=new, tpot_ms=100.0, **more)  # type: ignore[arg-type]


async def test_prompts_wait_at_the_door_while_the_engine_has_enough_to_compute() -> None:
    """Two steps of 100 tokens are let in; what waits can be passed by what is more urgent."""
    admission = Admission(8, 100, 10, step_tokens=100, clock=lambda: 0.0)
    first, second = promised(new=150), promised(new=50)
    late, urgent = promised(new=10, ttft_s=50.0), promised(new=150, ttft_s=20.0)
    for ticket in (first, second):
        await admission.enter(ticket)
    entering = [asyncio.create_task(admission.enter(ticket)) for ticket in (late, urgent)]
    await settle()
    assert (admission.running, admission.queued) == (2, 2)
    admission.generated(second, 1)
    await settle()
    assert (admission.running, admission.queued) == (2, 2), "150 and the urgent 150 are more than 200"
    admission.generated(first, 1)
    await settle()
    assert [task.done() for task in entering] == [True, True], "the urgent one first, and 10 beside its 150"
    admission.leave(first, 1)
    assert admission.running == 3


async def test_a_prompt_longer_than_the_bound_enters_an_idle_engine() -> None:
    admission = Admission(8, 100, 10, step_tokens=100)
    await asyncio.wait_for(admission.enter(promised(new=5000)), PATIENCE_S)


def admission_that_takes(base_s: float, token_s: float) -> Admission:
    """Nothing runs; prefills took so long of late."""
    admission = Admission(2, 100, 10, clock=lambda: 0.0)
    for tokens in (0, 100, 400, 1000):
        admission.throughput.record_prefill(base_s + token_s * tokens, tokens)
    return admission


def test_the_predicted_ttft_follows_the_prompt_and_what_is_ahead() -> None:
    admission = admission_that_takes(0.02, 0.001)
    assert admission.predicted_s(promised(new=500)) == pytest.approx(0.52)
    assert admission.predicted_ttft_ms() == pytest.approx(20)


async def test_the_predicted_ttft_counts_prompts_in_the_engine_and_before_it_in_the_queue() -> None:
    admission = admission_that_takes(0.02, 0.001)
    admission.throughput.record(service_s=4.0, output_tokens=10)
    for _ in range(2):
        await admission.enter(promised(new=100))
    waiting = [asyncio.create_task(admission.enter(promised(new=100, ttft_s=ttft_s))) for ttft_s in (10.0, 30.0)]
    await settle()
    # Two run, one of the two that wait goes before it: two places have to become free, each in 2 s on average.
    assert admission.predicted_s(promised(new=50, ttft_s=20.0)) == pytest.approx(2 * 4.0 / 2 + 0.02)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_contract_that_refuses_what_would_be_late_tells_the_predicted_wait() -> None:
    admission = admission_that_takes(0.2, 0.01)
    late = promised(new=400, ttft_s=1.0, when_late="refuse")
    with pytest.raises(ApiError) as caught:
        admission.join([late])
    error = caught.value
    assert (error.status, error.code) == (429, "predicted_late")
    assert "about 4.2 s, its class promises 1.0 s" in error.message
    assert error.headers() == {"retry-after": "4", "x-should-retry": "true"}
    assert (admission.running, admission.queued) == (0, 0)
    await admission.enter(promised(new=70, ttft_s=1.0, when_late="refuse"))
    assert admission.running == 1, "0.9 s are in time"


async def test_a_contract_that_degrades_goes_on_without_the_deadline() -> None:
    admission = admission_that_takes(0.2, 0.01)
    late, in_time = (promised(new=new, ttft_s=1.0, when_late="degrade") for new in (400, 10))
    following = late.following()
    for tickets in ([in_time], [late, following]):
        admission.join(tickets)
    assert [ticket.degraded for ticket in (late, following, in_time)] == [True, True, False]
    assert [ticket.latest_start for ticket in (late, following)] == [NEVER, NEVER]


async def test_a_contract_that_queues_and_one_nobody_has_measured_for_are_never_refused() -> None:
    slow = admission_that_takes(9.0, 0.01)
    await slow.enter(promised(new=10, ttft_s=1.0))
    await Admission(2, 100, 10, clock=lambda: 0.0).enter(promised(new=9999, ttft_s=0.1, when_late="refuse"))


async def test_batch_leaves_while_first_tokens_come_close_to_their_deadlines() -> None:
    now = 0.0
    admission = Admission(8, 100, 10, clock=lambda: now)
    await admission.enter(chat := promised(ttft_s=1.0))
    now = 0.9
    admission.generated(chat, 1)  # a tenth of its second was left
    waiting = asyncio.create_task(admission.enter(Ticket("t", cost=100)))
    await settle()
    assert (admission.running, admission.queued) == (1, 1)
    admission.leave(chat, 1)
    await asyncio.wait_for(waiting, PATIENCE_S)
    assert admission.running == 1, "beside nobody it runs"


async def test_a_tenant_with_its_share_of_the_places_leaves_those_of_the_others_free() -> None:
    admission = Admission(8, 100, 10, clock=lambda: 0.0, queue=FairQueue(freedom=5, credit=10))
    few = [promised("few") for _ in range(2)]
    for ticket in few:
        await admission.enter(ticket)
    for ticket in few:
        admission.leave(ticket, 1)
    flood = [promised("flood", cost=10) for _ in range(40)]
    admission.join(flood)
    assert admission.running == 5, "three places are one more than the other tenant lately had"
    await asyncio.wait_for(admission.enter(promised("few")), PATIENCE_S)
    assert admission.running == 6
