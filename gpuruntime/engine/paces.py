"""How much a replica gives at each batch size: steps, their time and their tokens, for the packing's measured rates."""

from __future__ import annotations

from dataclasses import dataclass

from gpuruntime.protocol import Pace


@dataclass(slots=True)
class _Sum:
    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0


class Paces:
    """Totals that only grow. A step belongs to the power of two at or below the number of its requests."""

    def __init__(self) -> None:
        self._sums: dict[int, _Sum] = {}
        self._last = _Sum()

    def step(self, requests: int, took_s: float) -> None:
        """One step."""
        self._last = self._sums.setdefault(1 << max(0, requests.bit_length() - 1), _Sum())
        self._last.steps += 1
        self._last.seconds += took_s

    def produced(self, tokens: int) -> None:
        """The last step gave so many tokens."""
        self._last.tokens += tokens

    def rows(self) -> tuple[Pace, ...]:
        """By batch size, the smallest first."""
        return tuple(Pace(batch, one.steps, one.seconds, one.tokens) for batch, one in sorted(self._sums.items()))
