"""What runs next, without a model: budget, order, preemption, the table of states."""

from __future__ import annotations

import itertools

import pytest

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.kv import BlockPool
from gpuruntime.engine.request import TRANSITIONS, Clock, Request, State
from gpuruntime.engine.scheduler import SCORED_CHUNK, Row, Scheduler

KEYS = itertools.count(1)


def request(length: int, *, first: int = 0, salt: bytes = b"", prompt_logprobs: int | None = None) -> Request:
    tokens = list(range(first, first + length))
    params = SamplingParams(max_tokens=100, temperature=0, prompt_logprobs=prompt_logprobs)
    return Request(next(KEYS), length, tokens, params, 0, salt, frozenset(), Clock(0.0))


def scheduler(blocks: int = 100, seqs: int = 8, tokens: int = 64) -> Scheduler:
    return Scheduler(BlockPool(blocks), max_seqs=seqs, max_tokens=tokens)


def run(plan: Scheduler) -> list[tuple[int, int, bool]]:
    """One step in which every sampled row gets the token 7: (key, count, sampled)."""
    rows: list[Row] = plan.schedule()
    for row in rows:
        plan.computed(row.request, row.start + row.count)
        if row.samples:
            row.request.tokens.append(7)
    plan.audit()
    return [(row.request.key, row.count, row.samples) for row in rows]


def test_decodes_run_first_and_chunks_fill_the_budget() -> None:
    plan = scheduler(tokens=10)
    short, long = request(3), request(25, first=100)
    plan.add(short)
    assert run(plan) == [(short.key, 3, True)]
    plan.add(long)
    assert run(plan) == [(short.key, 1, True), (long.key, 9, False)]
    assert run(plan) == [(short.key, 1, True), (long.key, 9, False)]
    assert run(plan) == [(short.key, 1, True), (long.key, 7, True)]
    assert run(plan) == [(short.key, 1, True), (long.key, 1, True)]


def test_at_most_max_seqs_run_in_order_of_arrival() -> None:
    plan = scheduler(seqs=2)
    first, second, third = request(2), request(2, first=50), request(2, first=90)
    for one in (first, second, third):
        plan.add(one)
    assert [key for key, _, _ in run(plan)] == [first.key, second.key]
    plan.abort(first)
    assert [key for key, _, _ in run(plan)] == [second.key, third.key]


def test_out_of_blocks_the_last_admitted_gives_way_and_comes_back_with_its_tokens() -> None:
    plan = scheduler(blocks=4, tokens=64)
    first, last = request(31), request(31, first=100)
    plan.add(first)
    plan.add(last)
    run(plan)
    assert plan.pool.available == 0
    run(plan)
    assert run(plan) == [(first.key, 1, True)]
    assert (last.state, last.preemptions, last.num_output, last.blocks) == (State.PREEMPTED, 1, 2, [])
    plan.finish(first)
    assert run(plan) == [(last.key, 33, True)] or last.computed == 33


def test_a_shared_beginning_is_computed_once_and_other_salts_compute_their_own() -> None:
    plan = scheduler()
    first, same, other = request(40), request(40), request(40, salt=b"other")
    plan.add(first)
    run(plan)
    plan.add(same)
    plan.add(other)
    run(plan)
    assert (first.cached_tokens, first.new_prompt_tokens) == (0, 40)
    assert (same.cached_tokens, same.new_prompt_tokens) == (32, 8)
    assert (other.cached_tokens, other.new_prompt_tokens) == (0, 40)
    assert same.blocks[:2] == first.blocks[:2]
    assert not set(other.blocks) & set(first.blocks)


def test_the_last_prompt_token_is_always_computed() -> None:
    plan = scheduler()
    first, same = request(32), request(32)
    plan.add(first)
    run(plan)
    plan.add(same)
    assert (same.key, 16, True) in run(plan)
    assert (same.cached_tokens, same.new_prompt_tokens) == (16, 0)


def test_an_evicted_beginning_is_no_new_prompt() -> None:
    plan = scheduler(blocks=4)
    first, filler, again = request(48), request(60, first=500), request(48)
    for one in (first, filler, again):
        plan.add(one)
        run(plan)
        plan.finish(one)
    assert again.cached_tokens == 0
    assert again.new_prompt_tokens == 0


def test_drafts_get_the_blocks_that_nobody_needs_next() -> None:
    plan = scheduler(blocks=4)
    one, two = request(15), request(15, first=100)
    plan.add(one)
    plan.add(two)
    run(plan)
    assert plan.reserve(one, 16)
    assert plan.pool.available == 2
    assert not plan.reserve(one, 17)
    plan.abort(two)
    assert plan.reserve(one, 17)
    assert plan.pool.available == 2
    plan.audit()


def test_what_a_step_leaves_of_its_budget_is_known() -> None:
    plan = scheduler(tokens=10)
    plan.add(request(3))
    run(plan)
    assert plan.spare_tokens == 7
    run(plan)
    assert plan.spare_tokens == 9


def test_a_scored_prompt_is_computed_whole_and_in_small_chunks() -> None:
    plan = scheduler(tokens=512)
    first = request(200)
    scored = request(200, prompt_logprobs=0)
    plan.add(first)
    run(plan)
    plan.add(scored)
    assert run(plan) == [(first.key, 1, True), (scored.key, SCORED_CHUNK, False)]
    assert scored.cached_tokens == 0


def test_the_audit_finds_blocks_that_no_request_owns() -> None:
    plan = scheduler()
    one = request(40)
    plan.add(one)
    run(plan)
    plan.audit()
    one.blocks.pop()
    with pytest.raises(RuntimeError, match="do not hold what the pool has given out"):
        plan.audit()


@pytest.mark.parametrize("phase", ["waiting", "prefill", "decode", "preempted"])
def test_an_abort_at_any_phase_frees_everything(phase: str) -> None:
    plan = scheduler(blocks=4, tokens=20)
    one = request(30)
    plan.add(one)
    if phase != "waiting":
        run(plan)
    if phase in ("decode", "preempted"):
        run(plan)
    if phase == "preempted":
        older = request(8, first=200)
        older.move("admit")
        older.blocks = plan.pool.allocate(2) or []
        plan.running.insert(0, older)
        older.tokens += range(40)
        while one.state is not State.PREEMPTED:
            run(plan)
        plan.abort(older)
    plan.abort(one)
    assert one.state is State.FINISHED
    assert plan.pool.available == 4
    assert not plan.running
    assert not plan.waiting
    plan.audit()


def test_every_live_state_can_be_aborted_and_unknown_events_are_errors() -> None:
    live = set(State) - {State.FINISHED}
    assert {state for state, event in TRANSITIONS if event == "abort"} == live
    assert not any(state is State.FINISHED for state, _ in TRANSITIONS)
    with pytest.raises(RuntimeError, match="finish in state waiting"):
        request(1).move("finish")
