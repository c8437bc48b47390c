"""Ends every runtime of a state folder, for the moment when the whole house stops and nothing may stay behind."""

from __future__ import annotations

import time

from scheduler.node import process
from scheduler.node.paths import StateDir


def stop_all(state: StateDir, *, grace_s: float) -> int:
    """SIGTERM to all, SIGKILL to the sessions that outlast ``grace_s``; returns how many ran."""
    records = [
        record for record in (process.read_record(state, name) for name in process.known_replicas(state)) if record
    ]
    running = [record for record in records if record.alive()]
    for record in running:
        process.terminate(record)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and any(record.alive() for record in running):
        time.sleep(0.05)
    for record in running:
        process.kill(record)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(record.alive() for record in running):
        time.sleep(0.01)
    for record in records:
        process.sweep_session(record)
    for replica_id in process.known_replicas(state):
        process.forget(state, replica_id)
    return len(running)
