"""Keeps a set of children alive, stops them in order, kills them at once when told so twice."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from berth.embedded import statefile
from berth.embedded.children import Child, ChildSpec, State, end_record

TICK_S = 0.05
LIVE_LOG_BYTES = 64 << 20
_LOG_CHECK_S = 60.0


class Supervisor:
    """``children`` by name, in the order they were added. One thread only: nothing here is locked."""

    def __init__(self, state_file: Path) -> None:
        self.children: dict[str, Child] = {}
        self._state_file = state_file
        self._left = statefile.read(state_file)
        self._next_log_check = time.monotonic() + _LOG_CHECK_S

    def clear_remains(self, specs: Mapping[str, ChildSpec]) -> None:
        """Ends what an earlier ``up`` left behind and ``specs`` (name -> what would run now) does not fit."""
        for name, record in list(self._left.items()):
            if not record.alive():
                end_record(record, 0)
                del self._left[name]
            elif name not in specs or specs[name].fingerprint != record.fingerprint:
                end_record(record, 5.0)
                del self._left[name]
        self._save()

    def adoptable(self, name: str) -> bool:
        return name in self._left and self._left[name].alive()

    def add(self, spec: ChildSpec) -> Child:
        """Runs ``spec``: adopts what ``clear_remains`` kept, else starts it. Raises OSError."""
        child = self.children[spec.name] = Child(spec, self._save)
        left = self._left.pop(spec.name, None)
        if left is not None and left.alive() and left.fingerprint == spec.fingerprint:
            child.adopt(left)
            self._save()
        else:
            child.start()
        return child

    def forget(self, name: str) -> None:
        """A job that ended."""
        del self.children[name]
        self._save()

    def tick(self) -> None:
        """One look at every child; never blocks."""
        for child in self.children.values():
            child.poll()
        if time.monotonic() > self._next_log_check:
            self._next_log_check = time.monotonic() + _LOG_CHECK_S
            for child in self.children.values():
                cut_live_log(child.spec.log)

    def stop(self, names: Iterable[str], deadline: float) -> None:
        """Asks ``names`` to stop, all at once, and waits: each its own grace, none past ``deadline`` (monotonic)."""
        waiting = [self.children[name] for name in names if name in self.children]
        asked = time.monotonic()
        for child in waiting:
            child.ask_to_stop()
        while waiting := [child for child in waiting if not child.gone()]:
            now = time.monotonic()
            for child in waiting:
                if now > min(asked + child.spec.grace_s, deadline):
                    child.kill()
            time.sleep(0.01)
        self._save()

    def stop_all(self, deadline: float) -> None:
        self.stop(list(self.children), deadline)
        for record in self._left.values():
            end_record(record, 1.0)
        self._left.clear()
        self._state_file.unlink(missing_ok=True)

    def kill_all(self) -> None:
        """No waiting, no order. Safe in a signal handler: only kill(2), and files stay as they are."""
        for child in list(self.children.values()):
            child.kill()

    def running(self, name: str) -> bool:
        return name in self.children and self.children[name].state is State.RUNNING

    def _save(self) -> None:
        records = {name: child.record for name, child in self.children.items() if child.record is not None}
        with contextlib.suppress(OSError):  # a full disk must not take the house down; the next change writes again
            statefile.write(self._state_file, {**self._left, **records})


def cut_live_log(path: Path, limit: int = LIVE_LOG_BYTES) -> None:
    """A log that its writer holds open (O_APPEND) and that grew past ``limit``: copied to NAME.log.1, then emptied."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > limit:
            shutil.copyfile(path, path.with_name(path.name + ".1"))
            with path.open("r+b") as handle:
                handle.truncate(0)


def wait_until(
    condition: Callable[[], bool], tick: Callable[[], None], *, timeout_s: float, failed: Callable[[], str] = lambda: ""
) -> str:
    """Ticks until ``condition``; returns "" then, else why not (what ``failed`` says, or that time ran out)."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if why := failed():
            return why
        if time.monotonic() > deadline:
            return f"took longer than {timeout_s:.0f} s"
        tick()
        time.sleep(TICK_S)
    return ""
