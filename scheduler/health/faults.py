"""What can be wrong with a GPU, in one table: how bad it is, for how long it must be seen, and how it passes. Pure.

level    something that holds now (heat, a reset that the driver asks for); it passes when it is gone
event    something that happened (an XID, a memory error); a grave one stays until a repair, or until a person clears it
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from scheduler.health.catalogue import Severity, todo, xid

MINUTE_S = 60.0
# A level that is away for less was never away: a throttling GPU flickers around its limit.
GAP_S = 15.0
# Boost and fans settle within it; a GPU that heat holds down for longer is slower than what was measured of it.
THERMAL_AFTER_S = 1 * MINUTE_S
# Long enough for someone to look at the cooling, short against the hours that replicas would miss their level.
THERMAL_DRAIN_S = 10 * MINUTE_S
# Reports of a connection that ended may still come after those of the next: one without it is no proof yet.
STALE_S = 10.0
# Heat and speed come back with load: what was seen for some minutes is not over in one.
LEVEL_QUIET_S = 10 * MINUTE_S
# Three looks of five minutes each agree (scheduler.health.stragglers); a replica's warm-up is over by then.
SLOW_AFTER_S = 3 * MINUTE_S
# It is measured every minute, and a look may be lost.
SLOW_GAP_S = 2.5 * MINUTE_S
# A slow GPU still serves; moving its replicas costs their caches and a loading each.
SLOW_DRAIN_S = 30 * MINUTE_S
# Errors of a failing part come minutes apart; one that stays alone for so long was a stray particle.
EVENT_QUIET_S = 30 * MINUTE_S
# The third within that quiet time is no chance.
REPEATED = 3

OPERATOR, LOST, RECOVERY, REMAP_FAILED = "operator", "lost", "recovery", "remap_failed"
REMAP_PENDING, ECC, THERMAL, SLOW, XID = "remap_pending", "ecc", "thermal", "slow", "xid:"


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong. Times: seconds since 1970.

    ``since``: when it was first seen; ``last``: when last; ``on``: a level holds still. ``count``: of events.
    ``detail``: the recovery action, the operator's words or the measured share of speed.
    """

    since: float
    last: float
    on: bool = False
    count: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """``after_s``: a level counts once it was seen for so long; ``gap_s`` without it do not matter. ``quiet_s``: for
    how long it is remembered once gone; None: until a repair or a person. ``drain_s``: seen for so long, it is to be
    drained. ``repeated``: events from which on it is to be drained. ``grave_todo``: what is to be done then.
    """

    severity: Severity
    sentence: str
    todo: str
    after_s: float = 0.0
    gap_s: float = GAP_S
    quiet_s: float | None = STALE_S
    drain_s: float | None = None
    repeated: int | None = None
    grave_todo: str = ""


# What NVIDIA says of each: https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html
# gpu_reset: end all processes; node_reboot: the system may be inconsistent; drain_p2p: end traffic between GPUs, ask
# again; drain_and_reset: less capacity, what runs is not concerned. bus_reset, system_reboot: by analogy.
RECOVERY_ACTIONS: dict[str, Rule] = {
    "gpu_reset": Rule(Severity.FENCE, "The driver asks for a reset of the GPU", todo("reset")),
    "node_reboot": Rule(Severity.FENCE, "The driver asks for a reboot of the node", todo("reboot")),
    "bus_reset": Rule(Severity.FENCE, "The driver asks for a reset of the GPU's bus", todo("reboot")),
    "system_reboot": Rule(Severity.FENCE, "The driver asks for a reboot of the node", todo("reboot")),
    "drain_p2p": Rule(Severity.DRAIN, "The driver asks to end all traffic between this GPU and others", todo("reset")),
    "drain_and_reset": Rule(Severity.DRAIN, "A part of the GPU is out of use until it is reset", todo("reset")),
}
# Of these only a repair makes the driver take back its word.
_TAKEN_BACK_BY_REPAIR = frozenset(RECOVERY_ACTIONS) - {"drain_p2p"}

