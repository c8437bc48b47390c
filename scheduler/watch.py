"""For how long the control plane has been able to see, and since when each replica is missing. Pure.

A replica that nobody heard of is lost only if somebody was listening. The control plane is blind while no node was
heard (web was away, or Redis, or the network), and it starts anew after a gap between two ticks (the scheduler was
away). Seeing again, it knows of no absence: each must show itself anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

# Agents report each second; a tick comes every 2 s. Longer pauses mean that nobody looked.
NODE_HEARD_S = 5.0
TICK_GAP_S = 6.0


@dataclass(frozen=True)
class Watch:
    """What one tick leaves for the next. Times in seconds of one clock; ``observing_since`` is None while blind."""

    ticked_at: float
    observing_since: float | None = None
    missing_since: Mapping[str, float] = field(default_factory=dict)


def look(previous: Watch | None, *, now: float, any_node_heard: bool, missing: Collection[str]) -> Watch:
    """``missing``: replicas whose liveness has run out, as seen at ``now``. No ``previous``: observation begins."""
    if not any_node_heard:
        return Watch(ticked_at=now)
    continuous = previous is not None and 0 <= now - previous.ticked_at <= TICK_GAP_S
    if previous is None or not continuous or previous.observing_since is None:
        return Watch(ticked_at=now, observing_since=now, missing_since=dict.fromkeys(missing, now))
    return Watch(
        ticked_at=now,
        observing_since=previous.observing_since,
        missing_since={replica: previous.missing_since.get(replica, now) for replica in missing},
    )
