"""One request explained from its record, and from nothing else. Pure: facts in, phases and sentences out.

Each clause has a code and its facts, so that a console can say it in another language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpuruntime.goodput import Outcome, Reason

LATE = (Reason.WAKING, Reason.QUEUED, Reason.PREFILL, Reason.PREEMPTED, Reason.DECODE)
ERRORS = (Reason.REFUSED, Reason.FAILED)
VERDICTS = ("good", "late", "error", "apart")


class Record(Protocol):
    """What is read of ``metering.models.UsageRecord``."""

    outcome: str
    status: int
    offered: bool
    good: bool
    reason: str
    prompt_tokens: int
    cached_tokens: int
    new_prompt_tokens: int
    completion_tokens: int
    ttft_us: int | None
    ttft_limit_us: int | None
    tpot_us: float | None
    tpot_limit_us: int | None
    fluidity: float
    fluidity_floor: float | None
    e2e_us: int
    e2e_limit_us: int | None
    queue_ms: float | None
    prefill_ms: float | None
    decode_ms: float | None
    preemptions: int | None
    running_at_arrival: int | None
    queued_at_arrival: int | None
    ready_at_arrival: bool | None
    tries: int | None
    resumes: int | None
    stalls: int | None
    max_gap_us: int | None
    burst: bool


@dataclass(frozen=True, slots=True)
class Clause:
    """``goes_on``: it continues the sentence before it."""

    code: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    goes_on: bool = False


def verdict_of(record: Record) -> str:
    """``apart``: it counts neither as kept nor as broken, as when the client left before anything was due."""
    if not record.offered:
        return "apart"
    if record.good:
        return "good"
    return "error" if record.reason in ERRORS else "late"


def sentence(record: Record) -> str:
    said = ""
    for clause in explain(record):
        said += ("; " if clause.goes_on else ". ") * bool(said) + clause.text
    return said + "."


def explain(record: Record) -> list[Clause]:
    """What became of it, then why, then what else matters."""
    verdict = verdict_of(record)
    if verdict == "apart":
        return [_apart(record)]
    if verdict == "good":
        return [_good(record), *_besides(record)]
    if verdict == "error":
        return [_error(record), *_besides(record)]
    return [*_late(record), *_besides(record)]


def timeline(record: Record) -> list[dict[str, Any]]:
    """Phases in order, in milliseconds since the request had arrived; what is not known is not drawn.

    ``gateway``: on the way, between the gateway and the engine, also with doors that failed it; ``waiting``: until the
    first token, where the engine does not tell queue and prefill apart.
    """
    end = record.e2e_us / 1000
    first = end if record.ttft_us is None else record.ttft_us / 1000
    phases: list[tuple[str, float, float]] = []
    if record.queue_ms is None and record.prefill_ms is None:
        phases.append(("waiting", 0.0, first))
    else:
        queued, prefill = record.queue_ms or 0.0, record.prefill_ms or 0.0
        before = max(0.0, first - queued - prefill)
        at = min(before, first)
        phases.append(("gateway", 0.0, at))
        phases.append(("queued", at, min(at + queued, first)))
        phases.append(("prefill", min(at + queued, first), first))
    if record.ttft_us is not None:
        phases.append(("decode", first, max(first, end)))
    return [
        {"phase": name, "start_ms": round(start, 3), "end_ms": round(stop, 3)}
        for name, start, stop in phases
        if stop - start >= 0.001
    ]


# --- Clauses --------------------------------------------------------------------------------------------------------


def _apart(record: Record) -> Clause:
    if record.outcome in (Outcome.CLIENT_LEFT, Outcome.CLIENT_SLOW):
        after = ms(record.e2e_us / 1000)
        text = f"Not counted: the client left after {after}, before the first token and before it was due"
        return Clause("left_early", text, {"after_ms": record.e2e_us / 1000})
    if record.outcome == Outcome.OVER_QUOTA:
        return Clause("over_quota", "Not counted: it was over the contract's own limits")
    return Clause("not_counted", "Not counted: the request was not valid")


def _good(record: Record) -> Clause:
    facts = {"ttft_ms": _of(record.ttft_us), "ttft_limit_ms": _of(record.ttft_limit_us)}
    if record.ttft_us is None:
        return Clause("good", "In time: it ended as promised", facts)
    first = f"In time: the first token came after {ms(record.ttft_us / 1000)}"
    if record.ttft_limit_us is not None:
        first += f", promised {ms(record.ttft_limit_us / 1000)}"
    if record.tpot_us is not None and record.tpot_limit_us is not None:
        pace, promised = ms(record.tpot_us / 1000), ms(record.tpot_limit_us / 1000)
        first += f"; then one every {pace} on average, promised {promised}"
    return Clause("good", first, facts)


def _error(record: Record) -> Clause:
    outcome = record.outcome
    waited = record.e2e_us / 1000
    facts = {"outcome": outcome, "status": record.status, "after_ms": waited, "tokens": record.completion_tokens}
    if outcome == Outcome.QUEUE_TIMEOUT:
        return Clause(
            "queue_timeout", f"Refused: it waited {ms(waited)} in the queue, the longest that anything may", facts
        )
    if outcome == Outcome.REFUSED and record.ready_at_arrival is False:
        return Clause("no_replica", "Refused: no replica was ready", facts)
    if outcome == Outcome.REFUSED:
        return Clause("refused", "Refused: every replica that could take it had a full queue", facts)
    if outcome == Outcome.GATEWAY_LOST:
        return Clause("gateway_lost", f"Failed: the gateway that carried it was lost{_so_far(record)}", facts)
    if outcome == Outcome.TRUNCATED:
        return Clause("truncated", f"Failed: the replica broke off{_so_far(record)}", facts)
    return Clause("failed", f"Failed with status {record.status} after {ms(waited)}{_so_far(record)}", facts)


def _so_far(record: Record) -> str:
    return f", after {number(record.completion_tokens, 'token')}" if record.completion_tokens else ""


def _late(record: Record) -> list[Clause]:
    waited_us = record.e2e_us if record.ttft_us is None else record.ttft_us
    if record.ttft_limit_us is not None and waited_us > record.ttft_limit_us:
        return [_late_first(record, waited_us / 1000), *_why_first(record)]
    if record.e2e_limit_us is not None and record.e2e_us > record.e2e_limit_us and not _choppy(record):
        took, promised = record.e2e_us / 1000, record.e2e_limit_us / 1000
        text = f"Late: the whole answer took {ms(took)}, promised {ms(promised)}"
        return [Clause("late_whole", text, {"e2e_ms": took, "e2e_limit_ms": promised}), *_why_slow(record)]
    return [_late_tokens(record), *_why_slow(record)]


def _choppy(record: Record) -> bool:
    return record.fluidity_floor is not None and record.fluidity < record.fluidity_floor


def _late_first(record: Record, waited: float) -> Clause:
    promised = (record.ttft_limit_us or 0) / 1000
    facts = {"ttft_ms": waited, "ttft_limit_ms": promised}
    if record.ttft_us is None:
        text = f"Late: no token had come after {ms(waited)}, when the client left; promised within {ms(promised)}"
        return Clause("late_none", text, facts)
    return Clause("late_first", f"Late: the first token came after {ms(waited)}, promised {ms(promised)}", facts)


def _why_first(record: Record) -> list[Clause]:
    """Where the time to the first token went: the largest part first."""
    clauses = []
    if record.reason == Reason.WAKING or record.ready_at_arrival is False:
        clauses.append(Clause("waking", "No replica was ready when it arrived, so it waited for one"))
    parts = {"queued": record.queue_ms or 0.0, "prefill": record.prefill_ms or 0.0}
    total = (record.e2e_us if record.ttft_us is None else record.ttft_us) / 1000
    for name in sorted(parts, key=lambda name: -parts[name]):
        if parts[name] >= 1 and parts[name] >= total / 10:
            clauses.append(_queued(record) if name == "queued" else _prefill(record))
    elsewhere = total - sum(parts.values())
    if record.queue_ms is not None and elsewhere >= max(1.0, total / 10) and not clauses:
        text = f"{ms(elsewhere)} of it passed on the way, before a replica had it"
        clauses.append(Clause("on_the_way", text, {"ms": elsewhere}, goes_on=True))
    return clauses


def _queued(record: Record) -> Clause:
    waited = record.queue_ms or 0.0
    running, queued = record.running_at_arrival, record.queued_at_arrival
    facts = {"queue_ms": waited, "running": running, "queued": queued}
    text = f"{ms(waited)} of it waiting in the queue"
    if running is None:
        return Clause("queued", text, facts, goes_on=True)
    text += f" because {number(running, 'request')} {_were(running)} running on the replica"
    text += f" and {queued} waited before it" if queued else ""
    return Clause("queued", text, facts, goes_on=True)


def _prefill(record: Record) -> Clause:
    took, new = record.prefill_ms or 0.0, record.new_prompt_tokens
    facts = {"prefill_ms": took, "new_prompt_tokens": new, "cached_tokens": record.cached_tokens}
    text = f"{ms(took)} of it reading the prompt: {number(new, 'new token')}"
    text += f", {record.cached_tokens:,} from the cache" if record.cached_tokens else ""
    return Clause("prefill", text, facts, goes_on=True)


def _late_tokens(record: Record) -> Clause:
    promised = (record.tpot_limit_us or 0) / 1000
    facts = {
        "fluidity": record.fluidity,
        "fluidity_floor": record.fluidity_floor,
        "tpot_ms": _of(record.tpot_us),
        "tpot_limit_ms": promised or None,
        "max_gap_ms": _of(record.max_gap_us),
    }
    if not promised:
        return Clause("late_tokens", "Late: the tokens came more slowly than promised", facts)
    share = percent(1 - record.fluidity)
    text = f"Late: {share} of the tokens missed their time of one every {ms(promised)}"
    if record.max_gap_us:
        text += f"; the longest pause was {ms(record.max_gap_us / 1000)}"
    if record.tpot_us is not None:
        text += f", the mean {ms(record.tpot_us / 1000)}"
    return Clause("late_tokens", text, facts)


def _why_slow(record: Record) -> list[Clause]:
    if record.preemptions:
        times = number(record.preemptions, "time")
        text = f"The engine set it back {times} to make room for others, and did its work again"
        return [Clause("preempted", text, {"preemptions": record.preemptions})]
    if record.running_at_arrival:
        many = record.running_at_arrival
        text = f"{number(many, 'other request')} {_were(many)} running on the replica when it came"
        return [Clause("shared", text, {"running": many})]
    return []


def _besides(record: Record) -> list[Clause]:
    found = []
    if record.outcome in (Outcome.CLIENT_LEFT, Outcome.CLIENT_SLOW) and record.completion_tokens:
        why = "left" if record.outcome == Outcome.CLIENT_LEFT else "did not read and was let go"
        text = f"The client {why} after {number(record.completion_tokens, 'token')}"
        found.append(Clause("client_left", text, {"tokens": record.completion_tokens}))
    resumes = record.resumes or 0
    if resumes:
        text = (
            f"Its replica broke off{'' if resumes == 1 else f' {resumes} times'}, and another went on with the answer"
        )
        found.append(Clause("resumed", text, {"resumes": resumes}))
    asked = (record.tries or 0) - resumes
    if asked > 1:
        text = f"{asked} replicas were asked before one took it"
        if resumes:
            text = f"{asked} replicas were asked beside"
        elif verdict_of(record) == "error":
            text = f"{asked} replicas were asked"
        found.append(Clause("tries", text, {"tries": asked}))
    if record.burst:
        found.append(Clause("burst", "It went beyond the contract's guaranteed rate, into its burst"))
    return found


# --- Words ----------------------------------------------------------------------------------------------------------


def ms(value: float) -> str:
    """812 ms, 1.5 s, 0.4 ms, 12 min: as many figures as a person reads."""
    if value < 10:
        return f"{value:.1f} ms"
    if value < 1000:
        return f"{value:.0f} ms"
    if value < 60_000:
        return f"{value / 1000:.3g} s"
    return f"{value / 60_000:.3g} min"


def percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _of(value_us: float | None) -> float | None:
    return None if value_us is None else value_us / 1000
