"""Milliseconds of Python in one step: scheduling, the batch, booking the results; without executor and sampler.

An executor that answers at once stands in for the model. The issue allows 1 ms at 32 requests.
"""

from __future__ import annotations

import itertools
import statistics
import time

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.core import EngineCore, Feature
from gpuruntime.engine.executor import StepBatch
from gpuruntime.engine.ledger import Ledger
from gpuruntime.engine.request import Clock, Request
from gpuruntime.engine.runner import ModelRunner
from gpuruntime.roofline import DeviceRates, ModelShape
from gpuruntime.speculative.ngram import NgramProposer
from gpuruntime.speculative.speculation import Speculation

BLOCKS = 20_000
STEPS = 300
SMOLLM2 = ModelShape(
    parameters=134_000_000, weight_bytes=268_000_000, kv_bytes_per_token=23_040, attention_flops=69_120
)


class Instant:
    """An executor that computes nothing."""

    name, num_blocks, weights_bytes = "instant", BLOCKS, 0

    def __init__(self) -> None:
        self._tokens = itertools.cycle(range(5, 997))

    def greedy(self, batch: StepBatch) -> list[int]:
        return list(itertools.islice(self._tokens, len(batch.logits_rows)))


def median_ms(requests: int, prompt: int, features: tuple[Feature, ...] = ()) -> float:
    """Of steps in which every request decodes, statistics included."""
    ledger = Ledger(SMOLLM2, kv_capacity_tokens=16 * BLOCKS, max_seqs=64)
    ledger.set_rates(DeviceRates(flops_per_s=1e12, bytes_per_s=1e10))
    runner = ModelRunner(Instant())  # type: ignore[arg-type]
    core = EngineCore(runner, ledger, max_seqs=64, max_tokens=512, num_blocks=BLOCKS, cache=True, features=features)
    for key in range(requests):
        tokens = [(i * 7 + key * 13 + i * i * key) % 1000 for i in range(prompt)]
        params = SamplingParams(max_tokens=10 * STEPS, temperature=0.0)
        core.add(Request(key, prompt, tokens, params, 0, b"", frozenset({2}), Clock(0.0)))
    while core.scheduler.waiting or any(request.missing > 1 for request in core.scheduler.running):
        core.step()
    took = []
    for _ in range(STEPS):
        began_s = time.perf_counter()
        core.step()
        core.stats()
        took.append(1000 * (time.perf_counter() - began_s))
    return statistics.median(took)


def main() -> None:
    for requests, prompt in itertools.product((1, 8, 32, 64), (128, 3000)):
        plain = median_ms(requests, prompt)
        guessing = median_ms(requests, prompt, (Speculation(NgramProposer(), 5),))
        print(
            f"{requests:3} requests of {prompt:4} tokens: {plain:.3f} ms a step, with n-gram drafts {guessing:.3f} ms"
        )


if __name__ == "__main__":
    main()