_RULES: dict[str, Rule] = {
    OPERATOR: Rule(Severity.FENCE, "", "Clear it when it may be used again", quiet_s=None),
    LOST: Rule(Severity.FENCE, "The GPU fell off the bus or answers nothing more", todo("reboot")),
    # Its memory is used up to the bad row, and errors will come again.
    REMAP_FAILED: Rule(Severity.DRAIN, "A faulty row of its memory could not be replaced", todo("replace")),
    # What runs is not concerned (NVIDIA); with nothing new it is empty some day, and may be reset.
    REMAP_PENDING: Rule(
        Severity.WATCH, "A faulty row of its memory is replaced at the next reset", "Reset the GPU when it is empty"
    ),
    ECC: Rule(Severity.DRAIN, "A memory error could not be corrected", todo("reset"), quiet_s=None),
    THERMAL: Rule(
        Severity.WATCH,
        "Heat slows the GPU down",
        "Check its cooling",
        after_s=THERMAL_AFTER_S,
        quiet_s=LEVEL_QUIET_S,
        drain_s=THERMAL_DRAIN_S,
    ),
    SLOW: Rule(
        Severity.WATCH,
        "Its replicas are slower than their siblings on equal slices",
        "Have it tested; clear it to measure anew",
        after_s=SLOW_AFTER_S,
        gap_s=SLOW_GAP_S,
        quiet_s=LEVEL_QUIET_S,
        drain_s=SLOW_DRAIN_S,
    ),
}


def rule_of(key: str, fault: Fault) -> Rule:
    """The rule of one fault. ``key``: one of this module's names, or ``xid:CODE``."""
    if key.startswith(XID):
        return _rule_of_xid(int(key.removeprefix(XID)))
    if key == RECOVERY:
        asked = fault.detail.replace("_", " ")
        # An action that is new to us is no reason to cut off what still answers.
        other = Rule(Severity.DRAIN, f"The driver asks for this: {asked}", todo("reboot"))
        return RECOVERY_ACTIONS.get(fault.detail, other)
    if key == OPERATOR:
        return replace(_RULES[OPERATOR], sentence=fault.detail)
    return _RULES[key]


def severity_of(key: str, fault: Fault) -> Severity:
    """How bad it is by now; NONE while it was not seen for long enough."""
    rule = rule_of(key, fault)
    seen_s = fault.last - fault.since
    if seen_s < rule.after_s:
        return Severity.NONE
    too_long = rule.drain_s is not None and seen_s >= rule.drain_s
    too_often = rule.repeated is not None and fault.count >= rule.repeated
    return max(rule.severity, Severity.DRAIN) if too_long or too_often else rule.severity


def has_passed(key: str, fault: Fault, now: float) -> bool:
    """Whether it may be forgotten."""
    if fault.on:
        return False
    rule, gone_s = rule_of(key, fault), now - fault.last
    if fault.last - fault.since < rule.after_s:
        return gone_s > rule.gap_s
    if rule.quiet_s is None or (rule.repeated is not None and fault.count >= rule.repeated):
        return False
    return gone_s >= rule.quiet_s


def is_repair(key: str, fault: Fault) -> bool:
    """Whether only a repair makes this one pass: then what happened before it passed is over as well."""
    return key == REMAP_PENDING or (key == RECOVERY and fault.detail in _TAKEN_BACK_BY_REPAIR)


def _rule_of_xid(code: int) -> Rule:
    known = xid(code)
    if known is None:
        return Rule(Severity.NONE, "", "")
    sentence = f"The driver reported XID {code}: {known.meaning}"
    watched = known.severity <= Severity.WATCH
    return Rule(
        known.severity,
        sentence,
        known.todo,
        quiet_s=EVENT_QUIET_S if watched else None,
        repeated=REPEATED if known.severity == Severity.WATCH else None,
        grave_todo=todo("reset"),
    )
