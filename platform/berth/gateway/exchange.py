"""One admitted request, from the choice of a door to its verdict.

    door --> [pump: count, strip] --> outbox --> [run: send] --> client
                                                 [watch: did the client leave?]

The pump never waits for the client, so a slow reader changes no time of the verdict. Nothing of an answer is sent
before its first token, so until then another door can begin anew; later one goes on where it can (``failover``). A
stream on which nothing is sent for ``KEEP_ALIVE_S`` gets a comment, which opens it: what fails from then on is an event
of it. ``finish`` is called on every way out; the first call counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from starlette.types import Receive, Send

from berth.gateway.admission import Grant
from berth.gateway.asked import Asked
from berth.gateway.errors import ApiError, PassedError, send_error, send_json
from berth.gateway.failover import DOOR_BROKE, DOOR_COUNTS, MOST_RESUMES, DoorBroke, Trail, broken_off, never_reached
from berth.gateway.forward import DoorLost, DoorRefused, door_headers, error_code, load_of, open_stream
from berth.gateway.frames import DONE, KEEP_ALIVE, BadStream, StreamFilter, error_event
from berth.gateway.limits import holders_of
from berth.gateway.outcomes import Judged, judge_exchange, outcome_of, verdict_event, verdict_of
from berth.gateway.snapshot import Limits, Replica, Route
from berth.gateway.tracing import NO_TRACE, RequestTrace
from berth.metering.records import OpenRecord
from gpuruntime.goodput import Outcome, Timeline
from gpuruntime.protocol import DEGRADED, MARKS, RESUME, WHEN_LATE

if TYPE_CHECKING:
    from berth.gateway.app import Gateway

UNREAD_BYTES = 256 << 10
UNREAD_S = 30.0
UNREAD_MOST_BYTES = 8 << 20
KEEP_ALIVE_S = 10.0

log = logging.getLogger(__name__)


def now_us() -> int:
    return time.monotonic_ns() // 1000


class Exchange:
    def __init__(
        self,
        gateway: Gateway,
        route: Route,
        request: Asked,
        opened: OpenRecord,
        arrived_us: int,
        *,
        key_limits: Limits,
        wants_verdict: bool,
        trace: RequestTrace = NO_TRACE,
    ) -> None:
        self.route = route
        self.request = request
        self.opened = opened
        self.request_id = opened.request_id
        self.line = Timeline(arrived_us, route.level.tpot_us)
        self.frames = self._new_frames()
        self.replica_id = ""
        self.reached = False
        self.trail = Trail(gateway.replicas, route, request.affinity)
        self.resumes = 0
        self.grant = Grant(holders_of(route, opened.key_id, key_limits))
        self.ready_at_arrival = gateway.replicas.any_up(route.deployment_id)
        self.judged: Judged | None = None
        self._gateway = gateway
        self._key_limits = key_limits
        self._wants_verdict = wants_verdict
        self._trace = trace
        self._collector = None if request.stream else request.collector()
        self._outbox: list[bytes] = []
        self._unread = 0
        self._blocked_s: float | None = None
        self._sent_s = time.monotonic()
        self._opened = False
        self._keeps_alive = False
        self._news = asyncio.Event()
        self._ended = False
        self._left = False
        self._degraded = ""
        self._slow = False
        self._error: ApiError | None = None
        self._task: asyncio.Task[None] | None = None
        self._pumping: asyncio.Task[None] | None = None

    def _new_frames(self) -> StreamFilter:
        stream = self.request.stream
        return StreamFilter(
            include_usage=self.request.include_usage or not stream,
            continuous=self.request.continuous_usage and stream,
            several=self.request.choices > 1,
        )

    # --- The client's side --------------------------------------------------------------------------------------

    async def run(self, receive: Receive, send: Send) -> None:
        """Until the client has its answer, or is gone. Raises ``ApiError`` when it is not let in."""
        with self._trace.timed("route"):
            first = self._gateway.replicas.choose(self.route, self.request.affinity, set())
        prompt, output = self.request.reserve(self.route.default_max_tokens)
        room = not self.route.limits.bursts or self._gateway.replicas.has_room(self.route.deployment_id)
        try:
            with self._trace.timed("admission"):
                self.grant = await self._gateway.admission.ask(
                    self.route,
                    self.opened,
                    prompt + output,
                    first.id if first else "",
                    cost=self.route.prices.most(prompt, output),
                    key_limits=self._key_limits,
                    room=room,
                )
        except ApiError as error:
            self.finish(Outcome.OVER_QUOTA if error.status == 429 else Outcome.REFUSED, error.status)
            raise
        self._task = asyncio.current_task()
        self._gateway.open[self.request_id] = self
        self._pumping = asyncio.create_task(self._pump(first))
        watching = asyncio.create_task(self._watch(receive))
        try:
            await (self._send_stream(send) if self.request.stream else self._send_whole(send))
        except asyncio.CancelledError:
            if not self._slow:
                raise
            _abort(send)
        finally:
            watching.cancel()
            if not self._ended:
                self._pumping.cancel()
            self.finish(Outcome.TRUNCATED if self.line.tokens else Outcome.FAILED)
            self._gateway.open.pop(self.request_id, None)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._left = True
        self._end_early(Outcome.CLIENT_LEFT)

    def _end_early(self, outcome: Outcome) -> None:
        self.finish(outcome)
        if self._pumping is not None and not self._ended:
            self._pumping.cancel()
        self._news.set()

    def check(self, now_s: float) -> None:
        """Called each second: who leaves too much unread for too long is let go, who waits hears that it is waited."""
        blocked = self._blocked_s is not None and now_s - self._blocked_s >= UNREAD_S
        if blocked and (self._unread > UNREAD_BYTES or self._ended) and not self._slow:
            self._let_go()
        elif self.request.stream and self._blocked_s is None and now_s - self._sent_s >= KEEP_ALIVE_S:
            self._keeps_alive = True
            self._news.set()

    def _let_go(self) -> None:
        self._slow = True
        self._end_early(Outcome.CLIENT_SLOW)
        if self._task is not None:
            self._task.cancel()

    async def _send_stream(self, send: Send) -> None:
        while not self._left:
            await self._news.wait()
            self._news.clear()
            if self._left:
                return
            if self._error is not None and not self._opened and not self._outbox:
                await send_error(send, self._error, self.request_id, self.grant.headers)
                return
            body = self._unsent()
            if not self._opened:
                self._opened = True
                await send({"type": "http.response.start", "status": 200, "headers": self._stream_headers()})
            self._blocked_s = time.monotonic()
            await send({"type": "http.response.body", "body": body, "more_body": not self._ended})
            self._sent_s, self._blocked_s = time.monotonic(), None
            if self._ended and not self._outbox:
                return

    def _unsent(self) -> bytes:
        """What the client can have now; a comment where it has waited long for it."""
        body = b""
        if self.line.tokens or self._ended:
            body = b"".join(self._outbox)
            self._outbox.clear()
            self._unread -= len(body)
        alive, self._keeps_alive = self._keeps_alive and not body and not self._ended, False
        return KEEP_ALIVE if alive else body

    async def _send_whole(self, send: Send) -> None:
        while not (self._ended or self._left):
            await self._news.wait()
            self._news.clear()
        if self._left:
            return
        if self._error is not None or self._collector is None:
            error = self._error or ApiError(500, "The answer was lost.", code="internal_error")
            await send_error(send, error, self.request_id, self.grant.headers)
            return
        berth = verdict_of(self) if self._wants_verdict else None
        await send_json(send, 200, self._collector.body(berth), self.request_id, self._answer_headers())

    def _answer_headers(self) -> list[tuple[bytes, bytes]]:
        headers = list(self.grant.headers)
        if self._degraded:
            headers.append((DEGRADED.encode(), self._degraded.encode()))
        if self.request.max_tokens is None:
            headers.append((b"x-berth-max-tokens", b"%d" % self.route.default_max_tokens))
        return headers

    def _stream_headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
            (b"x-request-id", self.request_id.encode()),
            *self._answer_headers(),
        ]

    # --- The door's side ----------------------------------------------------------------------------------------

    async def _pump(self, first: Replica | None) -> None:
        try:
            await self._forward(first)
        except ApiError as error:
            self._fail(error)
        except Exception:
            log.exception("request_failed", extra={"request_id": self.request_id})
            self.finish(Outcome.FAILED, 500)
            self._fail(ApiError(500, "The gateway failed on this request.", code="internal_error"))
        finally:
            self._ended = True
            self._news.set()

    def _fail(self, error: ApiError) -> None:
        """The error's own status before the stream is open, an error event after it."""
        self.finish(outcome_of(error, self.line.tokens), error.status)
        self._error = error
        if not self.line.tokens:
            self._outbox.clear()
            self._unread = 0
        if self._collector is None and (self.line.tokens or self._opened):
            self._post(error_event(error.body()))

    async def _forward(self, replica: Replica | None) -> None:
        """Asks doors until one has ended the answer. Raises ``ApiError`` when none is left."""
        trail = self.trail
        while replica is not None:
            trail.asks(replica)
            self.replica_id = replica.id
            reached = self.reached
            try:
                await self._through(replica)
                return
            except (DoorLost, DoorBroke, BadStream) as error:
                if never_reached(error):
                    self.reached = reached
                log.warning(
                    "door_lost",
                    extra={"request_id": self.request_id, "replica": replica.id, "error": str(error)},
                )
                trail.broke(replica, error, resumes=self._resumes)
                self._go_on(error)
            except DoorRefused as error:
                self.reached = reached or error.code in DOOR_COUNTS
                trail.refused(replica, error, resumes=self._resumes)
            replica = trail.next()
        raise trail.ended(reached=self.reached)

    @property
    def _resumes(self) -> bool:
        """Whether the answer has begun and another door can go on with it."""
        return bool(self.frames.marks)

    def _go_on(self, error: Exception) -> None:
        """After a broken door. Raises ``ApiError`` when the answer can neither go on nor begin anew."""
        if self._resumes:
            promised_ms, now = self.route.level.e2e_ms, now_us()
            late = promised_ms is not None and now - self.line.arrived_us > promised_ms * 1000
            if self.resumes >= MOST_RESUMES or late:
                raise broken_off(error)
            self.frames.cut()
            return
        if isinstance(error, DoorBroke) or (self.line.tokens and self._collector is None):
            raise broken_off(error)
        self._outbox.clear()
        self._unread = 0
        self.frames = self._new_frames()
        if self._collector is not None:
            self._collector = self.request.collector()
            self.line = Timeline(self.line.arrived_us, self.line.tpot_us)

    async def _through(self, replica: Replica) -> None:
        gateway = self._gateway
        # The deadline of an answer that goes on is its next token's, for which the client waits from now on.
        elapsed_ms = 0.0 if self._resumes else (now_us() - self.line.arrived_us) / 1000
        headers = door_headers(replica, self.route, self.opened, elapsed_ms)
        body = self.request.for_door(self.route.tier)
        if self._resumes:
            headers[RESUME] = f"{len(body)} {self.frames.model}"
            headers.pop(WHEN_LATE, None)  # it is late for whoever reads it
            body += self.frames.marks
        with gateway.replicas.carrying(replica), self._trace.calling(headers, replica.id):
            self.reached = True
            async with open_stream(gateway.session, replica, self.request.path, headers, body) as answer:
                gateway.replicas.saw_load(replica, load_of(answer))
                self._degraded = answer.headers.get(DEGRADED, "")
                self._began(answer.headers.get(MARKS, ""))
                while data := await answer.content.readany():
                    self._take(data)
                    if self._ended:
                        break
                else:
                    raise DoorLost("the stream ended early")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await answer.content.readany()  # the end of the response: the connection can be used again

    def _began(self, model: str) -> None:
        """A door answers. ``model``: of its marks; empty: it makes none. Raises ``BadStream``."""
        self.frames.begin(model)
        if self._resumes:
            self.resumes += 1
            self._gateway.resumed += 1

    def _take(self, data: bytes) -> None:
        """Counts at the time of arrival, then hands on what the client is to see."""
        frames = self.frames
        events = frames.take(data)
        now = now_us()
        for choice, tokens in frames.risen():
            self.line.add(tokens, now, choice)
        if self._collector is not None:
            for event in events:
                self._collector.add(event)
        elif events:
            self._post(b"".join(events))
            if self._unread > UNREAD_MOST_BYTES:
                self._let_go()
                return
        if frames.error is not None:
            body = frames.error[5:].strip()
            error = PassedError(500, body, error_code(body) or "engine_failed")
            raise DoorBroke(error) if error.code in DOOR_BROKE else error
        if frames.done:
            self.finish(Outcome.COMPLETED)
            if self._collector is None:
                self._post((verdict_event(self) if self._wants_verdict else b"") + DONE)
            self._ended = True
            self._news.set()
        elif self.line.tokens and self._collector is None:
            self._news.set()

    def _post(self, event: bytes) -> None:
        self._outbox.append(event)
        self._unread += len(event)

    # --- The end ------------------------------------------------------------------------------------------------

    def finish(self, outcome: Outcome, status: int = 200) -> None:
        """Judges and settles, once."""
        if self.judged is not None:
            return
        self.judged = judge_exchange(self, outcome, status, now_us())
        self._trace.ended(self.judged)
        route, accounts = self.route, self._gateway.accounts
        cell = (route.tenant_id, route.deployment_id, route.class_name)
        accounts.count(cell, self.judged.verdict, self.judged.event, self.line.stalls)
        if outcome is not Outcome.OVER_QUOTA:
            accounts.settle(self.judged.event, route.prices)


def _abort(send: Send) -> None:
    """Closes the connection of a reader that does not read at once; uvicorn's ``send`` is bound to its cycle."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
