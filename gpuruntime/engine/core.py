"""The engine's step: schedule, run, note what came out. Single-threaded; `engine.thread` drives it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from gpuruntime.backend import BackendStats, FinishReason, Timings, TokenLogprob
from gpuruntime.engine.kv import BlockPool
from gpuruntime.engine.ledger import Ledger
from gpuruntime.engine.request import Request
from gpuruntime.engine.scheduler import Row, Scheduler


class StepOutput(NamedTuple):
    """One request's share of a step; without tokens when an abort or its deadline ended it."""

    key: int
    tokens: Sequence[int] = ()
    finish_reason: FinishReason | None = None
    timings: Timings | None = None
    logprobs: Sequence[TokenLogprob] = ()
    prompt_logprobs: Sequence[TokenLogprob | None] = ()


class Result(Protocol):
    """What one row produced; see ``engine.runner.RowResult``, which imports torch."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def logprobs(self) -> Sequence[TokenLogprob]: ...
    @property
    def scores(self) -> Sequence[TokenLogprob]: ...


class Runner(Protocol):
    """What computes a step; ``engine.runner.ModelRunner`` is one."""

    def run(self, rows: Sequence[Row]) -> Sequence[Result]:
        """Computes the rows' K and V; one result for each row."""
        ...


class Feature(Protocol):
    """Something that rides on the steps, as speculation does. Hooks are called in this order."""

    def extend(self, rows: Sequence[Row], scheduler: Scheduler) -> None:
        """Before the step: may give rows ``drafts`` within ``scheduler.spare_tokens`` and reserved blocks."""
        ...

    def result(self, rows: Sequence[Row], results: Sequence[Result], took_s: float) -> None:
        """After it, which took ``took_s`` without the time of ``extend``."""
        ...

    def free(self, request: Request) -> None:
        """The request has ended; also called for one that the feature never saw."""
        ...

    def audit(self) -> None:
        """Raises ``RuntimeError`` when what the feature holds is not accounted for."""
        ...

    def counts(self) -> Mapping[str, float]:
        """Totals that only grow, for ``BackendStats.extra``."""
        ...


class EngineCore:
    """Runs requests on one model; every method is called from one thread."""

    def __init__(
        self,
        runner: Runner,
        ledger: Ledger,
        *,
        max_seqs: int,
        max_tokens: int,
        num_blocks: int,
        cache: bool,
        features: Sequence[Feature] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``num_blocks`` of the runner's KV blocks are used; ``cache`` keeps released ones for later prompts."""
        pool = BlockPool(num_blocks, keep_released=cache)
        self.scheduler = Scheduler(pool, max_seqs=max_seqs, max_tokens=max_tokens)
        self.ledger = ledger
        self.features = features
        self._runner = runner
        self._clock = clock
        self._requests: dict[int, Request] = {}

    @property
    def busy(self) -> bool:
        return bool(self._requests)

    def add(self, request: Request) -> None:
        self._requests[request.key] = request
        self.scheduler.add(request)

    def step(self) -> list[StepOutput]:
        """One batch: decodes first, prefill chunks beside them. Returns the tokens it produced."""
        began_s = self._clock()
        late = [request for request in self._requests.values() if request.deadline_s <= began_s]
        outputs = [self._abort(request) for request in late]
        rows = self.scheduler.schedule()
        if not rows:
            if self._requests:
                raise RuntimeError("requests wait, but none can run: KV blocks were lost")
            return outputs
        for feature in self.features:
            feature.extend(rows, self.scheduler)
        extended_s = self._clock()
        results = self._runner.run(rows)
        now_s = self._clock()
        self.ledger.step(rows, began_s, now_s)
        for feature in self.features:
            feature.result(rows, results, now_s - extended_s)
        produced = [self._note(row, result, now_s) for row, result in zip(rows, results, strict=True)]
        return outputs + [output for output in produced if output is not None]

    def abort(self, key: int) -> StepOutput | None:
        """Frees everything the request holds, at any phase; None when it has already ended."""
        request = self._requests.get(key)
        return None if request is None else self._abort(request)

    def audit(self) -> None:
        """Raises ``RuntimeError`` when KV blocks are lost, or held though nobody runs."""
        self.scheduler.audit()
        for feature in self.features:
            feature.audit()

    def stats(self) -> BackendStats:
        pool, scheduler = self.scheduler.pool, self.scheduler
        return self.ledger.stats(
            {name: value for feature in self.features for name, value in feature.counts().items()},
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_blocks_total=pool.total,
            kv_blocks_free=pool.free,
            kv_blocks_cached=pool.cached,
            preemptions_total=scheduler.preemptions,
        )

    def _note(self, row: Row, result: Result, now_s: float) -> StepOutput | None:
        """Books one row's result. Of drafts that were wrong nothing stays but their blocks, which later tokens fill."""
        request, tokens = row.request, result.tokens
        if request.scores_prompt:
            request.append_scores(row.start, result.scores)
        if not tokens:
            self.scheduler.computed(request, row.start + row.count)
            return None
        first = request.num_output == 0
        kept, reason = request.append(tokens)
        self.scheduler.computed(request, row.start + row.count + kept - 1)
        self.ledger.produced(request, kept, now_s)
        if reason is not None:
            self.scheduler.finish(request)
        return StepOutput(
            request.key,
            tokens[:kept],
            reason,
            None if reason is None else self._end(request),
            result.logprobs[:kept],
            request.prompt_scores if first else (),
        )

    def _abort(self, request: Request) -> StepOutput:
        self.scheduler.abort(request)
        return StepOutput(request.key, (), "abort", self._end(request))

    def _end(self, request: Request) -> Timings:
        del self._requests[request.key]
        for feature in self.features:
            feature.free(request)
        return self.ledger.timings(request, self._clock())
