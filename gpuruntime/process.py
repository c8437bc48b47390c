"""Who a process is: its pid together with the kernel's time of its start. A pid alone is reused."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1
# Loaded here: between fork and exec, where it may be called, nothing must be.
_libc = ctypes.CDLL(None)


def end_with_parent(number: signal.Signals) -> None:
    """The kernel sends this process ``number`` when the thread that started it ends (prctl(2))."""
    _libc.prctl(_PR_SET_PDEATHSIG, number)


def leave_the_end_to_parent() -> None:
    """For a process whose parent says when it ends: what a terminal or a group's end sends to all does not end it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL)


def process_start_time(pid: int) -> float | None:
    """Seconds from boot to the start of ``pid``; None for a zombie or when there is no such process.

    Reads ``/proc/PID/stat`` (proc(5)): field 2 is the command in parentheses and may itself hold spaces and
    parentheses, so fields are counted from the last ``)``; field 3 is the state, field 22 the start in clock ticks.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19]) / _TICKS_PER_S


def is_process(pid: int, start_time: float) -> bool:
    """Whether ``pid`` still is the process that started at ``start_time`` and has not ended."""
    found = process_start_time(pid)
    return found is not None and abs(found - start_time) < 1.5 / _TICKS_PER_S


def resident_bytes() -> int:
    """Physical memory that this process and those it started hold now; pages that they share count for each."""
    pages, pids = 0, [os.getpid()]
    while pids:
        folder = Path(f"/proc/{pids.pop()}")
        with contextlib.suppress(OSError):  # it has just ended
            pages += int((folder / "statm").read_text().split()[1])
            for task in (folder / "task").iterdir():
                pids += map(int, (task / "children").read_text().split())
    return pages * os.sysconf("SC_PAGE_SIZE")
