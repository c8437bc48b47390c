"""Drafts from the text itself: what followed the last time the same words stood there (prompt lookup).

Every pair of neighbouring tokens heads a chain of its earlier places, newest first, as LZ77's hash chains do. A
lookup follows the chain of the last pair and takes the place with the longest common history, the newest of equals.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuruntime.engine.request import Request
from gpuruntime.engine.scheduler import Row

CANDIDATES = 8
LONGEST_MATCH = 16


class PairIndex:
    """Where each pair of tokens of one growing text has stood."""

    def __init__(self) -> None:
        self._newest: dict[tuple[int, int], int] = {}
        self._earlier: list[int] = [-1]

    def extend(self, tokens: Sequence[int]) -> None:
        """Enters the pairs that ``tokens`` has gained, all but the last one: a text does not follow itself."""
        for end in range(len(self._earlier), len(tokens) - 1):
            pair = (tokens[end - 1], tokens[end])
            self._earlier.append(self._newest.get(pair, -1))
            self._newest[pair] = end

    def follows(self, tokens: Sequence[int], most: int) -> tuple[int, ...]:
        """Up to ``most`` tokens that may come next; a period at the end of the text is continued."""
        self.extend(tokens)
        place = self._best_place(tokens)
        if place < 0:
            return ()
        guess: list[int] = []
        period = len(tokens) - 1 - place
        for index in range(most):
            guess.append(tokens[place + 1 + index] if index < period else guess[index - period])
        return tuple(guess)

    def _best_place(self, tokens: Sequence[int]) -> int:
        if len(tokens) < 2:
            return -1
        place = self._newest.get((tokens[-2], tokens[-1]), -1)
        best, longest = -1, 0
        for _ in range(CANDIDATES):
            if place < 0:
                break
            length = _common_history(tokens, place)
            if length > longest:
                best, longest = place, length
            if longest == LONGEST_MATCH:
                break
            place = self._earlier[place]
        return best


def _common_history(tokens: Sequence[int], place: int) -> int:
    """How many tokens up to ``place`` equal the text's last ones, at most ``LONGEST_MATCH``."""
    last = len(tokens) - 1
    length = 0
    while length < LONGEST_MATCH and place >= length and tokens[place - length] == tokens[last - length]:
        length += 1
    return length


class NgramProposer:
    """Implements ``speculation.Proposer`` without a model."""

    round_s = 0.0

    def __init__(self) -> None:
        self._indexes: dict[int, PairIndex] = {}
        self._guesses: dict[int, tuple[int, ...]] = {}

    def depths(self, rows: Sequence[Row], most: Sequence[int]) -> list[int]:
        self._guesses.clear()
        for row, count in zip(rows, most, strict=True):
            request = row.request
            index = self._indexes.setdefault(request.key, PairIndex())
            self._guesses[request.key] = index.follows(request.tokens, count)
        return [len(self._guesses[row.request.key]) for row in rows]

    def propose(self, rows: Sequence[Row], depths: Sequence[int]) -> list[tuple[int, ...]]:
        return [self._guesses[row.request.key][:depth] for row, depth in zip(rows, depths, strict=True)]

    def free(self, request: Request) -> None:
        self._indexes.pop(request.key, None)
        self._guesses.pop(request.key, None)

    def audit(self) -> None:
        """It holds no blocks."""
