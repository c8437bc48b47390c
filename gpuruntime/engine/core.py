"""The engine's step: schedule, launch, collect what came out. Single-threaded; `engine.thread` drives it.

On a CPU a step is collected as it is launched. A GPU runs ahead: a step is collected when the next one has been
launched, so that the device never waits for Python (docs/engine.md).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpuruntime.backend import BackendStats, FinishReason, Timings, TokenLogprob
from gpuruntime.engine.kv import BlockPool
from gpuruntime.engine.ledger import Ledger
from gpuruntime.engine.request import Request
from gpuruntime.engine.scheduler import Row, Scheduler

if TYPE_CHECKING:
    from gpuruntime.engine.grammar import Grammars, Matcher

COMPILING_S = 0.01  # how long a step that has nothing else to do waits for a grammar


class StepOutput(NamedTuple):
    """One request's share of a step; without tokens when an abort or its deadline ended it."""

    key: int
    tokens: Sequence[int] = ()
    finish_reason: FinishReason | None = None
    timings: Timings | None = None
    logprobs: Sequence[TokenLogprob] = ()
    prompt_logprobs: Sequence[TokenLogprob | None] = ()
    embedding: bytes = b""


class Result(Protocol):
    """What one row produced; see ``engine.runner.RowResult``, which imports torch."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def logprobs(self) -> Sequence[TokenLogprob]: ...
    @property
    def scores(self) -> Sequence[TokenLogprob]: ...
    @property
    def state(self) -> NDArray[np.float64] | None: ...


class Launched(Protocol):
    """A step that is being computed, or has been."""

    @property
    def settled(self) -> bool:
        """Whether it has been computed already, so that nothing is gained by launching another one first."""
        ...

    def results(self) -> Sequence[Result]:
        """Waits for this step, not for later ones; one result for each row."""
        ...


class Runner(Protocol):
    """What computes a step; ``engine.runner.ModelRunner`` is one."""

    def reads(self, rows: Sequence[Row]) -> bool:
        """Whether picking for these rows needs the tokens of all steps before."""
        ...

    def launch(self, rows: Sequence[Row]) -> Launched:
        """Starts to compute the rows' K and V and what follows from them."""
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


