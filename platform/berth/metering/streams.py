"""The ledger's side of Redis: pieces that arrived and are not booked yet, and requests that are open.

Every piece is delivered to one consumer of the group and stays pending until it is booked, so a run that dies leaves
nothing behind that the next does not find.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import msgspec
import redis

from berth.live import names
from berth.metering.join import OpenState
from berth.metering.models import UsageRecord
from berth.metering.records import Cell, OpenRecord, UsageEvent, encode, open_decoder, usage_decoder
from berth.metering.settling import settle_call
from berth.slas.costs import to_parts
from gpuruntime.goodput import Outcome, Verdict, Window
from gpuruntime.protocol import EndedRequest

CONSUMER = "ledger"
PAGE = 1000
NEW_AT_ONCE = 20_000
SUSPECT_S = 5.0
DELTAS_KEPT = 20_000

log = logging.getLogger(__name__)
_ended_decoder = msgspec.json.Decoder(EndedRequest)


@dataclass(frozen=True, slots=True)
class Piece:
    """One entry: which stream, its id, when Redis received it."""

    stream: str
    id: str
    value: UsageEvent | EndedRequest

    @property
    def at_s(self) -> float:
        return int(self.id.partition("-")[0]) / 1000


class Streams:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._settle = client.register_script((resources.files("berth.gateway") / "settle.lua").read_text())
        for stream in (names.USAGE_STREAM, names.ENDED_STREAM):
            try:
                client.xgroup_create(stream, names.LEDGER_GROUP, id="0", mkstream=True)
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    def now(self) -> float:
        seconds, micros = self._client.time()
        return int(seconds) + int(micros) / 1e6

    def pieces(self) -> list[Piece]:
        """All that is not booked: first what is new is claimed, then all that is claimed is read."""
        for _ in range(NEW_AT_ONCE // PAGE):
            if not self._read(">", ">"):
                break
        found: list[Piece] = []
        after = {names.USAGE_STREAM: "0", names.ENDED_STREAM: "0"}
        while page := self._read(after[names.USAGE_STREAM], after[names.ENDED_STREAM]):
            for stream, entries in page:
                after[stream] = entries[-1][0]
                found += [piece for entry_id, fields in entries if (piece := self._piece(stream, entry_id, fields))]
        return found

    def _read(self, usage_id: str, ended_id: str) -> list[tuple[str, list[tuple[str, dict[str, str]]]]]:
        streams = {names.USAGE_STREAM: usage_id, names.ENDED_STREAM: ended_id}
        answer = self._client.xreadgroup(names.LEDGER_GROUP, CONSUMER, streams, count=PAGE) or []
        pairs = answer.items() if isinstance(answer, dict) else answer
        return [(stream, _entries(entries)) for stream, entries in pairs if _entries(entries)]

    def _piece(self, stream: str, entry_id: str, fields: dict[str, str] | None) -> Piece | None:
        """None for an entry that was deleted under its claim, or that nobody can read: it is let go."""
        try:
            if fields:
                if stream == names.USAGE_STREAM:
                    return Piece(stream, entry_id, usage_decoder.decode(fields["record"]))
                return Piece(stream, entry_id, _ended_decoder.decode(fields["request"]))
        except (msgspec.DecodeError, KeyError) as error:
            log.error("piece_not_readable", extra={"stream": stream, "id": entry_id, "error": str(error)})
        self._client.xack(stream, names.LEDGER_GROUP, entry_id)
        return None

    def booked(self, pieces: Iterable[Piece]) -> None:
        """Lets go of pieces whose record is in the database."""
        by_stream: dict[str, list[str]] = {}
        for piece in pieces:
            by_stream.setdefault(piece.stream, []).append(piece.id)
        for stream, ids in by_stream.items():
            for start in range(0, len(ids), PAGE):
                with self._client.pipeline(transaction=True) as pipe:
                    pipe.xack(stream, names.LEDGER_GROUP, *ids[start : start + PAGE])
                    pipe.xdel(stream, *ids[start : start + PAGE])
                    pipe.execute()

    # --- Liveness -----------------------------------------------------------------------------------------------

    def alive(self, replica_ids: Iterable[str]) -> set[str]:
        ids = sorted(set(replica_ids) - {""})
        values = self._client.mget([names.alive(replica_id) for replica_id in ids]) if ids else []
        return {replica_id for replica_id, value in zip(ids, values, strict=True) if value is not None}

    def lost_gateways(self, gateway_ids: Iterable[str], now: float) -> set[str]:
        """Those without a heartbeat now, and already at a look at least five seconds ago.

        One look is not enough: after Redis was away every heartbeat is gone for a moment.
        """
        ids = sorted(set(gateway_ids))
        if not ids:
            return set()
        beats = self._client.mget([names.gateway(gateway_id) for gateway_id in ids])
        lost = set()
        for gateway_id, beat in zip(ids, beats, strict=True):
            if beat is not None:
                self._client.hdel(names.SUSPECTS, gateway_id)
            elif self._client.hsetnx(names.SUSPECTS, gateway_id, now) == 0:
                since = float(self._client.hget(names.SUSPECTS, gateway_id) or now)
                if now - since >= SUSPECT_S:
                    lost.add(gateway_id)
        return lost

    # --- Open requests ------------------------------------------------------------------------------------------

    def open_requests(self) -> dict[str, OpenState]:
        ids = sorted(self._client.smembers(names.OPEN_REQUESTS))
        found: dict[str, OpenState] = {}
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            with self._client.pipeline(transaction=False) as pipe:
                for request_id in page:
                    pipe.hgetall(names.open_request(request_id))
                states = pipe.execute()
            for request_id, fields in zip(page, states, strict=True):
                if fields:
                    found[request_id] = _open_state(fields)
                else:  # closed between the two questions, or a day old
                    self._client.srem(names.OPEN_REQUESTS, request_id)
        return found

    def close_open(self, row: UsageRecord) -> bool:
        """True for the one that closes it. What it had reserved and not used is given back."""
        opened = OpenRecord(
            request_id=row.request_id,
            tenant_id=row.tenant_id,
            deployment_id=row.deployment_id,
            deployment_name=row.deployment_name,
            key_id=row.key_id,
            at=row.arrived_at.timestamp(),
        )
        used = row.prompt_tokens + row.completion_tokens
        keys, args = settle_call(opened, used=used, cost=to_parts(row.cost))
        return bool(self._settle(keys=keys, args=args))

    def publish_lost(self, cell: tuple[str, str, str], verdict: Verdict) -> None:
        window = Window()
        window.record(verdict, Outcome.GATEWAY_LOST)
        fields = {"kind": "requests", "gateway": CONSUMER, "cells": encode([Cell(*cell, window.to_json())])}
        self._client.xadd(names.DELTAS_STREAM, fields, maxlen=DELTAS_KEPT, approximate=True)


def _entries(entries: Any) -> list[tuple[str, dict[str, str]]]:
    """Entries of one stream, in the shape of either wire protocol."""
    if entries and isinstance(entries[0], list) and entries[0] and isinstance(entries[0][0], tuple | list):
        return [entry for page in entries for entry in page]
    return list(entries or [])


def _open_state(fields: dict[str, str]) -> OpenState:
    return OpenState(
        record=open_decoder.decode(fields["record"]),
        gateway_id=fields.get("gateway", ""),
        replica_id=fields.get("replica", ""),
        prompt_tokens=int(fields.get("prompt_tokens", 0)),
        completion_tokens=int(fields.get("tokens", 0)),
        seen_s=int(fields.get("seen_ms", 0)) / 1000,
    )
