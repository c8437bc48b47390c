"""What a GPU can be, as far as its MIG mode decides: in the mode that it is in, it is one thing or the others."""

from __future__ import annotations

from gpuruntime.protocol import SliceKind
from scheduler.node.providers.base import MigMode
from scheduler.node.slices import words

KINDS: tuple[SliceKind, ...] = ("whole", "mig", "mps", "time-slice")


def until_reset(mode: MigMode, reset: str) -> dict[SliceKind, str]:
    """Nothing, while a change of mode waits for a reset. ``reset``: how that is done."""
    return dict.fromkeys(KINDS, words.mode_waits(mode.pending, reset))


def of_the_other_mode(mode: MigMode, why: str) -> dict[SliceKind, str]:
    """What it cannot be where its mode stays as it is. ``why`` empty: the mode can be switched."""
    return {kind: why for kind in KINDS if (kind == "mig") != mode.current} if why else {}
