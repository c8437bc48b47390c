"""Splits text at marks, such as ``<tool_call>``, wherever the pieces end in which it comes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuruntime.pending import longest_pending


class Lexeme(NamedTuple):
    """A mark, or text without one; never empty."""

    text: str
    is_mark: bool


class Lexer:
    """A suffix that may be the beginning of a mark is held until the next piece decides.

    Raises ``ValueError`` for a mark that is empty or begins another: which of them is meant would depend on the pieces.
    """

    def __init__(self, marks: Sequence[str]) -> None:
        for mark in marks:
            if any(other.startswith(mark) for other in marks if other is not mark):
                raise ValueError(f"the mark {mark!r} is empty or begins another of {list(marks)}")
        self._marks = marks
        self._split = re.compile(f"({'|'.join(map(re.escape, marks))})") if marks else None
        self._held = ""

    def push(self, text: str) -> Iterator[Lexeme]:
        if self._split is None:
            return _lexemes([text])
        *parts, rest = self._split.split(self._held + text)
        pending = max(longest_pending(rest, mark) for mark in self._marks)
        self._held = rest[len(rest) - pending :]
        return _lexemes([*parts, rest[: len(rest) - pending]])

    def finish(self) -> Iterator[Lexeme]:
        """What was held when the text ended inside a beginning: it was no mark."""
        held, self._held = self._held, ""
        return _lexemes([held])


def _lexemes(parts: list[str]) -> Iterator[Lexeme]:
    """``re.split`` with one group puts a mark at each odd place."""
    return (Lexeme(part, index % 2 == 1) for index, part in enumerate(parts) if part)
