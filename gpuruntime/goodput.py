"""THE definition of goodput (docs/goodput.md). Pure Python, integer microseconds; everything else asks this module.

The gateway judges requests with it, the door and the engine schedule with it, the aggregator adds its windows, and
planner, simulator and benchmarks report with it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SLACK_CAP_US = 2_000_000
STALL_US = 1_000_000
BLOCK_TOKENS = 16


class Outcome(StrEnum):
    """How a request ended."""

    COMPLETED = "completed"
    CLIENT_LEFT = "client_left"
    CLIENT_SLOW = "client_slow"
    REFUSED = "refused"
    QUEUE_TIMEOUT = "queue_timeout"
    FAILED = "failed"
    TRUNCATED = "truncated"
    GATEWAY_LOST = "gateway_lost"
    OVER_QUOTA = "over_quota"
    INVALID = "invalid"


class Reason(StrEnum):
    """Why a request is not good; a bad request has exactly one."""

    REFUSED = "refused"
    FAILED = "failed"
    WAKING = "waking"
    QUEUED = "queued"
    PREFILL = "prefill"
    PREEMPTED = "preempted"
    DECODE = "decode"


_LEFT = frozenset({Outcome.CLIENT_LEFT, Outcome.CLIENT_SLOW})
_NEVER_OFFERED = frozenset({Outcome.OVER_QUOTA, Outcome.INVALID})
_REFUSED = frozenset({Outcome.REFUSED, Outcome.QUEUE_TIMEOUT})
_FAILED = frozenset({Outcome.FAILED, Outcome.TRUNCATED, Outcome.GATEWAY_LOST})


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """What one class promises. Every limit may be None: then its test passes."""

    base_ms: int | None = None
    free_prompt_tokens: int = 0
    prefill_tokens_per_s: int | None = None
    tpot_ms: int | None = None
    fluidity_floor: float = 0.99
    attainment_target: float = 0.95
    e2e_ms: int | None = None

    def ttft_limit_us(self, new_prompt_tokens: int) -> int | None:
        """base + 1000 · max(0, new − free) / rate, in microseconds."""
        if self.base_ms is None:
            return None
        extra = 0
        if self.prefill_tokens_per_s:
            beyond = max(0, new_prompt_tokens - self.free_prompt_tokens)
            extra = beyond * 1_000_000 // self.prefill_tokens_per_s
        return self.base_ms * 1000 + extra

    @property
    def tpot_us(self) -> int | None:
        return None if self.tpot_ms is None else self.tpot_ms * 1000


@dataclass(slots=True)
class _Choice:
    """One text of a request: where its tokens stand and how long the next may be late."""

    last_us: int
    slack_us: int = 0


@dataclass(slots=True)
class Timeline:
    """The clock of one request, fed as frames become ready to send. Times are microseconds of one monotonic clock.

    ``arrived_us`` is when the last byte of the request's body was read. Fluidity is kept online: O(1) a frame. Each
    choice of a request has gaps and slack of its own; what is counted of them adds up.
    """

    arrived_us: int
    tpot_us: int | None = None
    first_us: int | None = None
    tokens: int = 0
    met: int = 0
    missed: int = 0
    stalls: int = 0
    max_gap_us: int = 0
    decode_us: int = 0
    _choices: dict[int, _Choice] = field(default_factory=dict)

    def add(self, tokens: int, now_us: int, choice: int = 0) -> None:
        """``tokens`` tokens of a choice became ready at ``now_us``; tokens of one frame share its time."""
        if tokens <= 0:
            return
        line, rest = self._choices.get(choice), tokens - 1
        if line is None:
            line = self._choices[choice] = _Choice(now_us)
            self.first_us = now_us if self.first_us is None else self.first_us
        else:
            self._gap(line, now_us - line.last_us)
        if self.tpot_us is not None and rest:
            self.met += rest
            line.slack_us = min(line.slack_us + rest * self.tpot_us, SLACK_CAP_US)
        line.last_us = now_us
        self.tokens += tokens

    def _gap(self, line: _Choice, gap: int) -> None:
        self.decode_us += gap
        self.max_gap_us = max(self.max_gap_us, gap)
        if gap > STALL_US:
            self.stalls += 1
        if self.tpot_us is None:
            return
        if gap <= self.tpot_us + line.slack_us:
            self.met += 1
            line.slack_us = min(line.slack_us + self.tpot_us - gap, SLACK_CAP_US)
        else:
            late = gap - line.slack_us - self.tpot_us
            self.missed += -(-late // self.tpot_us)
            line.slack_us = 0

    @property
    def slack_us(self) -> int:
        """How long the next token may be late beyond its TPOT without a miss: of the choice that has least."""
        return min((line.slack_us for line in self._choices.values()), default=0)

    @property
    def ttft_us(self) -> int | None:
        return None if self.first_us is None else self.first_us - self.arrived_us

    @property
    def mean_tpot_us(self) -> float | None:
        """Decode only, over all choices' gaps; None while no choice has two tokens."""
        gaps = self.tokens - len(self._choices)
        return self.decode_us / gaps if gaps else None

    @property
    def fluidity(self) -> float:
        total = self.met + self.missed
        return self.met / total if total else 1.0


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the verdict needs besides the clock; from the door's last frame. Unknown times count as zero."""

    outcome: Outcome
    ended_us: int
    new_prompt_tokens: int
    ready_at_arrival: bool = True
    queue_ms: float | None = None
    prefill_ms: float | None = None
    preemptions: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One request, judged. ``good_tokens`` is what it adds to the numerator of goodput."""

    offered: bool
    good: bool
    compatible: bool
    reason: Reason | None
    ttft_us: int | None
    ttft_limit_us: int | None
    tpot_us: float | None
    fluidity: float
    tokens: int
    e2e_us: int

    @property
    def good_tokens(self) -> int:
        return self.tokens if self.good else 0


def judge(level: ServiceLevel, line: Timeline, seen: Circumstances) -> Verdict:
    """The verdict on one ended request."""
    limit = level.ttft_limit_us(seen.new_prompt_tokens)
    e2e = seen.ended_us - line.arrived_us
    waited = line.ttft_us if line.ttft_us is not None else e2e
    ttft_ok = limit is None or waited <= limit
    completed = seen.outcome is Outcome.COMPLETED
    left = seen.outcome in _LEFT

    offered = seen.outcome not in _NEVER_OFFERED
    if left and line.tokens == 0 and ttft_ok:
        offered = False

    fluid = line.fluidity >= level.fluidity_floor
    if left and line.missed:
        fluid = False  # a client that left is good only if every deadline so far was met
    in_time = level.e2e_ms is None or e2e <= level.e2e_ms * 1000
    delivered = completed or (left and line.tokens > 0)
    good = offered and delivered and ttft_ok and fluid and in_time

    mean = line.mean_tpot_us
    compatible = completed and ttft_ok and (mean is None or level.tpot_us is None or mean <= level.tpot_us)
    reason = None if good or not offered else _reason(seen, ttft_ok)
    return Verdict(offered, good, compatible, reason, line.ttft_us, limit, mean, line.fluidity, line.tokens, e2e)


def _reason(seen: Circumstances, ttft_ok: bool) -> Reason:
    if seen.outcome in _REFUSED:
        return Reason.REFUSED
    if seen.outcome in _FAILED:
        return Reason.FAILED
    if not ttft_ok:
        if not seen.ready_at_arrival:
            return Reason.WAKING
        return Reason.QUEUED if (seen.queue_ms or 0) > (seen.prefill_ms or 0) else Reason.PREFILL
    return Reason.PREEMPTED if seen.preemptions else Reason.DECODE


# --- Histograms and windows -------------------------------------------------------------------------------------

_LOG_STEP = math.log(1.02)


@dataclass(slots=True)
class Histogram:
    """Latencies in buckets 2 % wide: they are added, and percentiles read from the sum, never averaged."""

    counts: Counter[int] = field(default_factory=Counter)

    def add(self, value_us: float, count: int = 1) -> None:
        self.counts[0 if value_us < 1 else int(math.log(value_us) / _LOG_STEP) + 1] += count

    def merge(self, other: Histogram) -> None:
        self.counts.update(other.counts)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def percentile(self, q: float) -> float | None:
        """The value at rank ceil(q · n), as its bucket's geometric middle (within 1 %). None when empty."""
        total = self.total
        if not total:
            return None
        rank, seen = max(1, math.ceil(q * total)), 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= rank:
                return 0.0 if bucket == 0 else math.exp((bucket - 0.5) * _LOG_STEP)
        return None

    def to_json(self) -> list[list[int]]:
        return [[bucket, count] for bucket, count in sorted(self.counts.items())]

    @classmethod
    def from_json(cls, data: list[list[int]]) -> Histogram:
        return cls(Counter({int(bucket): int(count) for bucket, count in data}))


