"""Pieces of work at the same time, each in a thread with a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from django.db import connection

from berth.core.errors import BerthError


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """What each answered, from threads that start together."""
    start, answers = threading.Barrier(len(works)), [None] * len(works)

    def run(number: int, work: Callable[[], Any]) -> None:
        start.wait()
        try:
            answers[number] = work()
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=item) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return answers


def both(first: Callable[[], object], second: Callable[[], object]) -> list[str]:
    """What each of two ended with: "done" or the error's code, sorted."""

    def end(work: Callable[[], object]) -> str:
        try:
            work()
        except BerthError as error:
            return error.code
        return "done"

    return sorted(at_once(lambda: end(first), lambda: end(second)))
