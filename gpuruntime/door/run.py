"""One admitted request until its end: its choices in the engine, and the answer on its way to the client.

    engine -> mailbox of each choice -> [run: count, frame] -> client
    [pump: queue, engine, the end]      [watch: did the client leave?]

A pump a choice waits for its turn and for the end; the request's own task sends what it finds in the mailboxes, so a
token costs one wake-up, and frames that are ready at one wake-up leave in one send. The response starts with the first
delta: every failure before it has a status of its own, and the gateway can try another replica.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from starlette.types import Receive, Send

from gpuruntime.backend import Backend, BadPrompt, Delta, EngineFailed, EngineFull, TokenLogprob
from gpuruntime.door.bell import Bell
from gpuruntime.door.choice import Choice, Source, joined_timings
from gpuruntime.door.counting import Account
from gpuruntime.door.errors import ApiError, bad_request
from gpuruntime.door.frames import Writer, error_frame
from gpuruntime.door.replica import Replica
from gpuruntime.door.respond import send_error, send_json, stream_start
from gpuruntime.goodput import Outcome
from gpuruntime.mailbox import Mailbox
from gpuruntime.marks import mark
from gpuruntime.protocol import MARKS, REQUEST_ID

# A step takes some 0.1 s, beside a busy neighbour up to 1 s. What an engine says later than that is not waited for.
ABORT_S = 1.0
_WHOLE = ("stop", "length")

log = logging.getLogger("gpuruntime.run")


class Run:
    """``choices``: each prompt's first one leads it. One that fails fails the request."""

    def __init__(
        self,
        replica: Replica,
        backend: Backend,
        choices: Sequence[Choice],
        account: Account,
        writer: Writer,
        *,
        stream: bool,
        model: str = "",
    ) -> None:
        """``model``: the frames come with marks of this model's tokens; empty: with none."""
        self.account = account
        self._replica = replica
        self._backend = backend
        self._choices = choices
        self._writer = writer
        self._stream = stream
        self._model = model
        self._begun = [choice for choice in choices if choice.finish_reason is None]
        self._open = len(self._begun)
        self._pumps: dict[Choice, asyncio.Task[None]] = {}
        self._pumped: set[Choice] = set()
        self._news = Bell()
        self._error: ApiError | None = None
        self._left = False
        self._started = False

    def fail(self, error: ApiError) -> None:
        """Ends the request with an error, an error frame once tokens were sent. The first error stays."""
        self._error = self._error or error
        self._news.ring()

    async def serve(self, receive: Receive, send: Send) -> None:
        """Cleans up on every way out: the end, an error, a client that left, a server that is stopped."""
        admission = self._replica.admission
        self.account.running_at_arrival, self.account.queued_at_arrival = admission.running, admission.queued
        try:
            if self._begun:  # else the client lacks nothing but the end
                admission.join([choice.ticket for choice in self._begun])
        except ApiError as error:  # counted by the gateway: it never was in the queue
            await send_error(send, error, self.account.request_id)
            return
        self.account.degraded = any(choice.ticket.degraded for choice in self._choices)
        self._pumps = {choice: asyncio.create_task(self._pump(choice)) for choice in self._begun}
        if not self._begun:
            self._news.ring()
        watcher = asyncio.create_task(self._watch(receive))
        try:
            await (self._send_stream(send) if self._stream else self._send_whole(send))
        except ApiError as error:
            await self._end_early()
            self._count()  # before the client can know that it ended
            await self._refuse(send, error)
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._end_early()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self._end_pumps(watcher))
            self._count()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._left = True
        self._news.ring()

    # --- The engine's side --------------------------------------------------------------------------------------

    async def _pump(self, choice: Choice) -> None:
        """Waits for the choice's turn, starts it, and waits for its end."""
        self._pumped.add(choice)
        try:
            await self._replica.admission.turn(choice.ticket)
            try:
                await self._generate(choice)
            finally:
                self._leave(choice)
        except ApiError as error:
            self.fail(error)
        except BadPrompt as error:
            self.fail(bad_request(str(error), error.param, error.code))
        except EngineFull as error:
            self.fail(ApiError(503, f"The replica is full: {error}.", code="queue_full", retry_after_s=1))
        except EngineFailed as error:
            self.fail(ApiError(500, f"The engine failed: {error}", code="engine_failed"))
        except Exception as error:
            log.exception("request_id=%s the engine raised", self.account.request_id)
            self.fail(ApiError(500, f"The engine failed: {type(error).__name__}.", code="engine_failed"))
        finally:
            self._news.ring()

    async def _generate(self, choice: Choice) -> None:
        if not choice.leads:
            await choice.source.begun.wait()
        choice.started_s = time.monotonic()
        self.account.start()
        deltas = self._backend.generate(choice.engine_id, choice.prompt, choice.params)
        feed = deltas if isinstance(deltas, Mailbox) else Mailbox()
        feed.notify = self._led(choice.source, feed) if choice.leads and len(self._choices) > 1 else self._news.ring
        feed.gap = self._replica.metrics.token_gap
        choice.feed = feed
        try:
            if feed is deltas:
                await feed.over.wait()
            else:
                async with contextlib.aclosing(deltas):  # type: ignore[type-var]
                    async for delta in deltas:
                        feed.put(delta)
        finally:
            await feed.aclose()
        if feed.error is not None:
            raise feed.error
        last = feed.last
        reason = None if last is None else last.finish_reason
        if last is not None and reason == "error":
            raise EngineFailed(last.error or "no reason given")
        if reason == "abort":
            # Not the engine's failure: elsewhere it would take as long, so no other replica is to go on with it.
            raise ApiError(500, "The generation took longer than this replica allows.", code="request_timeout")
        if reason not in _WHOLE:
            raise EngineFailed(f"the generation ended early ({reason or 'no reason given'})")
        choice.source.begun.set()  # a leader may end with what it replayed

    def _led(self, source: Source, feed: Mailbox) -> Callable[[], None]:
        def news() -> None:
            if feed.last is not None:  # else it failed: the others need not begin
                source.begun.set()
            self._news.ring()

        return news

    def _leave(self, choice: Choice) -> None:
        admission, feed = self._replica.admission, choice.feed
        now = time.monotonic()
        started = now if choice.started_s is None else choice.started_s
        last = None if feed is None else feed.last
        tokens = choice.new_tokens
        if feed is not None and last is not None and last.finish_reason in _WHOLE:
            admission.throughput.record(now - started, tokens)
        admission.leave(choice.ticket, tokens)

    async def _end_early(self) -> None:
        """Lets an engine that can say what a request cost that nobody reads any more; bounded in time."""
        told = []
        for choice, pump in self._pumps.items():
            if pump.done():
                continue
            if choice.feed is None:
                pump.cancel()
            elif self._backend.abort(choice.engine_id):
                told.append(pump)
        if told:
            await asyncio.wait(told, timeout=ABORT_S)

    async def _end_pumps(self, watcher: asyncio.Task[None]) -> None:
        for choice, pump in self._pumps.items():
            pump.cancel()
            if choice not in self._pumped:  # it never ran, so nothing of it gives the place back
                self._replica.admission.withdraw(choice.ticket)
        await asyncio.gather(watcher, *self._pumps.values(), return_exceptions=True)

    # --- The client's side --------------------------------------------------------------------------------------

    async def _send_stream(self, send: Send) -> None:
        news, writer = self._news, self._writer
        while not self._left:
            await news.heard()
            frames = self._frames()
            if self._error is not None:
                if not frames:
                    raise self._error
                news.ring()
            done = self._open == 0
            if done:
                self._count()  # before the client can know that it ended
                frames.append(writer.end())
            body = b"".join(frames)
            if not body:
                continue
            if not self._started:
                self._started = True
                told = self.account.told() | ({MARKS: self._model} if self._model else {})
                await send(stream_start(self.account.request_id, told))
            await send({"type": "http.response.body", "body": body, "more_body": not done})
            if done:
                return

    def _frames(self) -> list[bytes]:
        """What came since the last call, counted and written."""
        frames = list[bytes]()
        for choice in self._choices:
            for delta in () if choice.feed is None else choice.feed.take():
                self._add(choice, delta)
                if choice.replays(delta):
                    self._replay(choice, delta)
                elif delta.finish_reason is None or delta.finish_reason in _WHOLE:  # else the pump says why it ended
                    frames += self._written(choice, delta)
        return frames

    def _written(self, choice: Choice, delta: Delta) -> list[bytes]:
        writer, reason, frames = self._writer, delta.finish_reason, list[bytes]()
        if not choice.begun:
            choice.begun = True
            frames.append(writer.begin(choice))
        if not choice.silent:
            frames.append(writer.text(choice, delta))
        if reason is not None:
            self._open -= 1
            frames.append(writer.finish(choice))
        if self._model:
            frames.append(mark(choice.index, () if choice.silent else delta.token_ids, reason))
        return frames

    def _replay(self, choice: Choice, delta: Delta) -> None:
        """Brings the writer to where another door's stood; the client has what it says on the way."""
        choice.begun = True
        self._writer.begin(choice)
        scores = tuple(TokenLogprob(token, 0.0) for token in delta.token_ids)
        self._writer.text(choice, replace(delta, logprobs=scores))

    async def _send_whole(self, send: Send) -> None:
        while not self._left:
            await self._news.heard()
            ended = self._collect()
            if self._error is not None:
                raise self._error
            if ended == len(self._choices):
                self._count()
                body = self._writer.whole(self._choices)
                await send_json(send, 200, body, {REQUEST_ID: self.account.request_id} | self.account.told())
                return

    def _collect(self) -> int:
        """Keeps what came; how many choices have ended."""
        for choice in self._choices:
            for delta in () if choice.feed is None else choice.feed.take():
                self._add(choice, delta)
                if not choice.silent:
                    choice.texts.append(delta.text)
                    choice.logprobs += delta.logprobs
        return sum(choice.finish_reason in _WHOLE for choice in self._choices)

    def _add(self, choice: Choice, delta: Delta) -> None:
        source = choice.source
        self.account.add(choice, delta)
        if delta.completion_tokens and not choice.replays(delta):
            self._replica.admission.generated(choice.ticket, delta.completion_tokens - len(choice.answered))
        if choice.leads and not source.computed and delta.completion_tokens and not choice.replays(delta):
            source.computed = True
            source.logprobs = delta.prompt_logprobs
            self._replica.seen.remember(source.hashes)

    async def _refuse(self, send: Send, error: ApiError) -> None:
        if self._started:
            await send({"type": "http.response.body", "body": error_frame(error.body()), "more_body": False})
        else:
            await send_error(send, error, self.account.request_id)

    def _count(self) -> None:
        """One record for whatever entered the queue, with all that was generated, sent or not."""
        account = self.account
        if account.ended:
            return
        for choice in self._choices:
            for delta in () if choice.feed is None else choice.feed.take():
                self._add(choice, delta)
        account.timings = joined_timings(self._choices)
        if self._error is not None and self._error.code == "queue_full" and not account.completion_tokens:
            return  # the engine took none of it: like one the queue refused, it is the gateway's to count
        firsts = [choice.feed.first_s for choice in self._choices if choice.feed is not None]
        account.first_token_s = min((first for first in firsts if first is not None), default=None)
        self._replica.counter.end(account, self._outcome())

    def _outcome(self) -> Outcome:
        if all(choice.finish_reason in _WHOLE for choice in self._choices):
            return Outcome.COMPLETED
        if self._left:
            return Outcome.CLIENT_LEFT
        if self._error is not None and self._error.code == "queue_timeout":
            return Outcome.QUEUE_TIMEOUT
        if self._error is not None and self._error.status == 400:
            return Outcome.INVALID
        return Outcome.TRUNCATED if self.account.completion_tokens else Outcome.FAILED
