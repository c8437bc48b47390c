"""The whole step on a random model: whatever arrives, leaves or is preempted, each text is the text alone."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.runner import ModelRunner
from gpuruntime.roofline import DeviceRates
from gpuruntime.speculative.draft import DraftProposer
from gpuruntime.speculative.ngram import NgramProposer
from gpuruntime.speculative.speculation import Speculation
from helpers.engine import Eager, Engine, greedy, greedy_reference, make_engine, save_random_llama

PROMPTS = tuple(tuple((i * i * (k + 3) + 11 * k) % 200 + 3 for i in range(5 + 13 * k)) for k in range(6))
SHARED = (*PROMPTS[4][:32], 9, 8, 7)
ALL = (*PROMPTS, SHARED)
LENGTH = 24


class World:
    """One random model, its texts by transformers, and texts of sampled requests run alone."""

    def __init__(self, model_dir: Path) -> None:
        self.reference = reference = save_random_llama(model_dir, seed=11)
        self.model_dir = model_dir
        self.executor: Executor = make_engine(model_dir, blocks=64).executor
        self.draft = make_engine(model_dir, blocks=12).executor
        self.greedy = [greedy_reference(reference, prompt, LENGTH) for prompt in ALL]
        self.sampled = [self._alone(index) for index in range(len(ALL))]

    def engine(self, *, blocks: int = 64, **settings: Any) -> Engine:
        return make_engine(self.model_dir, blocks=blocks, executor=self.executor, **settings)

    def features(self, speculation: str, depths: list[int]) -> tuple[Speculation, ...]:
        if speculation == "off":
            return ()
        draft = DraftProposer(ModelRunner(self.draft), 12, 30)
        return (Speculation(NgramProposer() if speculation == "ngram" else draft, 4, Eager(depths)),)

    def params(self, index: int, kind: str) -> SamplingParams:
        if kind == "sampled":
            return SamplingParams(LENGTH, temperature=0.8, top_p=0.9, top_k=30, seed=index)
        return replace(greedy(LENGTH), logprobs=1, prompt_logprobs=0) if kind == "scored" else greedy(LENGTH)

    def _alone(self, index: int) -> list[int]:
        engine = self.engine()
        key = engine.add(ALL[index], self.params(index, "sampled"))
        engine.drain()
        return engine.texts[key]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("llama"))


# What arrives: which prompt, how it is answered, after how many steps, aborted how many later, whose.
ARRIVAL = st.tuples(
    st.integers(0, len(ALL) - 1),
    st.sampled_from(["greedy", "sampled", "scored"]),
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
    speculation=st.sampled_from(["off", "ngram", "draft"]),
    depths=st.lists(st.integers(0, 4), min_size=1, max_size=5),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_texts_do_not_depend_on_company_chunks_preemption_cache_or_guesses(
    world: World,
    arrivals: list,
    blocks: int,
    max_seqs: int,
    extra_tokens: int,
    cache: bool,
    speculation: str,
    depths: list[int],
) -> None:
    engine = world.engine(
        blocks=blocks,
        max_seqs=max_seqs,
        max_tokens=max_seqs + extra_tokens,
        cache=cache,
        features=world.features(speculation, depths),
    )
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

    for index, kind, wait, abort_after, salt in arrivals:
        for _ in range(wait):
            run_step()
        key = engine.add(ALL[index], world.params(index, kind), salt=salt)
        started[key] = index, kind
        if abort_after is not None:
            aborts.setdefault(step + abort_after, []).append(key)
    while engine.core.busy:
        run_step()

    for key, (index, kind) in started.items():
        text = engine.texts[key]
        expected = world.sampled[index] if kind == "sampled" else world.greedy[index]
        assert text == expected[: len(text)]
        assert len(text) == LENGTH or engine.reason(key) == "abort"
        scored = kind == "scored" and text
        assert [one.token for one in engine.logprobs[key]] == (text if scored else [])
        assert [one and one.token for one in engine.prompt_logprobs[key]] == ([None, *ALL[index][1:]] if scored else [])
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


def test_stop_ids_end_a_text_as_its_end_does_and_min_tokens_holds_both_back(world: World) -> None:
    expected = world.greedy[2]
    stop = expected[4]
    engine = world.engine()
    stopped = engine.add(ALL[2], SamplingParams(LENGTH, temperature=0, stop_token_ids=(stop,)))
    held = engine.add(ALL[2], SamplingParams(LENGTH, temperature=0, stop_token_ids=(stop,), min_tokens=9))
    engine.drain()
    assert engine.texts[stopped] == expected[: expected.index(stop) + 1]
    assert engine.reason(stopped) == "stop"
    assert len(engine.texts[held]) >= 9
    assert stop not in engine.texts[held][:9]
    assert engine.texts[held][: expected.index(stop)] == expected[: expected.index(stop)]


@pytest.mark.parametrize("max_tokens", [16, 256])
def test_log_probabilities_against_transformers(world: World, max_tokens: int) -> None:
    prompt = PROMPTS[5]
    engine = world.engine(max_tokens=max_tokens)
    engine.add(prompt, greedy(4))
    engine.drain()
    # The cache holds the prompt by now; a prompt that is scored is computed all the same.
    key = engine.add(prompt, SamplingParams(6, temperature=0, logprobs=2, prompt_logprobs=3))
    other = engine.add(PROMPTS[2], SamplingParams(6, temperature=0.9, seed=1))
    engine.drain()
    timings = engine.ends[key].timings
    assert timings is not None
    assert timings.cached_tokens == 0
    assert engine.logprobs[other] == engine.prompt_logprobs[other] == []

    text = [*prompt, *engine.texts[key]]
    with torch.inference_mode():
        expected = world.reference(torch.tensor([text])).logits[0].double().log_softmax(-1)
    scores = engine.prompt_logprobs[key]
    assert len(scores) == len(prompt)
    assert scores[0] is None
    for position, (score, count) in enumerate(
        zip([*scores[1:], *engine.logprobs[key]], [3] * (len(prompt) - 1) + [2] * 6, strict=True)
    ):
        assert score is not None
        row = expected[position]
        assert score.token == text[position + 1]
        assert score.logprob == pytest.approx(float(row[score.token]), abs=1e-3)
        best = row.topk(count)
        assert [token for token, _ in score.top] == best.indices.tolist()
        assert [value for _, value in score.top] == pytest.approx(best.values.tolist(), abs=1e-3)


def test_a_deadline_ends_a_request_in_any_phase_with_what_it_has(world: World) -> None:
    now = 100.0
    engine = world.engine(max_seqs=1, clock=lambda: now)
    running = engine.add(ALL[2], greedy(LENGTH), deadline_s=107.0)
    waiting = engine.add(ALL[1], greedy(LENGTH), deadline_s=104.0)
    patient = engine.add(ALL[3], greedy(LENGTH))
    while engine.core.busy:
        now += 1.0
        engine.step()
        engine.core.audit()
    assert (engine.reason(running), engine.reason(waiting), engine.reason(patient)) == ("abort", "abort", "length")
    assert engine.texts[running] == world.greedy[2][:6]
    assert engine.texts[waiting] == []
    assert engine.texts[patient] == world.greedy[3]
    timings = engine.ends[waiting].timings
    assert timings is not None
    assert timings.queue_ms == pytest.approx(4000.0)


def test_thousands_of_short_requests_leave_nothing_behind(world: World) -> None:
    """Aborts at random moments beside short requests; after each wave the engine is as it was."""
    chance = random.Random(3)
    features = world.features("ngram", [2, 0, 1])
    engine = world.engine(blocks=24, max_seqs=24, max_tokens=96, features=features)
    core = engine.core
    for wave in range(25):
        live = [engine.add(ALL[chance.randrange(3)], greedy(chance.randint(1, 4))) for _ in range(100)]
        while core.busy:
            if chance.random() < 0.5:
                engine.take(core.abort(chance.choice(live)))
            if core.busy:
                engine.step()
        core.audit()
        assert len(engine.ends) == 100 * (wave + 1)
        pool = core.scheduler.pool
        assert pool.available == pool.total
        assert [*core._requests, *core.scheduler.running, *core.scheduler.waiting] == []
        assert not features[0].controller.acceptance._own
        assert not features[0].proposer._indexes
    assert sum(output.finish_reason == "abort" for output in engine.ends.values()) > 80


def test_counters_add_up(world: World) -> None:
    engine = world.engine()
    keys = [engine.add(ALL[index], greedy(6)) for index in (1, 2)]
    engine.drain()
    stats = engine.core.stats()
    assert stats.prompt_tokens_total == len(ALL[1]) + len(ALL[2])
    assert stats.completion_tokens_total == sum(len(engine.texts[key]) for key in keys) == 12
    assert sum(row.tokens for row in stats.paces) == 12
    assert sum(row.steps for row in stats.paces) == stats.steps_total
    assert sum(row.seconds for row in stats.paces) == pytest.approx(stats.busy_s_total)
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
