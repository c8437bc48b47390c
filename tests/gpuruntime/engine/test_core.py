"""The whole step on a random model: whatever arrives, leaves or is preempted, each text is the text alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.executor import Executor
from gpuruntime.roofline import DeviceRates
from helpers.engine import Engine, greedy, greedy_reference, make_engine, save_random_llama

PROMPTS = tuple(tuple((i * i * (k + 3) + 11 * k) % 200 + 3 for i in range(5 + 13 * k)) for k in range(6))
SHARED = (*PROMPTS[4][:32], 9, 8, 7)
ALL = (*PROMPTS, SHARED)
LENGTH = 24


class World:
    """One random model, its texts by transformers, and texts of sampled requests run alone."""

    def __init__(self, model_dir: Path) -> None:
        reference = save_random_llama(model_dir, seed=11)
        self.model_dir = model_dir
        self.executor: Executor = make_engine(model_dir, blocks=64).executor
        self.greedy = [greedy_reference(reference, prompt, LENGTH) for prompt in ALL]
        self.sampled = [self._alone(index) for index in range(len(ALL))]

    def engine(self, *, blocks: int = 64, **settings: Any) -> Engine:
        return make_engine(self.model_dir, blocks=blocks, executor=self.executor, **settings)

    def params(self, index: int, sampled: bool) -> SamplingParams:
        if sampled:
            return SamplingParams(LENGTH, temperature=0.8, top_p=0.9, top_k=30, seed=index)
        return greedy(LENGTH)

    def _alone(self, index: int) -> list[int]:
        engine = self.engine()
        key = engine.add(ALL[index], self.params(index, sampled=True))
        engine.drain()
        return engine.texts[key]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("llama"))


ARRIVAL = st.tuples(
    st.integers(0, len(ALL) - 1),
    st.booleans(),
    st.integers(0, 6),
    st.none() | st.integers(0, 30),
    st.sampled_from([b"", b"other"]),
)


@given(
    arrivals=st.lists(ARRIVAL, min_size=1, max_size=8),
    blocks=st.integers(7, 40),
    max_seqs=st.integers(1, 6),
    extra_tokens=st.integers(0, 40),
    cache=st.booleans(),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_texts_do_not_depend_on_company_chunks_preemption_or_cache(
    world: World, arrivals: list, blocks: int, max_seqs: int, extra_tokens: int, cache: bool
) -> None:
    engine = world.engine(blocks=blocks, max_seqs=max_seqs, max_tokens=max_seqs + extra_tokens, cache=cache)
    aborts: dict[int, list[int]] = {}
    started = {}
    step = 0

    def run_step() -> None:
        nonlocal step
        for key in aborts.pop(step, []):
            engine.take(engine.core.abort(key))
        if engine.core.busy:
            engine.step()
        engine.core.audit()
        step += 1

    for index, sampled, wait, abort_after, salt in arrivals:
        for _ in range(wait):
            run_step()
        key = engine.add(ALL[index], world.params(index, sampled), salt=salt)
        started[key] = world.sampled[index] if sampled else world.greedy[index]
        if abort_after is not None:
            aborts.setdefault(step + abort_after, []).append(key)
    while engine.core.busy:
        run_step()

    for key, expected in started.items():
        text = engine.texts[key]
        assert text == expected[: len(text)]
        assert len(text) == LENGTH or engine.reason(key) == "abort"
    pool = engine.core.scheduler.pool
    assert pool.available == pool.total


def test_preemption_happens_and_loses_no_token(world: World) -> None:
    engine = world.engine(blocks=8, max_tokens=128)
    keys = [engine.add(ALL[index], greedy(LENGTH)) for index in (3, 4, 0)]
    engine.drain()
    assert engine.core.stats().preemptions_total > 0
    for key, index in zip(keys, (3, 4, 0), strict=True):
        assert engine.texts[key] == world.greedy[index]
        timings = engine.ends[key].timings
        assert timings is not None
    assert sum(engine.ends[key].timings.preemptions or 0 for key in keys) == engine.core.stats().preemptions_total  # type: ignore[union-attr]


def test_the_cache_counts_tokens_and_keeps_tenants_apart(world: World) -> None:
    engine = world.engine()
    found = []
    for salt in (b"a", b"a", b"b"):
        key = engine.add(PROMPTS[5], greedy(2), salt=salt)
        engine.drain()
        timings = engine.ends[key].timings
        assert timings is not None
        found.append((timings.cached_tokens, timings.new_prompt_tokens))
    length = len(PROMPTS[5])
    whole = length // 16 * 16
    assert found == [(0, length), (whole, length - whole), (0, length)]
    assert engine.core.stats().cached_tokens_total == whole


def test_end_tokens_and_max_tokens_end_a_text(world: World) -> None:
    expected = world.greedy[2]
    end = expected[5]
    engine = world.engine()
    stopped = engine.add(ALL[2], greedy(LENGTH), end_ids=[end])
    full = engine.add(ALL[2], greedy(LENGTH))
    engine.drain()
    assert engine.texts[stopped] == expected[: expected.index(end) + 1]
    assert engine.reason(stopped) == "stop"
    assert engine.texts[full] == expected
    assert engine.reason(full) == "length"


def test_counters_add_up(world: World) -> None:
    engine = world.engine()
    keys = [engine.add(ALL[index], greedy(6)) for index in (1, 2)]
    engine.drain()
    stats = engine.core.stats()
    assert stats.prompt_tokens_total == len(ALL[1]) + len(ALL[2])
    assert stats.completion_tokens_total == sum(len(engine.texts[key]) for key in keys) == 12
    assert (stats.running, stats.waiting) == (0, 0)
    assert stats.busy_s_total > 0
    assert stats.kv_blocks_free + stats.kv_blocks_cached == stats.kv_blocks_total  # type: ignore[operator]


def test_a_quarter_of_a_device_books_a_quarter_of_the_seconds(world: World) -> None:
    booked = {}
    for share in (1.0, 0.25):
        engine = world.engine(device_share=share)
        engine.core.ledger.set_rates(DeviceRates(flops_per_s=1e9, bytes_per_s=1e9))
        key = engine.add(ALL[1], greedy(6))
        engine.drain()
        timings = engine.ends[key].timings
        assert timings is not None
        booked[share] = (timings.ideal_s, timings.executed_ideal_s, engine.core.stats().ideal_s_total)
    assert booked[0.25] == pytest.approx([value / 4 for value in booked[1.0]])  # type: ignore[operator]
    assert min(value or 0 for value in booked[0.25]) > 0

    ledger = world.engine(device_share=0.25).core.ledger
    ledger.step([], 2.0)
    counts = ("running", "waiting", "kv_blocks_total", "kv_blocks_free", "kv_blocks_cached", "preemptions_total")
    assert ledger.stats({}, **dict.fromkeys(counts, 0)).busy_s_total == 0.5
