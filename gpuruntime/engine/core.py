"""The engine's step: schedule, run, note what came out. Single-threaded; `engine.thread` drives it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpuruntime.backend import BackendStats, FinishReason, Timings
from gpuruntime.engine.kv import BlockPool
from gpuruntime.engine.ledger import Ledger
from gpuruntime.engine.request import Request
from gpuruntime.engine.scheduler import Row, Scheduler


@dataclass(frozen=True, slots=True)
class StepOutput:
    """One request's share of a step; ``token`` is None when an abort ended it."""

    key: int
    token: int | None
    finish_reason: FinishReason | None = None
    timings: Timings | None = None


class Result(Protocol):
    @property
    def tokens(self) -> tuple[int, ...]: ...


class Runner(Protocol):
    """What computes a step; ``engine.runner.ModelRunner``, which imports torch, is one."""

    def run(self, rows: Sequence[Row]) -> Mapping[int, Result]:
        """Computes the rows' K and V; the results of those that sample, by request key."""
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
    ) -> None:
        """``num_blocks`` of the runner's KV blocks are used; ``cache`` keeps released ones for later prompts."""
        pool = BlockPool(num_blocks, keep_released=cache)
        self.scheduler = Scheduler(pool, max_seqs=max_seqs, max_tokens=max_tokens)
        self.ledger = ledger
        self._runner = runner
        self._requests: dict[int, Request] = {}

    @property
    def busy(self) -> bool:
        return bool(self._requests)

    def add(self, request: Request) -> None:
        self._requests[request.key] = request
        self.scheduler.add(request)

    def step(self) -> list[StepOutput]:
        """One batch: decodes first, prefill chunks beside them. Returns the tokens it produced."""
        began_s = time.monotonic()
        rows = self.scheduler.schedule()
        if not rows:
            raise RuntimeError("requests wait, but none can run: KV blocks were lost")
        results = self._runner.run(rows)
        now_s = time.monotonic()
        for row in rows:
            self._note(row, began_s)
        self.ledger.step(rows, now_s - began_s)
        return [self._append(row.request, results[row.request.key].tokens[0], now_s) for row in rows if row.samples]

    def abort(self, key: int) -> StepOutput | None:
        """Frees everything the request holds, at any phase; None when it has already ended."""
        request = self._requests.get(key)
        if request is None:
            return None
        self.scheduler.abort(request)
        return self._end(request, None, "abort")

    def stats(self) -> BackendStats:
        pool, scheduler = self.scheduler.pool, self.scheduler
        return self.ledger.stats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_blocks_total=pool.total,
            kv_blocks_free=pool.free,
            kv_blocks_cached=pool.cached,
            preemptions_total=scheduler.preemptions,
        )

    def _note(self, row: Row, began_s: float) -> None:
        clock = row.request.clock
        if clock.admitted_s is None:
            clock.admitted_s = began_s
            self.ledger.admitted(row.request)
        self.scheduler.computed(row)

    def _append(self, request: Request, token: int, now_s: float) -> StepOutput:
        request.tokens.append(token)
        clock = request.clock
        clock.first_token_s = clock.first_token_s or now_s
        clock.last_token_s = now_s
        reason: FinishReason | None = None
        if token in request.end_ids:
            reason = "stop"
        elif request.num_output >= request.params.max_tokens:
            reason = "length"
        if reason is None:
            return StepOutput(request.key, token)
        self.scheduler.finish(request)
        return self._end(request, token, reason)

    def _end(self, request: Request, token: int | None, reason: FinishReason) -> StepOutput:
        del self._requests[request.key]
        return StepOutput(request.key, token, reason, self.ledger.timings(request, time.monotonic()))
