"""Texts with guesses are the texts without, whoever guesses and however wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.runner import ModelRunner
from gpuruntime.speculative.draft import DraftProposer
from gpuruntime.speculative.ngram import NgramProposer
from gpuruntime.speculative.speculation import Proposer, Speculation
from helpers.engine import Eager, Engine, greedy, make_engine, save_random_llama

# Few words, so that texts repeat themselves and n-grams are found.
VOCABULARY = 12
PROMPTS = [[(i * i * (k + 3) + 11 * k) % 9 + 3 for i in range(5 + 9 * k)] for k in range(6)]
LENGTH = 30


class World:
    def __init__(self, folder: Path) -> None:
        self.models = {}
        self.executors: dict[str, Executor] = {}
        for name, seed, changes in (("target", 11, {}), ("other", 12, {"num_hidden_layers": 1})):
            (folder / name).mkdir()
            settings: dict[str, Any] = {"vocab_size": VOCABULARY, "initializer_range": 0.1, **changes}
            self.models[name] = save_random_llama(folder / name, seed=seed, **settings)
            self.executors[name] = make_engine(folder / name, blocks=64).executor
        # The target's weights over KV memory of their own.
        self.executors["same"] = make_engine(folder / "target", blocks=64).executor
        self.folder = folder / "target"

    def proposer(self, kind: str, blocks: int = 64, max_tokens: int = 64) -> Proposer:
        if kind == "ngram":
            return NgramProposer()
        return DraftProposer(ModelRunner(self.executors[kind]), blocks, max_tokens)

    def engine(self, speculation: Speculation | None = None, **settings: Any) -> Engine:
        settings = {"blocks": 64, **settings}
        features = () if speculation is None else (speculation,)
        return make_engine(self.folder, executor=self.executors["target"], features=features, **settings)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("speculation"))


def sampled(index: int, **changes: Any) -> SamplingParams:
    return SamplingParams(**{"max_tokens": LENGTH, "temperature": 0.8, "seed": index, **changes})


def texts(engine: Engine, params: Callable[[int], SamplingParams]) -> list[list[int]]:
    keys = [engine.add(prompt, params(index), end_ids=[2]) for index, prompt in enumerate(PROMPTS)]
    engine.drain()
    return [engine.texts[key] for key in keys]


PARAMS: dict[str, Callable[[int], SamplingParams]] = {
    "greedy": lambda index: greedy(LENGTH),
    "sampled": sampled,
    "filtered": lambda index: sampled(index, top_k=6, top_p=0.9, min_p=0.02),
    "penalized": lambda index: sampled(
        index, presence_penalty=0.5, frequency_penalty=0.3, repetition_penalty=1.2, logit_bias=((5, 2.0),)
    ),
    "min_tokens": lambda index: sampled(index, min_tokens=20, stop_token_ids=(7,)),
    "mixed": lambda index: greedy(LENGTH) if index % 2 else sampled(index, logprobs=2),
}


@pytest.mark.parametrize("kind", ["ngram", "same", "other"])
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
def test_a_text_is_the_same_with_and_without(world: World, kind: str, params: Callable[[int], SamplingParams]) -> None:
    expected = texts(world.engine(), params)
    for depths in ((16,), (3, 0, 1, 5)):
        speculation = Speculation(world.proposer(kind), 5, Eager(depths))
        engine = world.engine(speculation)
        assert texts(engine, params) == expected
        assert speculation.proposed > 0
        pool = engine.core.scheduler.pool
        assert pool.available == pool.total


def test_the_same_model_guesses_all_and_saves_most_steps(world: World) -> None:
    without, speculation = world.engine(), Speculation(world.proposer("same"), 4, Eager())
    engine = world.engine(speculation)
    assert texts(engine, PARAMS["sampled"]) == texts(without, PARAMS["sampled"])
    assert speculation.accepted == speculation.proposed
    assert engine.core.stats().steps_total < 0.4 * without.core.stats().steps_total
    assert engine.core.stats().completion_tokens_total == without.core.stats().completion_tokens_total
    assert engine.core.stats().extra["accepted_draft_tokens_total"] == speculation.accepted


@pytest.mark.parametrize("kind", ["ngram", "same", "other"])
def test_the_controller_changes_steps_and_no_text(world: World, kind: str) -> None:
    engine = world.engine(Speculation(world.proposer(kind), 5))
    assert texts(engine, PARAMS["mixed"]) == texts(world.engine(), PARAMS["mixed"])


def test_log_probabilities_belong_to_their_tokens(world: World) -> None:
    def scored(index: int) -> SamplingParams:
        return sampled(index, logprobs=3, prompt_logprobs=1)

    plain, guessing = world.engine(), world.engine(Speculation(world.proposer("same"), 4, Eager()))
    assert texts(plain, scored) == texts(guessing, scored)
    for key, tokens in plain.texts.items():
        for engine in (plain, guessing):
            assert [one.token for one in engine.logprobs[key]] == tokens
            assert len(engine.prompt_logprobs[key]) == len(PROMPTS[key - 1])
        found = [one.logprob for one in guessing.logprobs[key]]
        assert found == pytest.approx([one.logprob for one in plain.logprobs[key]], abs=1e-4)


def test_wrong_guesses_are_executed_work_and_never_cached(world: World) -> None:
    speculation = Speculation(world.proposer("other"), 5, Eager())
    engine = world.engine(speculation)
    first = engine.add(PROMPTS[3], sampled(1))
    engine.drain()
    assert speculation.accepted < speculation.proposed
    # What a later request finds must be what was computed for the true text.
    again = [*PROMPTS[3], *engine.texts[first]]
    plain = world.engine()
    keys = [engine.add(again, greedy(8)), plain.add(again, greedy(8))]
    engine.drain()
    plain.drain()
    cached = engine.ends[keys[0]].timings
    assert cached is not None
    assert (cached.cached_tokens or 0) >= (len(again) - 1) // 16 * 16
    assert engine.texts[keys[0]] == plain.texts[keys[1]]


@pytest.mark.parametrize("kind", ["ngram", "same", "other"])
def test_aborts_between_steps_leave_nothing_behind(world: World, kind: str) -> None:
    proposer = world.proposer(kind)
    engine = world.engine(Speculation(proposer, 5, Eager()))
    for wait in range(8):
        keys = [engine.add(prompt, greedy(LENGTH)) for prompt in PROMPTS]
        for _ in range(wait):
            engine.step()
        for key in keys:
            engine.take(engine.core.abort(key))
            engine.core.audit()
    assert not engine.core.busy
    if isinstance(proposer, DraftProposer):
        assert proposer.pool.free == proposer.pool.total
    assert engine.core.scheduler.pool.available == engine.core.scheduler.pool.total


@pytest.mark.parametrize(("blocks", "draft_blocks", "draft_tokens"), [(9, 64, 64), (64, 3, 64), (64, 64, 7), (9, 4, 3)])
def test_short_of_blocks_or_tokens_it_guesses_less(
    world: World, blocks: int, draft_blocks: int, draft_tokens: int
) -> None:
    proposer = world.proposer("same", draft_blocks, draft_tokens)
    engine = world.engine(Speculation(proposer, 5, Eager()), blocks=blocks, max_tokens=20)
    assert texts(engine, PARAMS["mixed"]) == texts(world.engine(), PARAMS["mixed"])


def test_sampled_tokens_follow_the_models_distribution(world: World) -> None:
    """The third token over many seeds against its exact distribution, summed over all paths in float64."""
    prompt = PROMPTS[1]
    model = world.models["target"].double()
    paths = list(itertools.product(range(VOCABULARY), repeat=2))
    with torch.inference_mode():
        rows = torch.tensor([[*prompt, *path] for path in paths])
        chances = model(rows).logits.softmax(-1)
    last = len(prompt) - 1
    weights = [chances[i, last, a] * chances[i, last + 1, b] for i, (a, b) in enumerate(paths)]
    expected = sum(weight * row for weight, row in zip(weights, chances[:, last + 2], strict=True)).numpy()

    speculation = Speculation(world.proposer("other"), 2, Eager())
    engine = world.engine(speculation, max_seqs=24, max_tokens=512)
    draws = 2000
    keys = [engine.add(prompt, SamplingParams(3, temperature=1.0, seed=7_000 + seed)) for seed in range(draws)]
    engine.drain()
    assert 0.05 < speculation.accepted / speculation.proposed < 0.95
    counts = np.bincount([engine.texts[key][2] for key in keys], minlength=VOCABULARY)
    statistic = ((counts - draws * expected) ** 2 / (draws * expected)).sum()
    freedom = VOCABULARY - 1
    assert statistic < freedom + 4.75 * math.sqrt(2 * freedom) + 16
