"""The health of one GPU, step by step. Pure: what was seen, what is remembered and the time in; the new state out.

    healthy --watch--> suspect --quiet--> healthy            suspect    takes no new replica; what is there goes on
       |                  |                                  draining   its replicas are moved, make-before-break
       +--drain--> draining --empty--> fenced                fenced     nothing may run
       +--fence---------------------> fenced                 probation  as suspect, until a quiet time has passed
    draining, fenced --repaired, passed or cleared--> probation --quiet--> healthy

The worst of all faults decides (scheduler.health.faults). A repair is seen where the node has booted since, the driver
takes back that it asks for a reset, or a row that waited for one is replaced: then what happened before is over. That
an agent counts anew (``epoch``) is no repair. What a process did wrong (an application's XID) never changes anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from gpuruntime.protocol import DeviceSignals
from scheduler.health import faults as known
from scheduler.health.catalogue import Severity
from scheduler.health.faults import Fault, has_passed, is_repair, rule_of, severity_of

Health = Literal["healthy", "suspect", "draining", "fenced", "probation"]
# Loading models and serving them again shows a bad repair within minutes; a spare GPU may wait so long.
PROBATION_S = 10 * 60.0
ON_PROBATION = "Its faults are gone; it takes new replicas after 10 minutes without another"
MOST_REASON = 300


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a later step must know, as JSON. ``signals``: the last report, from which counts rise.

    ``slow``: the measured share of its siblings' speed; 0 where it is as fast. ``accepted``: levels that a person
    cleared although they hold. ``on_trial``: it was out of use and has not proved itself since.
    """

    signals: DeviceSignals | None = None
    boot: str = ""
    slow: float = 0.0
    accepted: tuple[str, ...] = ()
    on_trial: bool = False
    faults: dict[str, Fault] = {}


@dataclass(frozen=True, slots=True)
class State:
    """``since``: when the health last changed, seconds since 1970. ``reason``: empty while healthy."""

    health: Health = "healthy"
    since: float = 0.0
    reason: str = ""
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True, slots=True)
class Told:
    """One fault as a person reads it."""

    key: str
    severity: Severity
    sentence: str
    todo: str
    count: int
    since: float
    last: float


def takes_new(health: str) -> bool:
    return health == "healthy"


def is_leaving(health: str) -> bool:
    """Whether what runs there is to be moved."""
    return health in ("draining", "fenced")


def may_run(health: str) -> bool:
    return health != "fenced"


def step(state: State, signals: DeviceSignals | None, now: float, *, boot: str = "", occupied: bool = True) -> State:
    """``signals`` None: the device tells none; only time passes. ``boot``: the node's boot; ``occupied``: replicas sit
    on it. Taking the same report twice changes nothing.
    """
    memory = state.memory
    if signals is None and state.health == "healthy" and not memory.faults and not memory.slow:
        return state
    booted = bool(memory.boot and boot and memory.boot != boot)
    if booted:
        kept = {key: fault for key, fault in memory.faults.items() if key == known.OPERATOR}
        memory = msgspec.structs.replace(memory, faults=kept, slow=0.0, accepted=())
    found = dict(memory.faults)
    _take_level(found, known.SLOW, memory.slow > 0, f"{memory.slow:.2f}", now)
    if signals is not None:
        memory = _take(found, memory, signals, now)
    passed = {key: found.pop(key) for key, fault in list(found.items()) if has_passed(key, fault, now)}
    repaired_at = max((fault.last for key, fault in passed.items() if is_repair(key, fault)), default=None)
    if repaired_at is not None:
        found.pop(known.SLOW, None)
        over = [key for key, fault in found.items() if not fault.on and fault.last <= repaired_at]
        for key in set(over) - {known.OPERATOR}:
            del found[key]
        memory = msgspec.structs.replace(memory, slow=0.0)
    memory = msgspec.structs.replace(memory, faults=found, boot=boot or memory.boot)
    return _settled(state, memory, now, repaired=booted or repaired_at is not None, occupied=occupied)


def fence(state: State, words: str, now: float) -> State:
    """An operator takes it out of use. ``words``: the reason, as it is shown."""
    found = {**state.memory.faults, known.OPERATOR: Fault(since=now, last=now, detail=words)}
    return _settled(state, msgspec.structs.replace(state.memory, faults=found), now)


def clear(state: State, now: float) -> State:
    """An operator says it may be used: what happened is over, levels that hold are accepted until they have changed.

    Not ``lost`` and what the driver asks for (``holds_back``): nobody can wish those away.
    """
    held = {key: fault for key, fault in state.memory.faults.items() if key in holds_back(state)}
    on = [key for key, fault in state.memory.faults.items() if fault.on and key not in held and key != known.SLOW]
    memory = msgspec.structs.replace(state.memory, faults=held, slow=0.0, accepted=tuple(sorted(on)))
    return _settled(state, memory, now, repaired=True)


def holds_back(state: State) -> tuple[str, ...]:
    """The faults that no operator can clear."""
    return tuple(key for key in (known.LOST, known.RECOVERY) if key in state.memory.faults)


def with_speed(state: State, share: float) -> State:
    """What was measured: the share of its siblings' speed, 0 where it is as fast as they. Counts at the next step."""
    return replace(state, memory=msgspec.structs.replace(state.memory, slow=share))


