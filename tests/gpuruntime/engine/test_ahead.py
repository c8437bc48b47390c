"""A step launched before the last one is collected: the same answers, and nothing stale is ever read or delivered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.kv import chain_hash, root_hash
from gpuruntime.speculative.ngram import NgramProposer
from gpuruntime.speculative.speculation import Speculation
from helpers.ahead import VOCAB, Delayed, Device, Hand, cells_of, make_simulated, oracle
from helpers.engine import Eager, Engine, greedy, greedy_reference, make_engine, save_random_llama

BASES = [[(i * i * (k + 3) + 5 * k) % VOCAB for i in range(70)] for k in range(2)]
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "drawn": {"temperature": 0.5},
    "penalized": {"temperature": 0.0, "presence_penalty": 3000.5},
    "scored": {"temperature": 0.0, "logprobs": 0, "prompt_logprobs": 0},
    "late end": {"temperature": 0.0, "min_tokens": 3},
}


@dataclass(frozen=True)
class Arrival:
    """``wait`` steps after the one before; ``abort`` and ``deadline`` are steps after its arrival."""

    base: int
    shared: int
    own: int
    max_tokens: int
    kind: str
    end_ids: tuple[int, ...]
    wait: int
    abort: int | None
    deadline: int | None
    salt: bytes

    def prompt(self, index: int) -> list[int]:
        return [*BASES[self.base][: self.shared], *((7 * index + 3 * i) % VOCAB for i in range(self.own))]

    def params(self, index: int) -> SamplingParams:
        return SamplingParams(self.max_tokens, seed=index, **KINDS[self.kind])


ARRIVALS = st.lists(
    st.builds(
        Arrival,
        base=st.integers(0, 1),
        shared=st.sampled_from([0, 15, 16, 17, 32, 40]),
        own=st.integers(1, 20),
        max_tokens=st.integers(1, 40),
        kind=st.sampled_from(["greedy", "greedy", "drawn", "drawn", *KINDS]),
        end_ids=st.sampled_from([(), (), (0,), (0, 1, 2)]),
        wait=st.sampled_from([0, 0, 1, 5]),
        abort=st.none() | st.none() | st.none() | st.integers(0, 30),
        deadline=st.none() | st.none() | st.none() | st.integers(0, 30),
        salt=st.sampled_from([b"", b"", b"other"]),
    ),
    min_size=1,
    max_size=9,
)


class Run:
    """Feeds an engine and checks after each step what must always hold."""

    def __init__(self, engine: Engine, device: Device, clock: Hand) -> None:
        self.engine, self.device, self.clock = engine, device, clock
        self.texts: dict[int, list[int]] = {}  # by key, what the oracle answers
        self.aborts: dict[int, float] = {}
        self.blocks: dict[bytes, tuple[int, ...]] = {}  # what a findable block has to hold, by its hash

    def add(self, index: int, arrival: Arrival) -> int:
        prompt, params, now = arrival.prompt(index), arrival.params(index), self.clock.now_s
        deadline_s = float("inf") if arrival.deadline is None else now + arrival.deadline
        key = self.engine.add(prompt, params, salt=arrival.salt, end_ids=arrival.end_ids, deadline_s=deadline_s)
        self.texts[key] = oracle(prompt, params, arrival.end_ids)
        if arrival.abort is not None:
            self.aborts[key] = now + arrival.abort
        tokens, digest = [*prompt, *self.texts[key]], root_hash(arrival.salt)
        cells = cells_of(tokens)
        for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
            digest = chain_hash(digest, tokens[start : start + BLOCK_TOKENS])
            self.blocks[digest] = cells[start : start + BLOCK_TOKENS]
        return key

    def step(self) -> None:
        core = self.engine.core
        outputs = [core.abort(key) for key, when in self.aborts.items() if when == self.clock.now_s]
        outputs += core.step() if core.busy else []
        for output in outputs:
            assert output is None or output.key not in self.engine.ends, "a request spoke after its end"
            self.engine.take(output)
        core.audit()
        for key, text in self.engine.texts.items():
            assert text == self.texts[key][: len(text)]
        pool = core.scheduler.pool
        for digest, block in pool._block_of.items():
            start = block * BLOCK_TOKENS
            assert tuple(self.device.memory[start : start + BLOCK_TOKENS]) == self.blocks[digest]
        self.clock.now_s += 1

    def drain(self) -> None:
        while self.engine.core.busy:
            self.step()
            assert self.clock.now_s < 3000, "the engine makes no progress"


@given(
    arrivals=ARRIVALS,
    blocks=st.integers(7, 14),
    max_seqs=st.integers(1, 6),
    extra_tokens=st.integers(0, 40),
    ahead=st.sampled_from([True, True, True, False]),
)
@settings(max_examples=250, deadline=None)
def test_any_traffic_gets_the_answers_of_the_definition(
    arrivals: list[Arrival], blocks: int, max_seqs: int, extra_tokens: int, ahead: bool
) -> None:
    clock = Hand()
    tokens = max_seqs + extra_tokens
    engine, device = make_simulated(blocks, ahead=ahead, max_seqs=max_seqs, max_tokens=tokens, clock=clock)
    run = Run(engine, device, clock)
    started = {}
    for index, arrival in enumerate(arrivals):
        for _ in range(arrival.wait):
            run.step()
        started[run.add(index, arrival)] = arrival
    run.drain()

    for key, arrival in started.items():
        text, whole, reason = engine.texts[key], run.texts[key], engine.reason(key)
        if reason == "abort":
            assert arrival.abort is not None or arrival.deadline is not None
        else:
            assert text == whole
            assert reason == ("stop" if whole[-1] in arrival.end_ids else "length")
    pool, stats = engine.core.scheduler.pool, engine.core.stats()
    assert pool.available == pool.total
    assert stats.completion_tokens_total == sum(len(text) for text in engine.texts.values())
    event(f"preempted {stats.preemptions_total > 0}, ahead {ahead}")


def simulated(**changes: Any) -> tuple[Run, Delayed]:
    clock = Hand()
    options = {"blocks": 24, "ahead": True, "max_seqs": 4, "max_tokens": 64, **changes}
    engine, device = make_simulated(clock=clock, **options)
    executor: Any = engine.executor
    return Run(engine, device, clock), executor


def arrival(**changes: Any) -> Arrival:
    return replace(Arrival(0, 16, 5, 12, "greedy", (), wait=0, abort=None, deadline=None, salt=b""), **changes)


def test_each_token_comes_with_the_next_launch_and_the_last_at_once() -> None:
    run, device = simulated()
    key = run.add(0, arrival(max_tokens=3))
    given = []
    while run.engine.core.busy:
        run.step()
        given.append(len(run.engine.texts[key]))
    assert given == [0, 1, 2, 3]
    assert (device.launches, device.most_waiting) == (3, 2), "no step beyond max_tokens, and one ahead of each result"


def test_a_row_behind_the_end_of_its_text_is_computed_and_dropped() -> None:
    run, device = simulated()
    unbounded = arrival(max_tokens=9)
    end = oracle(unbounded.prompt(0), unbounded.params(0), ())[5]
    key = run.add(0, replace(unbounded, end_ids=(end,)))
    ends = len(run.texts[key])
    for _ in range(ends + 1):
        run.step()
    assert (run.engine.texts[key], run.engine.reason(key)) == (run.texts[key], "stop")
    assert run.engine.core.busy, "a step is in flight that nobody waits for"
    assert device.launches == ends + 1
    assert run.engine.core.scheduler.pool.available == run.engine.core.scheduler.pool.total

    late = run.add(1, arrival(base=1, max_tokens=4))
    run.drain()
    assert run.engine.texts[late] == run.texts[late]


def test_what_the_host_has_to_read_waits_for_no_further_launch() -> None:
    run, device = simulated()
    key = run.add(0, arrival(kind="scored", max_tokens=3))
    given = []
    while run.engine.core.busy:
        run.step()
        given.append(len(run.engine.texts[key]))
    assert (given, device.launches) == ([1, 2, 3], 0)


def test_a_text_that_ends_before_the_host_may_read_on_is_not_computed_on() -> None:
    run, _ = simulated()
    unbounded = arrival(max_tokens=9)
    end = oracle(unbounded.prompt(0), unbounded.params(0), ())[5]
    key = run.add(0, replace(unbounded, end_ids=(end,)))
    for _ in range(len(run.texts[key])):
        run.step()
    assert key not in run.engine.ends
    run.add(1, arrival(base=1, kind="scored", max_tokens=1))
    run.drain()
    assert run.device.rows == [1] * (len(run.texts[key]) + 1), "a row of the ended text would be beside the other"


def test_features_build_on_results_so_nothing_runs_ahead_of_them() -> None:
    speculation = Speculation(NgramProposer(), 4, Eager())
    run, device = simulated(features=(speculation,))
    keys = [run.add(index, arrival(own=9, max_tokens=30)) for index in range(3)]
    run.drain()
    assert [run.engine.texts[key] for key in keys] == [run.texts[key] for key in keys]
    assert device.most_waiting == 1
    assert speculation.proposed > 0


def test_the_time_of_a_step_is_what_lies_between_two_results() -> None:
    run, _ = simulated()
    first = run.add(0, arrival(max_tokens=5))
    run.drain()
    stats = run.engine.core.stats()
    # The clock moves by a second a call. Launched at 0, 1, .. 4 and collected at 1, 2, .. 5.
    assert (stats.steps_total, stats.busy_s_total) == (5, 5.0)
    timings = run.engine.ends[first].timings
    assert timings is not None
    assert (timings.queue_ms, timings.prefill_ms, timings.decode_ms) == (0, 1000, 4000)


@pytest.mark.parametrize("blocks", [9, 40])
def test_on_a_real_model_texts_are_those_of_transformers(tmp_path: Path, blocks: int) -> None:
    reference = save_random_llama(tmp_path, seed=11)
    executor = make_engine(tmp_path, blocks=40).executor
    prompts = [[(i * i * (k + 3) + 11 * k) % 200 + 3 for i in range(5 + 13 * k)] for k in range(5)]
    prompts.append([*prompts[4][:32], 9, 8, 7])
    sampled = SamplingParams(20, temperature=0.8, top_p=0.9, seed=3)

    def answers(runner: Any, **limits: int) -> tuple[list[list[int]], Engine]:
        engine = make_engine(tmp_path, executor=runner, max_tokens=24, **limits)
        keys = [engine.add(prompt, greedy(20)) for prompt in prompts]
        for _ in range(9):
            engine.step()
        keys.append(engine.add(prompts[2], sampled))
        engine.drain()
        return [engine.texts[key] for key in keys], engine

    delayed = Delayed(executor)
    texts, engine = answers(delayed, blocks=blocks, max_seqs=4)
    assert texts[:-1] == [greedy_reference(reference, prompt, 20) for prompt in prompts]
    assert texts == answers(executor, blocks=40, max_seqs=7)[0]
    assert (engine.core.stats().preemptions_total > 0) == (blocks == 9)
    assert delayed.most_waiting == 2