class _Flight(NamedTuple):
    """A step that was launched and not collected; it was scheduled from ``began_s`` on."""

    rows: Sequence[Row]
    launched: Launched
    began_s: float
    launched_s: float


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
        grammars: Grammars | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``num_blocks`` of the runner's KV blocks are used; ``cache`` keeps released ones for later prompts.

        ``grammars`` compiles those of requests that have one, which run only then.
        With ``features``, which build on each step's results, no step is launched ahead.
        """
        pool = BlockPool(num_blocks, keep_released=cache)
        self.scheduler = Scheduler(pool, max_seqs=max_seqs, max_tokens=max_tokens)
        self.ledger = ledger
        self.features = features
        self._runner = runner
        self._clock = clock
        self._requests: dict[int, Request] = {}
        self._grammars = grammars
        self._compiling: dict[int, Future[Matcher]] = {}
        self._flights: deque[_Flight] = deque()
        self._collected_s = -math.inf

    @property
    def busy(self) -> bool:
        """Whether there is something to step for: a request, or a step in flight whose requests all have ended."""
        return bool(self._requests or self._flights)

    def add(self, request: Request) -> None:
        self._requests[request.key] = request
        if request.params.grammar is None:
            self.scheduler.add(request)
        elif self._grammars is None:
            raise ValueError("this engine was made without grammars")
        else:
            answered = request.tokens[request.prompt_len :]
            self._compiling[request.key] = self._grammars.compile(request.params.grammar, answered)

    def step(self) -> list[StepOutput]:
        """Launches one batch: decodes first, prefill chunks beside them. Returns the tokens of the steps it collected.

        They are collected while the launched one is computed, except where it has to know them, or nothing is launched.
        """
        began_s = self._clock()
        late = [request for request in self._requests.values() if request.deadline_s <= began_s]
        outputs = [self._abort(request) for request in late] + self._compiled()
        rows = self.scheduler.schedule()
        if self._flights and (not rows or self._runner.reads(rows)):
            outputs += self._collect(0)
            rows = [row for row in rows if row.current]
        elif not rows and self._compiling:
            wait(self._compiling.values(), COMPILING_S, FIRST_COMPLETED)
        elif not rows and self._requests:
            raise RuntimeError("requests wait, but none can run: KV blocks were lost")
        if rows:
            launched = self._launch(rows, began_s)
            outputs += self._collect(0 if launched.settled or self.features else 1)
        return outputs

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

    def _compiled(self) -> list[StepOutput]:
        """Lets in whose grammar is ready; one that failed ends its request."""
        outputs = []
        for key in [key for key, future in self._compiling.items() if future.done()]:
            request, future = self._requests[key], self._compiling.pop(key)
            self.scheduler.add(request)
            if future.exception() is not None:
                self.scheduler.abort(request)
                outputs.append(StepOutput(key, (), "error", self._end(request)))
            else:
                request.matcher = future.result()
        return outputs

    def _launch(self, rows: Sequence[Row], began_s: float) -> Launched:
        for feature in self.features:
            feature.extend(rows, self.scheduler)
        launched_s = self._clock()
        launched = self._runner.launch(rows)
        self.scheduler.launched(rows)
        self.ledger.launched(rows, began_s)
        self._flights.append(_Flight(rows, launched, began_s, launched_s))
        return launched

    def _collect(self, left: int) -> list[StepOutput]:
        """Notes what the oldest steps in flight produced, until ``left`` of them are left."""
        outputs: list[StepOutput] = []
        while len(self._flights) > left:
            flight = self._flights.popleft()
            results = flight.launched.results()
            now_s = self._clock()
            # Ahead of its turn a step waits for the device; its own time is what lies between two results.
            self.ledger.step(flight.rows, now_s - max(flight.began_s, self._collected_s))
            self._collected_s = now_s
            for feature in self.features:
                feature.result(flight.rows, results, now_s - flight.launched_s)
            produced = [self._note(row, result, now_s) for row, result in zip(flight.rows, results, strict=True)]
            outputs += [output for output in produced if output is not None]
        return outputs

    def _note(self, row: Row, result: Result, now_s: float) -> StepOutput | None:
        """Books one row's result. Of drafts that were wrong nothing stays but their blocks, which later tokens fill."""
        request, tokens = row.request, result.tokens
        if row.epoch != request.epoch:  # not by ``row.current``: a call for every token of a batch
            return None
        if request.scores_prompt:
            request.append_scores(row.start, result.scores)
        if request.params.pooling is not None:
            return self._note_state(row, result, now_s)
        if not tokens:
            self.scheduler.computed(request, row.start + row.count)
            return None
        request.pending -= 1
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

    def _note_state(self, row: Row, result: Result, now_s: float) -> StepOutput | None:
        """Books a chunk of a prompt whose embedding is wanted, which its last one ends."""
        request, computed = row.request, row.start + row.count
        if result.state is not None:
            request.add_state(row.start, result.state)
        self.scheduler.computed(request, computed)
        if computed < request.prompt_len:
            return None
        self.ledger.produced(request, 0, now_s)
        embedding = request.embedding()
        self.scheduler.finish(request)
        return StepOutput(request.key, (), "stop", self._end(request), embedding=embedding)

    def _abort(self, request: Request) -> StepOutput:
        if self._compiling.pop(request.key, None) is not None:
            self.scheduler.add(request)
        self.scheduler.abort(request)
        return StepOutput(request.key, (), "abort", self._end(request))

    def _end(self, request: Request) -> Timings:
        del self._requests[request.key]
        for feature in self.features:
            feature.free(request)
        return self.ledger.timings(request, self._clock())
