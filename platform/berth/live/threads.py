"""Database work of websockets: in threads of their own, so that a database that hangs holds up no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")

_threads = ThreadPoolExecutor(8, thread_name_prefix="live")


async def in_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs ``work`` in a thread and gives its connection back to the pool."""

    def run() -> R:
        try:
            return work(*args, **kwargs)
        finally:
            connection.close()

    return await asyncio.get_running_loop().run_in_executor(_threads, run)
