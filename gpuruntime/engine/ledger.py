"""What the engine did, in tokens, seconds and ideal seconds (docs/goodput.md): statistics apart from behaviour."""

from __future__ import annotations

from collections.abc import Sequence

from gpuruntime.backend import BackendStats, Timings
from gpuruntime.engine.paces import Paces
from gpuruntime.engine.request import Request
from gpuruntime.engine.scheduler import Row
from gpuruntime.roofline import DeviceRates, ModelShape, best_batch, ideal_decode_s, ideal_prefill_s

# B* is the largest batch whose modelled step keeps the chat class's TPOT at a typical context.
REFERENCE_TPOT_US = 100_000
REFERENCE_CONTEXT = 512
_EWMA = 0.1


class Ledger:
    """Totals that only grow, and the timings of each request. ``rates`` is None until the device was measured.

    Rates are of the slice, so ideal seconds are the slice's; busy and ideal seconds are booked as device-seconds, of
    which a slice has only its share: else a quarter of a device could be busy for four times what is provisioned.
    """

    def __init__(self, shape: ModelShape, *, kv_capacity_tokens: int, max_seqs: int, device_share: float = 1.0) -> None:
        self.shape = shape
        self._device_share = device_share
        self.rates: DeviceRates | None = None
        self._kv_capacity_tokens = kv_capacity_tokens
        self._max_seqs = max_seqs
        self._best_batch = 1
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._completion_tokens = 0
        self._steps = 0
        self._paces = Paces()
        self._busy_s = 0.0
        self._ideal_s = 0.0
        self._step_ms: float | None = None
        self._prefill_rate: float | None = None

    def set_rates(self, rates: DeviceRates) -> None:
        self.rates = rates
        self._best_batch = best_batch(
            self.shape,
            rates,
            tpot_us=REFERENCE_TPOT_US,
            context=REFERENCE_CONTEXT,
            kv_capacity_tokens=self._kv_capacity_tokens,
            most=self._max_seqs,
        )

    def launched(self, rows: Sequence[Row], began_s: float) -> None:
        """Books the work of a step that began then; drafts and rows that turn out stale are executed work, too."""
        for row in rows:
            request = row.request
            if request.clock.admitted_s is None:
                self._admitted(request, began_s)
            ideal_s = self._row_ideal_s(row)
            request.executed_ideal_s += ideal_s
            self._ideal_s += ideal_s

    def step(self, rows: Sequence[Row], took_s: float) -> None:
        """Books the time of a step of ``rows``: since it began, or since the one before ended where that is later."""
        self._steps += 1
        self._paces.step(len(rows), took_s)
        self._busy_s += took_s * self._device_share
        took_ms = took_s * 1000
        self._step_ms = took_ms if self._step_ms is None else self._step_ms + _EWMA * (took_ms - self._step_ms)
        prefilled = sum(row.count for row in rows if row.count > 1)
        if prefilled > len(rows) and took_s > 0:
            rate = prefilled / took_s
            known = self._prefill_rate
            self._prefill_rate = rate if known is None else known + _EWMA * (rate - known)

    def produced(self, request: Request, tokens: int, now_s: float) -> None:
        """Notes that a step gave ``request`` so many tokens."""
        self._completion_tokens += tokens
        self._paces.produced(tokens)
        clock = request.clock
        clock.first_token_s = clock.first_token_s or now_s
        clock.last_token_s = now_s

    def timings(self, request: Request, now_s: float) -> Timings:
        """Where the time of an ended request went; the three spans add up to its stay."""
        clock = request.clock
        admitted_s = clock.admitted_s if clock.admitted_s is not None else now_s
        first_s = clock.first_token_s if clock.first_token_s is not None else now_s
        last_s = clock.last_token_s if clock.last_token_s is not None else first_s
        known = request.accounted or (self.rates is not None and clock.admitted_s is None)
        return Timings(
            queue_ms=(admitted_s - clock.entered_s) * 1000,
            prefill_ms=(first_s - admitted_s) * 1000,
            decode_ms=(last_s - first_s) * 1000,
            preemptions=request.preemptions,
            cached_tokens=request.cached_tokens or 0,
            new_prompt_tokens=request.new_prompt_tokens,
            ideal_s=self._delivered_ideal_s(request) if known else None,
            executed_ideal_s=request.executed_ideal_s if known else None,
        )

    def stats(self, extra: dict[str, float], **counts: int) -> BackendStats:
        return BackendStats(
            extra=extra,
            running=counts["running"],
            waiting=counts["waiting"],
            kv_blocks_total=counts["kv_blocks_total"],
            kv_blocks_free=counts["kv_blocks_free"],
            kv_blocks_cached=counts["kv_blocks_cached"],
            preemptions_total=counts["preemptions_total"],
            prompt_tokens_total=self._prompt_tokens,
            completion_tokens_total=self._completion_tokens,
            cached_tokens_total=self._cached_tokens,
            steps_total=self._steps,
            busy_s_total=self._busy_s,
            ideal_s_total=self._ideal_s,
            step_ms_ewma=self._step_ms,
            prefill_tokens_per_s=self._prefill_rate,
            paces=self._paces.rows(),
        )

    def _admitted(self, request: Request, now_s: float) -> None:
        request.clock.admitted_s = now_s
        self._prompt_tokens += request.prompt_len
        self._cached_tokens += request.cached_tokens or 0
        request.accounted = self.rates is not None

    def _row_ideal_s(self, row: Row) -> float:
        if self.rates is None:
            return 0.0
        if row.count == 1 and row.start >= row.request.prompt_len:
            return self._device_share * ideal_decode_s(
                self.shape, self.rates, self._best_batch, row.start + 1, row.size
            )
        return self._device_share * ideal_prefill_s(self.shape, self.rates, row.count, row.start)

    def _delivered_ideal_s(self, request: Request) -> float:
        """What the client got, had every token been computed once: nothing for recompute or evicted prefixes.

        Nor for the tokens that a resumed request came with: the engine that generated them has booked them.
        """
        if self.rates is None or request.clock.first_token_s is None:
            return 0.0
        new = request.new_prompt_tokens if request.new_prompt_tokens is not None else request.prompt_len
        prefill_s = ideal_prefill_s(self.shape, self.rates, new, request.prompt_len - new)
        steps = max(0, request.num_output - max(1, request.resumed))
        context = request.prompt_len + request.resumed + (steps + 1) // 2
        decode_s = ideal_decode_s(self.shape, self.rates, self._best_batch, context, steps)
        return self._device_share * (prefill_s + decode_s)
