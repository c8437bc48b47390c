"""How long a test waits for what has to come.

The bound only ends a test that would never end; one that a slow or busy machine can reach would fail without a fault.
How soon something happens is a figure, and figures are measured under ``benchmarks/``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import psutil

PATIENCE_S = 120.0
# What a check may meet while a process starts, ends or does not know something yet.
NOT_YET = (OSError, AssertionError, LookupError, psutil.NoSuchProcess)


def eventually(
    check: Callable[[], Any], what: str = "", *, every_s: float = 0.05, patience_s: float = PATIENCE_S
) -> Any:
    """The first truthy result of ``check``; its last value or exception is in the failure."""
    deadline = time.monotonic() + patience_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = check()
        except NOT_YET as error:
            last = error
        else:
            if last:
                return last
        time.sleep(every_s)
    raise AssertionError(f"not within {patience_s:.0f} s: {what or check} (last: {last!r})")


async def soon(check: Callable[[], Any], what: str = "") -> Any:
    """``eventually``, with the loop at work meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE_S:.0f} s: {what or check} (last: {value!r})")
        await asyncio.sleep(0.005)
    return value
