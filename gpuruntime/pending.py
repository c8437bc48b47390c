"""The one question of everything that looks for marks in text that comes in pieces."""

from __future__ import annotations


def longest_pending(text: str, mark: str) -> int:
    """Length of the longest suffix of ``text`` that is a proper beginning of ``mark``."""
    for length in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:length]):
            return length
    return 0