def told(state: State) -> list[Told]:
    """What is wrong, the worst and oldest first."""
    rows = []
    for key, fault in state.memory.faults.items():
        severity = severity_of(key, fault)
        if severity > Severity.NONE:
            rule = rule_of(key, fault)
            todo = rule.grave_todo or rule.todo if severity > rule.severity else rule.todo
            rows.append(Told(key, severity, rule.sentence, todo, fault.count, fault.since, fault.last))
    return sorted(rows, key=lambda row: (-row.severity, row.since, row.key))


# --- what is seen -----------------------------------------------------------------------------------------------


def _take(found: dict[str, Fault], memory: Memory, signals: DeviceSignals, now: float) -> Memory:
    """What one report says. Of a lost GPU nothing else is believed: it did not say it."""
    _take_level(found, known.LOST, signals.lost, "", now)
    if signals.lost:
        return memory
    levels = {
        known.RECOVERY: (signals.recovery_action not in ("", "none"), signals.recovery_action),
        known.REMAP_PENDING: (signals.row_remap_pending, ""),
        known.REMAP_FAILED: (signals.row_remap_failed, ""),
        known.THERMAL: (signals.thermal_slowdown, ""),
    }
    for key, (on, detail) in levels.items():
        _take_level(found, key, on and key not in memory.accepted, detail, now)
    for key, times in _events(memory.signals, signals):
        old = found.get(key)
        since, count = (old.since, old.count) if old is not None else (now, 0)
        found[key] = Fault(since=since, last=now, count=count + times)
    accepted = tuple(key for key in memory.accepted if levels[key][0])
    return msgspec.structs.replace(memory, signals=_counted(memory.signals, signals), accepted=accepted)


def _take_level(found: dict[str, Fault], key: str, on: bool, detail: str, now: float) -> None:
    old = found.get(key)
    if on:
        since = now if old is None or _was_away(key, old, now) else old.since
        found[key] = Fault(since=since, last=now, on=True, detail=detail)
    elif old is not None and old.on:
        found[key] = msgspec.structs.replace(old, on=False)


def _was_away(key: str, fault: Fault, now: float) -> bool:
    """Whether a level that does not count yet begins anew."""
    return severity_of(key, fault) == Severity.NONE and now - fault.last > rule_of(key, fault).gap_s


def _counted(old: DeviceSignals | None, new: DeviceSignals) -> DeviceSignals:
    """``new`` with the highest counts of its epoch: a report that comes late has lower ones and begins nothing anew."""
    if old is None or old.epoch != new.epoch:
        return new
    xids = {code: max(old.xids.get(code, 0), new.xids.get(code, 0)) for code in {*old.xids, *new.xids}}
    return msgspec.structs.replace(new, xids=xids, ecc_uncorrected=max(old.ecc_uncorrected, new.ecc_uncorrected))


def _events(old: DeviceSignals | None, new: DeviceSignals) -> Iterator[tuple[str, int]]:
    """(fault, how many more) of what happened since ``old``.

    A count may go on over an epoch, as the driver's of memory errors does: what is as high as before is no news, so
    neither an agent's new start nor a reset takes a GPU out of use for what was dealt with. A lower one began anew.
    """
    before = old.xids if old is not None else {}
    for code, count in new.xids.items():
        known_count = before.get(code, 0)
        anew = old is not None and old.epoch != new.epoch and count < known_count
        times = count if anew else count - known_count
        if times > 0 and code.isdecimal():
            key = f"{known.XID}{int(code)}"
            if rule_of(key, Fault(since=0.0, last=0.0)).severity > Severity.NONE:
                yield key, times
    if old is not None and new.ecc_uncorrected > old.ecc_uncorrected:
        yield known.ECC, new.ecc_uncorrected - old.ecc_uncorrected


# --- what follows -----------------------------------------------------------------------------------------------


def _settled(state: State, memory: Memory, now: float, *, repaired: bool = False, occupied: bool = True) -> State:
    rows = told(replace(state, memory=memory))
    worst = rows[0].severity if rows else Severity.NONE
    health = _next(state, worst, now, on_trial=memory.on_trial or repaired, occupied=occupied)
    out_of_use = health in ("draining", "fenced")
    on_trial = health != "healthy" and (memory.on_trial or out_of_use or (repaired and state.health != "healthy"))
    memory = msgspec.structs.replace(memory, on_trial=on_trial)
    since = state.since if health == state.health else now
    return State(health, since, _reason(health, rows), memory)


def _next(state: State, worst: Severity, now: float, *, on_trial: bool, occupied: bool) -> Health:
    if worst == Severity.FENCE:
        return "fenced"
    if worst == Severity.DRAIN:
        return "fenced" if state.health == "fenced" or not occupied else "draining"
    if worst == Severity.WATCH:
        return "suspect"
    if state.health == "probation":
        return "healthy" if now - state.since >= PROBATION_S else "probation"
    if state.health == "healthy":
        return "healthy"
    return "probation" if on_trial or state.health in ("draining", "fenced") else "healthy"


def _reason(health: Health, rows: list[Told]) -> str:
    if rows:
        sentences = dict.fromkeys(row.sentence for row in rows)
        return ". ".join([*sentences, rows[0].todo])[:MOST_REASON]
    return ON_PROBATION if health == "probation" else ""
