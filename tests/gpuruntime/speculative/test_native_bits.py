"""On the native step texts with guesses are equal in every bit: it computes a row whatever else is in the batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.runner import ModelRunner
from gpuruntime.speculative.draft import DraftProposer
from gpuruntime.speculative.ngram import NgramProposer
from gpuruntime.speculative.speculation import Speculation
from helpers.engine import Eager, make_engine, native_executor, save_random_llama

SIZES = {"vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "head_dim": 32}
PROMPTS = [[(i * i * (k + 3) + 11 * k) % 37 + 3 for i in range(5 + 9 * k)] for k in range(5)]


@pytest.mark.parametrize("dtype", ["bf16", "int8"])
@pytest.mark.parametrize("kind", ["ngram", "draft"])
def test_texts_and_log_probabilities_are_the_same_in_every_bit(tmp_path: Path, dtype: str, kind: str) -> None:
    save_random_llama(tmp_path, seed=3, **SIZES)
    target, draft = (native_executor(tmp_path, blocks=64, dtype=dtype) for _ in range(2))

    def run(*features: Speculation) -> tuple[list[list[int]], list[list[float]]]:
        engine = make_engine(tmp_path, executor=target, blocks=64, features=features)
        keys = []
        for index, prompt in enumerate(PROMPTS):
            temperature = 0.9 if index % 2 else 0.0
            params = SamplingParams(50, temperature=temperature, seed=index, logprobs=0 if index < 2 else None)
            keys.append(engine.add(prompt, params))
        engine.drain()
        scores = [[one.logprob for one in engine.logprobs[key]] for key in keys]
        return [engine.texts[key] for key in keys], scores

    proposer = NgramProposer() if kind == "ngram" else DraftProposer(ModelRunner(draft), 64, 64)
    speculation = Speculation(proposer, 5, Eager((5, 2, 0, 3)))
    assert run(speculation) == run()
    assert speculation.accepted > 0
