"""Two pieces of work at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.db import connection

from berth.core.errors import BerthError


def both(first: Callable[[], object], second: Callable[[], object]) -> list[str]:
    """Each in a thread with a connection of its own; what each ended with: "done" or the error's code, sorted."""
    ends: dict[int, str] = {}
    start = threading.Barrier(2)

    def run(number: int, work: Callable[[], object]) -> None:
        start.wait()
        try:
            work()
            ends[number] = "done"
        except BerthError as error:
            ends[number] = error.code
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate((first, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return sorted(ends.values())
