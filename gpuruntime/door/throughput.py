"""What requests took of late: the basis of the predicted TTFT and of Retry-After."""

from __future__ import annotations

_MOVING = 0.2  # weight of the newest request in the moving averages
_FORGET = 0.98  # of the line through first tokens: it remembers some fifty requests


class Throughput:
    """Moving averages of requests' times, and a line through their prefills: seconds over new prompt tokens."""

    def __init__(self) -> None:
        self.service_s: float | None = None
        self.output_tokens: float | None = None
        self._line = _Line()

    def record_prefill(self, took_s: float, new_tokens: int) -> None:
        """From entering the engine to the first token, with ``new_tokens`` to compute in it before that."""
        self._line.add(new_tokens, took_s)

    def record(self, service_s: float, output_tokens: int) -> None:
        """A request that has ended."""
        self.service_s = _moved(self.service_s, service_s)
        self.output_tokens = _moved(self.output_tokens, output_tokens)

    def prefill_s(self, new_tokens: float) -> float:
        """Until the first token, with so many prompt tokens to compute."""
        base, slope = self._line.fit()
        return base + slope * new_tokens

    def wait_s(self, ahead: int, capacity: int) -> float:
        """How long until ``ahead`` requests have left ``capacity`` places."""
        return ahead * (self.service_s or 0.0) / capacity


class _Line:
    """Least squares with older points forgotten; neither coefficient below zero."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._x = self._y = self._xx = self._xy = 0.0

    def add(self, x: float, y: float) -> None:
        self._weight = _FORGET * self._weight + 1
        self._x = _FORGET * self._x + x
        self._y = _FORGET * self._y + y
        self._xx = _FORGET * self._xx + x * x
        self._xy = _FORGET * self._xy + x * y

    def fit(self) -> tuple[float, float]:
        """Intercept and slope; zeros without points."""
        if not self._weight:
            return 0.0, 0.0
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        spread = self._xx / self._weight - mean_x * mean_x
        if spread <= 1e-9 * (1 + mean_x * mean_x):
            return mean_y, 0.0
        slope = max(0.0, (self._xy / self._weight - mean_x * mean_y) / spread)
        base = mean_y - slope * mean_x
        return (base, slope) if base >= 0 else (0.0, self._xy / self._xx)


def _moved(average: float | None, value: float) -> float:
    return value if average is None else average + _MOVING * (value - average)
