"""How the two accounts of one request become one record. Pure: what is known goes in, what is to be done comes out.

usage piece (gateway) + ended piece (door)     -> the gateway's verdict, the door's counts
usage piece alone, its door gone or too late   -> the gateway's counts
ended piece alone, its gateway lost            -> gateway_lost, the door's counts
open request, gateway and door lost            -> gateway_lost, the last counts the gateway wrote
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from berth.metering.models import UsageRecord
from berth.metering.records import OpenRecord, UsageEvent
from gpuruntime.goodput import Outcome, Reason, Verdict
from gpuruntime.protocol import EndedRequest

DOOR_BROKEN_S = 15.0
DOOR_LATE_S = 120.0
_BROKEN = frozenset({Outcome.FAILED.value, Outcome.TRUNCATED.value})
_OPENED = frozenset(OpenRecord.__struct_fields__) - {"at"}
_DOOR_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_DOOR_KNOWS = (
    "new_prompt_tokens", "queue_ms", "prefill_ms", "decode_ms", "preemptions", "ideal_s", "executed_ideal_s",
    "running_at_arrival", "queued_at_arrival",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenState:
    """An open request as Redis has it: its record, and how far its gateway saw it come."""

    record: OpenRecord
    gateway_id: str
    replica_id: str
    prompt_tokens: int
    completion_tokens: int
    seen_s: float


def door_piece(replica_id: str, pieces: Sequence[EndedRequest]) -> EndedRequest | None:
    """The account of the door that served the client; another door that was tried has none or an unserved one."""
    return next((piece for piece in pieces if piece.replica_id == replica_id), None)


def name_of(door: EndedRequest) -> str:
    """The account itself, whose request may have others at the same door; empty for a door without numbers."""
    return "" if door.number is None or door.ended_at is None else f"{door.epoch}:{door.number}"


def still_waits(event: UsageEvent, age_s: float, *, replica_alive: bool) -> bool:
    """Whether the door's account may still come. A broken door keeps none of what it was running."""
    if not event.reached:
        return False
    prompt = event.outcome in _BROKEN or not replica_alive
    return age_s < (DOOR_BROKEN_S if prompt else DOOR_LATE_S)


def record_of(event: UsageEvent, door: EndedRequest | None) -> UsageRecord:
    values: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    del values["at"], values["reached"]
    row = UsageRecord(arrived_at=datetime.fromtimestamp(event.at, UTC), counted_by="gateway", **values)
    if door is not None:
        take_counts(row, door)
    return row


def take_counts(row: UsageRecord, door: EndedRequest) -> None:
    """The door counts with the engine; what passed through the gateway may be a token short."""
    row.counted_by = "door"
    for name in _DOOR_COUNTS:
        setattr(row, name, getattr(door, name))
    for name in _DOOR_KNOWS:
        if (value := getattr(door, name)) is not None:
            setattr(row, name, value)
    row.finish_reason = row.finish_reason or door.finish_reason
    row.counted_as = name_of(door)
    row.counted_at = None if door.ended_at is None else datetime.fromtimestamp(door.ended_at, UTC)


def lost_record(state: OpenState, door: EndedRequest | None) -> UsageRecord:
    """A request whose gateway died: offered, never good, whatever its door made of it."""
    opened = state.record
    row = UsageRecord(
        arrived_at=datetime.fromtimestamp(opened.at, UTC),
        **{name: getattr(opened, name) for name in _OPENED},
        replica_id=door.replica_id if door else state.replica_id,
        outcome=Outcome.GATEWAY_LOST.value,
        status=502,
        counted_by="gateway",
        prompt_tokens=state.prompt_tokens,
        completion_tokens=state.completion_tokens,
        offered=True,
        reason=Reason.FAILED.value,
    )
    if door is not None:
        take_counts(row, door)
        row.e2e_us = int(door.duration_ms * 1000)
        row.ttft_us = None if door.ttft_ms is None else int(door.ttft_ms * 1000)
    return row


def orphan_record(door: EndedRequest, deployment_name: str, at: float) -> UsageRecord:
    """A door's account of which no gateway left a trace: Redis was away from its start to its gateway's end."""
    opened = OpenRecord(
        request_id=door.request_id,
        tenant_id=door.tenant,
        deployment_id=door.deployment,
        deployment_name=deployment_name,
        key_id="",
        at=at - door.duration_ms / 1000,
    )
    return lost_record(OpenState(opened, "", door.replica_id, 0, 0, at), door)


def lost_verdict(row: UsageRecord) -> Verdict:
    """For the windows: a lost request counts against goodput as any other that failed."""
    return Verdict(
        offered=True,
        good=False,
        compatible=False,
        reason=Reason.FAILED,
        ttft_us=row.ttft_us,
        ttft_limit_us=None,
        tpot_us=None,
        fluidity=1.0,
        tokens=row.completion_tokens,
        e2e_us=row.e2e_us,
    )
