"""Accounts as a door closes them: numbered without a gap, once each, in the order of its spool."""

from __future__ import annotations

import time
from pathlib import Path

from gpuruntime.backend import BackendStats
from gpuruntime.door.counting import Account, Counter
from gpuruntime.door.metrics import Metrics
from gpuruntime.door.spool import Spool
from gpuruntime.goodput import Outcome


def test_accounts_are_numbered_from_one_in_the_order_they_end(tmp_path: Path) -> None:
    began = time.time()
    spool = Spool(str(tmp_path), "rep_1", "e1")
    counter = Counter("dep_1", "rep_1", "e1", spool, Metrics("m", lambda: (BackendStats(), 0)))
    accounts = [Account(f"req_{i}", "ten_1", time.monotonic()) for i in range(5)]
    for account in reversed(accounts):
        counter.end(account, Outcome.CLIENT_LEFT)
        counter.end(account, Outcome.FAILED)  # every way out may call it
    sent = spool.unsent()
    assert [(one.request_id, one.number, one.outcome) for one in sent] == [
        (f"req_{4 - i}", i + 1, "client_left") for i in range(5)
    ]
    assert all(began - 1 <= (one.ended_at or 0) <= time.time() + 1 for one in sent)
