"""The ledger: every request that reached a door or was offered becomes one UsageRecord, once, whoever died on the way.

Idempotent, and safe to run twice at once: a record is inserted where it is not there yet, and its pieces let go after.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from berth.deployments.models import Deployment
from berth.metering import doors, join
from berth.metering.models import UsageRecord
from berth.metering.records import UsageEvent
from berth.metering.services import BATCH, book
from berth.metering.streams import Piece, Streams
from berth.tenants.services import note_key_use
from gpuruntime.goodput import Outcome
from gpuruntime.protocol import EndedRequest

ORPHAN_S = 60.0
LOST_BOTH_S = 15.0
LOST_LATE_S = 60.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Booked:
    """What one run did."""

    records: list[UsageRecord] = field(default_factory=list)
    corrected: int = 0
    waiting: int = 0


def post(client: Any) -> Booked:
    """One run: books all that is complete or will not become so. ``client``: a Redis client that decodes."""
    streams = Streams(client)
    run = _Run(streams, streams.now())
    run.book_usage()
    run.book_lost_gateways()
    run.book_late_doors()
    return run.booked


class _Run:
    def __init__(self, streams: Streams, now: float) -> None:
        self.booked = Booked()
        self._streams = streams
        self._now = now
        self._usage: dict[str, list[Piece]] = {}
        self._ended: dict[str, list[Piece]] = {}
        pieces = streams.pieces()
        doors.count(_accounts(pieces))
        for piece in pieces:
            kind = self._usage if isinstance(piece.value, UsageEvent) else self._ended
            kind.setdefault(piece.value.request_id, []).append(piece)

    def book_usage(self) -> None:
        """Requests their gateway has closed."""
        alive = self._streams.alive(_event(pieces).replica_id for pieces in self._usage.values())
        rows, done = [], []
        for request_id, pieces in self._usage.items():
            event, ended = _event(pieces), self._ended.get(request_id, [])
            door = join.door_piece(event.replica_id, _accounts(ended))
            age_s = self._now - pieces[0].at_s
            if door is None and join.still_waits(event, age_s, replica_alive=event.replica_id in alive):
                self.booked.waiting += 1
                continue
            rows.append(join.record_of(event, door))
            done += [*pieces, *self._ended.pop(request_id, [])]
        self._insert(rows, done)

    def book_lost_gateways(self) -> None:
        """Open requests whose gateway is dead: from the door's account, or from the last counts."""
        opened = {i: state for i, state in self._streams.open_requests().items() if i not in self._usage}
        lost = self._streams.lost_gateways((state.gateway_id for state in opened.values()), self._now)
        opened = {i: state for i, state in opened.items() if state.gateway_id in lost}
        alive = self._streams.alive(state.replica_id for state in opened.values())
        rows, done = [], []
        for request_id, state in opened.items():
            ended = self._ended.get(request_id, [])
            accounts = _accounts(ended)
            door = join.door_piece(state.replica_id, accounts) or (accounts[0] if accounts else None)
            silent_s = self._now - state.seen_s
            patience_s = LOST_LATE_S if state.replica_id in alive else LOST_BOTH_S
            if door is None and state.replica_id and silent_s < patience_s:
                self.booked.waiting += 1
                continue
            rows.append(join.lost_record(state, door))
            done += self._ended.pop(request_id, [])
        self._insert(rows, done, close=True)

    def book_late_doors(self) -> None:
        """Accounts of doors that are alone: late for a booked request, early for an open one, or of no known one."""
        ended = {i: pieces for i, pieces in self._ended.items() if i not in self._usage}
        if not ended:
            return
        records = UsageRecord.objects.for_platform().filter(request_id__in=list(ended))
        known = set(records.values_list("request_id", flat=True))
        opened = self._streams.open_requests()
        rows, done = [], []
        for request_id, pieces in ended.items():
            if request_id in known:
                done += pieces
            elif request_id in opened or self._now - pieces[0].at_s < ORPHAN_S:
                self.booked.waiting += 1
            else:
                rows += self._orphan(pieces)
                done += pieces
        self._insert(rows, done)

    def _orphan(self, pieces: Sequence[Piece]) -> list[UsageRecord]:
        """A request the door itself turned down as invalid is nobody's usage."""
        account = max(_accounts(pieces), key=lambda one: one.completion_tokens)
        if account.outcome == Outcome.INVALID.value:
            return []
        names = Deployment.objects.for_platform().filter(id=account.deployment).values_list("name", flat=True)
        return [join.orphan_record(account, names.first() or "", account.ended_at or pieces[0].at_s)]

    def _insert(self, rows: list[UsageRecord], done: list[Piece], *, close: bool = False) -> None:
        """Database first, then Redis: a run that dies between the two is repeated and changes nothing."""
        for start in range(0, len(rows), BATCH):
            book(rows=rows[start : start + BATCH])
        self.booked.corrected += doors.settle(_accounts(done))
        note_key_use(used=_last_use(rows))
        self._streams.booked(done)
        if close:
            for row in rows:
                if self._streams.close_open(row):
                    cell = (row.tenant_id, row.deployment_id, row.class_name)
                    self._streams.publish_lost(cell, join.lost_verdict(row))
        self.booked.records += rows


def _last_use(rows: Iterable[UsageRecord]) -> dict[str, datetime]:
    used: dict[str, datetime] = {}
    for row in rows:
        if row.key_id:
            used[row.key_id] = max(row.arrived_at, used.get(row.key_id, row.arrived_at))
    return used


def _event(pieces: Iterable[Piece]) -> UsageEvent:
    event = next(iter(pieces)).value
    if not isinstance(event, UsageEvent):
        raise TypeError(f"expected a gateway's piece, not {type(event).__name__}")
    return event


def _accounts(pieces: Iterable[Piece]) -> list[EndedRequest]:
    return [piece.value for piece in pieces if isinstance(piece.value, EndedRequest)]
