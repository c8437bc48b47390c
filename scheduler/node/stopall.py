"""Ends every runtime of a state folder, for the moment when the whole house stops and nothing may stay behind."""

from __future__ import annotations

import time

from scheduler.node import process
from scheduler.node.paths import StateDir
from scheduler.node.process import ProcessRecord

# A second SIGTERM has a runtime end its streams with an error that clients understand.
AT_ONCE_S = 1.0


def stop_all(state: StateDir, *, grace_s: float) -> int:
    """SIGTERM to all, again after ``grace_s``, then SIGKILL to what is left; returns how many ran."""
    records = [
        record for record in (process.read_record(state, name) for name in process.known_replicas(state)) if record
    ]
    running = [record for record in records if record.alive()]
    for act, wait_s in ((process.terminate, grace_s), (process.terminate, AT_ONCE_S), (process.kill, 5.0)):
        for record in running:
            act(record)
        _await_end(running, wait_s)
    for record in records:
        process.sweep_session(record)
    for replica_id in process.known_replicas(state):
        process.forget(state, replica_id)
    return len(running)


def _await_end(records: list[ProcessRecord], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and any(record.alive() for record in records):
        time.sleep(0.02)
