"""``/ws/runtime``: a replica says who it is, that it lives and what it did, and which requests ended.

Ended requests are acknowledged once they are in ``berth:ended``; until then the runtime keeps them. What could not be
written while Redis was away is tried again with the next message, at the latest a second later.
"""

from __future__ import annotations

import logging

import msgspec
from channels.generic.websocket import AsyncWebsocketConsumer
from redis.exceptions import RedisError

from berth.live import names
from berth.live.peers import replica_of
from berth.live.store import client
from gpuruntime import protocol
from gpuruntime.goodput import Outcome

HELLO_TTL_S = 24 * 3600
DELTAS_KEPT = 20_000
ENDED_KEPT = 1_000_000
WORK_KEPT = 600
MOST_TOKENS = 1 << 31
MOST_S = 1e7
MOST_TOTAL_S = 1e10
MOST_BATCH_SIZES = 32
MOST_NUMBER = 1 << 53
MOST_AT_S = 1e11  # within the calendar

log = logging.getLogger(__name__)
_Account = tuple[str, str, int | None]


class RuntimeConsumer(AsyncWebsocketConsumer):
    channel_layer_alias = "none"  # nothing is pushed to runtimes, so they connect without Redis too
    replica_id = ""

    async def connect(self) -> None:
        self.works: list[str] = []
        self.ended: dict[_Account, protocol.EndedRequest] = {}
        self.refused: set[_Account] = set()
        self.hello = ""
        self.replica_id = replica_of(self.scope["headers"]) or ""
        if not self.replica_id:
            await self.close()
            return
        await self.accept()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            message = protocol.decode_runtime(text_data if text_data is not None else bytes_data or b"")
        except protocol.ProtocolError as error:
            log.warning("runtime_message_refused", extra={"replica": self.replica_id, "error": str(error)})
            await self.close(4400)
            return
        if message.replica_id != self.replica_id:
            await self.close(4403)
            return
        stats = None
        if isinstance(message, protocol.RuntimeHello):
            self.hello = protocol.encode(message)
        elif isinstance(message, protocol.Stats):
            stats = message if credible_paces(message) else msgspec.structs.replace(message, paces=[])
            if credible_work(message.work):
                self.works = [*self.works[-WORK_KEPT:], msgspec.json.encode(message.work).decode()]
            else:
                log.error("work_refused", extra={"replica": self.replica_id})
        else:
            self._take_ended(message.requests)
        try:
            await self._write(stats)
        except (RedisError, OSError) as error:
            log.warning("runtime_report_waits", extra={"replica": self.replica_id, "error": str(error)})

    def _take_ended(self, requests: list[protocol.EndedRequest]) -> None:
        """What cannot be is acknowledged and not booked: one such account must hold up neither spool nor ledger."""
        for request in requests:
            self.ended[_account(request)] = request
            if not credible(request, self.replica_id):
                log.error("account_refused", extra={"replica": self.replica_id, "request_id": request.request_id[:64]})
                self.refused.add(_account(request))

    async def _write(self, stats: protocol.Stats | None) -> None:
        """All that is due in one transaction: it is there or it is not."""
        works, ended = list(self.works), list(self.ended.values())
        async with client().pipeline(transaction=True) as pipe:
            if self.hello:
                pipe.set(names.hello(self.replica_id), self.hello, ex=HELLO_TTL_S)
            if stats is not None:
                pipe.set(names.alive(self.replica_id), stats.epoch, ex=names.ALIVE_TTL_S)
                pipe.set(names.stats(self.replica_id), protocol.encode(stats), ex=names.ALIVE_TTL_S)
            for work in works:
                fields = {"kind": "work", "replica": self.replica_id, "work": work}
                pipe.xadd(names.DELTAS_STREAM, fields, maxlen=DELTAS_KEPT, approximate=True)  # type: ignore[arg-type]
            for request in ended:
                if _account(request) in self.refused:
                    continue
                pipe.xadd(names.ENDED_STREAM, {"request": msgspec.json.encode(request)}, maxlen=ENDED_KEPT)
            await pipe.execute()
        self.hello = ""
        del self.works[: len(works)]
        if ended:
            for request in ended:
                self.ended.pop(_account(request), None)
                self.refused.discard(_account(request))
            ack = protocol.EndedAck(request_ids=[request.request_id for request in ended])
            await self.send(protocol.encode(ack))


def _account(request: protocol.EndedRequest) -> _Account:
    """A request may have several at one replica: its process died, and the next one went on."""
    return request.request_id, request.epoch, request.number


def credible(request: protocol.EndedRequest, replica_id: str) -> bool:
    """Whether it is an account of this replica's own, of counts and times that a request can have."""
    names_fit = (
        request.replica_id == replica_id
        and 0 < len(request.request_id) <= 40
        and max(len(request.tenant), len(request.deployment), len(request.epoch)) <= 32
        and len(request.finish_reason) <= 16
        and request.outcome in set(Outcome)
    )
    counts = (
        request.prompt_tokens, request.completion_tokens, request.cached_tokens, request.new_prompt_tokens,
        request.preemptions, request.running_at_arrival, request.queued_at_arrival,
    )  # fmt: skip
    times_ms = (request.queue_ms, request.prefill_ms, request.decode_ms, request.ttft_ms, request.duration_ms)
    times_s = (request.ideal_s, request.executed_ideal_s)
    texts = (request.request_id, request.tenant, request.deployment, request.epoch, request.finish_reason)
    return (
        names_fit
        and all(0 <= count < MOST_TOKENS for count in counts if count is not None)
        and all(0 <= value <= MOST_S * 1000 for value in times_ms if value is not None)
        and all(0 <= value <= MOST_S for value in times_s if value is not None)
        and 0 <= (request.number or 0) < MOST_NUMBER
        and 0 <= (request.ended_at or 0) < MOST_AT_S
        and "\0" not in "".join(texts)
    )


def credible_paces(stats: protocol.Stats) -> bool:
    """Whether an engine can have such totals: a few batch sizes, each with time and counts that a row can hold."""
    return len(stats.paces) <= MOST_BATCH_SIZES and all(
        0 < row.batch < MOST_TOKENS and 0 <= row.steps < MOST_TOKENS and 0 <= row.tokens <= 1 << 53
        and 0 <= row.seconds <= MOST_TOTAL_S for row in stats.paces
    )  # fmt: skip


def credible_work(work: protocol.Work) -> bool:
    """Whether it is work of one report. Sums that no row can hold would stop the writing of every tenant's minutes."""
    spent = (work.seconds, work.busy_s, work.executed_ideal_s, *work.ideal_s_by_tenant.values())
    return all(0 <= value <= MOST_S for value in spent) and all(
        len(tenant) <= 32 and "\0" not in tenant for tenant in work.ideal_s_by_tenant
    )