_SUMS = (
    "offered", "good", "compatible", "good_tokens", "tokens", "prompt_tokens", "cached_tokens", "left_early",
    "over_quota", "invalid", "stalls", "good_ideal_s", "delivered_ideal_s", "executed_ideal_s",
    "busy_s", "provisioned_s",
)  # fmt: skip
_HISTOGRAMS = ("ttft", "tpot", "fluidity")


@dataclass(slots=True)
class Window:
    """What happened in one span of time in one cell of {deployment, class, tenant, replica, ...}; windows add up.

    Seconds are device-seconds. ``fluidity`` is a histogram of 1 + 10^6 · fluidity, so its percentiles are within 1 %.
    """

    offered: int = 0
    good: int = 0
    compatible: int = 0
    good_tokens: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    left_early: int = 0
    over_quota: int = 0
    invalid: int = 0
    stalls: int = 0
    good_ideal_s: float = 0.0
    delivered_ideal_s: float = 0.0
    executed_ideal_s: float = 0.0
    busy_s: float = 0.0
    provisioned_s: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    ttft: Histogram = field(default_factory=Histogram)
    tpot: Histogram = field(default_factory=Histogram)
    fluidity: Histogram = field(default_factory=Histogram)

    def record(
        self,
        verdict: Verdict,
        outcome: Outcome,
        *,
        prompt_tokens: int = 0,
        cached_tokens: int = 0,
        stalls: int = 0,
        ideal_s: float = 0.0,
    ) -> None:
        """Add one judged request."""
        if not verdict.offered:
            self.over_quota += outcome is Outcome.OVER_QUOTA
            self.invalid += outcome is Outcome.INVALID
            self.left_early += outcome in _LEFT
            return
        self.offered += 1
        self.good += verdict.good
        self.compatible += verdict.compatible
        self.good_tokens += verdict.good_tokens
        self.tokens += verdict.tokens
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached_tokens
        self.stalls += stalls
        self.delivered_ideal_s += ideal_s
        self.good_ideal_s += ideal_s if verdict.good else 0.0
        if verdict.reason is not None:
            self.reasons[verdict.reason.value] += 1
        if verdict.ttft_us is not None:
            self.ttft.add(verdict.ttft_us)
        if verdict.tpot_us is not None:
            self.tpot.add(verdict.tpot_us)
        if verdict.tokens:
            self.fluidity.add(1 + 1e6 * verdict.fluidity)

    def merge(self, other: Window) -> None:
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons.update(other.reasons)
        for name in _HISTOGRAMS:
            getattr(self, name).merge(getattr(other, name))

    def merge_json(self, data: dict[str, Any]) -> None:
        """``merge(from_json(data))`` in a fraction of the time: a month's figures add up thousands."""
        for name in _SUMS:
            if name in data:
                setattr(self, name, getattr(self, name) + data[name])
        self.reasons.update(data.get("reasons", {}))
        for name in _HISTOGRAMS:
            counts = getattr(self, name).counts
            for bucket, count in data.get(name, ()):
                counts[bucket] += count

    @property
    def goodput(self) -> float | None:
        """G: good output tokens per provisioned device-second; None where nothing is provisioned."""
        return self.good_tokens / self.provisioned_s if self.provisioned_s else None

    @property
    def attainment(self) -> float | None:
        return self.good / self.offered if self.offered else None

    @property
    def factors(self) -> dict[str, float | None]:
        """η = U·E·R·A; each None where its denominator is zero, never clamped to 1."""

        def ratio(a: float, b: float) -> float | None:
            return a / b if b else None

        return {
            "eta": ratio(self.good_ideal_s, self.provisioned_s),
            "U": ratio(self.busy_s, self.provisioned_s),
            "E": ratio(self.executed_ideal_s, self.busy_s),
            "R": ratio(self.delivered_ideal_s, self.executed_ideal_s),
            "A": ratio(self.good_ideal_s, self.delivered_ideal_s),
        }

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {name: getattr(self, name) for name in _SUMS if getattr(self, name)}
        if self.reasons:
            out["reasons"] = dict(self.reasons)
        for name in _HISTOGRAMS:
            histogram: Histogram = getattr(self, name)
            if histogram.counts:
                out[name] = histogram.to_json()
        return out

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Window:
        window = cls(**{name: data[name] for name in _SUMS if name in data})
        window.reasons = Counter(data.get("reasons", {}))
        for name in _HISTOGRAMS:
            if name in data:
                setattr(window, name, Histogram.from_json(data[name]))
        return window


def jain_index(values: list[float]) -> float | None:
    """Jain's fairness: 1 when all are equal, 1/n when one has everything. None without values or when all are zero."""
    squares = sum(v * v for v in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None
