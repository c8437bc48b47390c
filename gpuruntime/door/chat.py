"""``POST /v1/chat/completions``: from the body's bytes to the last frame, as a plain ASGI application.

    client -> [read, check, tokenize] -> [queue] -> engine -> mailbox -> frames -> client
                                         \\_______ pump ______/            \\__ run __/

One task (the pump) waits for its turn and follows the engine; the request's own task sends what it finds in the
mailbox. Frames that are ready at one wake-up leave in one send. The response starts with the first delta, so every
failure before it still has a status of its own and the gateway can try another replica.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from gpuruntime.backend import Backend, BadPrompt, Delta, EngineFailed, Prompt, SamplingParams
from gpuruntime.door.admission import Slo
from gpuruntime.door.chat_request import ChatRequest, parse_chat
from gpuruntime.door.counting import Account
from gpuruntime.door.errors import ApiError, bad_request
from gpuruntime.door.frames import Frames, completion_body, error_frame, usage_of
from gpuruntime.door.queue import Ticket
from gpuruntime.door.replica import Replica
from gpuruntime.door.respond import send_error, send_json
from gpuruntime.door.seen import block_hashes
from gpuruntime.goodput import Outcome
from gpuruntime.openai_api import MAX_BODY_BYTES
from gpuruntime.protocol import (
    REQUEST_ID,
    SALT,
    SLO_FREE_TOKENS,
    SLO_PREFILL_RATE,
    SLO_TTFT_MS,
    TENANT,
    WEIGHT,
)

# A step takes some 0.1 s, beside a busy neighbour up to 1 s. What an engine says later than that is not waited for.
ABORT_S = 1.0

log = logging.getLogger("gpuruntime.chat")
_PLAIN_ID = re.compile(r"[\w.:-]{1,128}")


class ClientLeft(Exception):
    """The client closed the connection while its body was read."""


class ChatEndpoint:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_ID, "")
        request_id = given if _PLAIN_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"
        try:
            body = await read_body(receive)
            run = await self._prepare(body, headers, request_id)
        except ClientLeft:
            return
        except ApiError as error:
            await send_error(send, error, request_id)
            return
        self._replica.entered(run)
        try:
            await run.serve(receive, send)
        finally:
            self._replica.left(run)

    async def _prepare(self, body: bytes, headers: Headers, request_id: str) -> Run:
        received_s = time.monotonic()
        replica = self._replica
        backend, info = replica.require_ready()
        request = parse_chat(body)
        if request.model != replica.config.served_model_name:
            raise ApiError(
                404, f"The model '{request.model}' is not served here.", code="model_not_found", param="model"
            )
        salt = headers.get(SALT, "").encode()
        try:
            prompt = await backend.prepare(request.messages, salt)
        except BadPrompt as error:
            raise bad_request(str(error), error.param, error.code) from error
        except EngineFailed as error:
            raise ApiError(500, f"The engine failed: {error}", code="engine_failed") from error
        replica.require_ready()  # again: a drain may have begun meanwhile, and it waits only for whom it knows
        known = len(prompt.token_ids) if prompt.token_ids is not None else 0
        context = min(info.max_model_len, info.kv_capacity_tokens or info.max_model_len)
        max_tokens = room_for(request, known, context, replica.config.engine.default_max_tokens)
        hashes = [] if prompt.token_ids is None else block_hashes(prompt.token_ids, salt)
        account = Account(request_id, headers.get(TENANT, ""), received_s, prompt_tokens=known)
        if prompt.token_ids is not None:
            account.new_prompt_tokens = replica.seen.new_tokens(hashes, known)
        ticket = replica.admission.ticket(
            account.tenant,
            weight=max(_number(headers, WEIGHT) or 1.0, 1e-3),
            new_prompt_tokens=account.new_prompt_tokens or 0,
            max_tokens=max_tokens,
            slo=read_slo(headers),
            received_s=received_s,
        )
        params = request.params(max_tokens, replica.default_sampling)
        return Run(replica, backend, request, prompt, params, account, ticket, hashes)


def room_for(request: ChatRequest, prompt_tokens: int, context: int, default: int) -> int:
    """The output limit: the client's, never lowered, or the deployment's default within the context."""
    left = context - prompt_tokens
    if left < 1 or (request.max_tokens or 0) > left:
        asked = f" and {request.max_tokens} output tokens were asked for" if request.max_tokens else ""
        raise bad_request(
            f"This model's maximum context length is {context} tokens, but the messages are "
            f"{prompt_tokens} tokens{asked}. Shorten the messages or lower max_tokens.",
            "messages" if left < 1 else "max_tokens",
            "context_length_exceeded",
        )
    return request.max_tokens or min(default, left)


@dataclass(slots=True, eq=False)
class Run:
    """One admitted request until its end. ``_deltas`` with ``_news`` is the mailbox between pump and sender."""

    replica: Replica
    backend: Backend
    request: ChatRequest
    prompt: Prompt
    params: SamplingParams
    account: Account
    ticket: Ticket
    hashes: Sequence[bytes]
    _deltas: list[Delta] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _error: ApiError | None = None
    _left: bool = False
    _started: bool = False

    def fail(self, error: ApiError) -> None:
        """Ends the request with an error, an error frame once tokens were sent. The first error stays."""
        self._error = self._error or error
        self._news.set()

    async def serve(self, receive: Receive, send: Send) -> None:
        """Cleans up on every way out: the end, an error, a client that left, a server that is stopped."""
        pump = asyncio.create_task(self._pump())
        watcher = asyncio.create_task(self._watch(receive))
        try:
            if self.request.stream:
                await self._stream(send)
            else:
                await self._collect(send)
        except ApiError as error:
            await self._end_early(pump)
            self._count()  # before the client can know that it ended
            await self._refuse(send, error)
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._end_early(pump)
            pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(asyncio.gather(pump, watcher, return_exceptions=True))
            self._count()

    async def _end_early(self, pump: asyncio.Task[None]) -> None:
        """Lets an engine that can say what a request cost that nobody reads any more; bounded in time."""
        if not pump.done() and self.backend.abort(self.account.request_id):
            await asyncio.wait({pump}, timeout=ABORT_S)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._left = True
        self._news.set()

    async def _pump(self) -> None:
        """Waits for the turn, then moves deltas from the engine to the mailbox."""
        try:
            await self.replica.admission.enter(self.ticket)
            try:
                await self._generate()
            finally:
                self._leave()
        except ApiError as error:
            self.fail(error)
        except BadPrompt as error:
            self.fail(bad_request(str(error), error.param, error.code))
        except EngineFailed as error:
            self.fail(ApiError(500, f"The engine failed: {error}", code="engine_failed"))
        except Exception as error:
            log.exception("request_id=%s the engine raised", self.account.request_id)
            self.fail(ApiError(500, f"The engine failed: {type(error).__name__}.", code="engine_failed"))
        finally:
            self._news.set()

    async def _generate(self) -> None:
        account = self.account
        account.start()
        async with contextlib.aclosing(
            self.backend.generate(account.request_id, self.prompt, self.params)  # type: ignore[type-var]
        ) as deltas:
            async for delta in deltas:
                if account.first_token_s is None and delta.completion_tokens:
                    self.replica.seen.remember(self.hashes)
                account.add(delta)
                if delta.finish_reason == "error":
                    raise EngineFailed(delta.error or "no reason given")
                self._deltas.append(delta)
                self._news.set()
        if account.finish_reason not in ("stop", "length"):
            raise EngineFailed(f"the generation ended early ({account.finish_reason or 'no reason given'})")

    def _leave(self) -> None:
        account, admission = self.account, self.replica.admission
        now = time.monotonic()
        started = now if account.started_s is None else account.started_s
        if account.finish_reason in ("stop", "length"):
            first = None if account.first_token_s is None else account.first_token_s - started
            admission.throughput.record(now - started, first, account.completion_tokens)
        admission.leave(self.ticket, (account.new_prompt_tokens or 0) + account.completion_tokens)

    async def _wait(self) -> list[Delta]:
        """What came since the last call. Raises ``ApiError`` when the request failed and nothing is left to send."""
        await self._news.wait()
        self._news.clear()
        deltas, self._deltas = self._deltas, []
        if self._error is not None and not deltas:
            raise self._error
        if self._error is not None:
            self._news.set()
        return deltas

    async def _stream(self, send: Send) -> None:
        account, request = self.account, self.request
        frames = Frames(
            f"chatcmpl-{account.request_id}",
            int(time.time()),
            request.model,
            include_usage=request.include_usage,
            continuous=request.continuous_usage,
        )
        while not self._left:
            deltas = await self._wait()
            if not deltas:
                continue
            out = [] if self._started else [frames.role(deltas[0].prompt_tokens)]
            out += [frames.text(delta) for delta in deltas]
            last = deltas[-1]
            done = last.finish_reason is not None
            if done:
                self._count()  # before the client can know that it ended
                berth = account.berth()
                usage = usage_of(last.prompt_tokens, last.completion_tokens, account.cached_tokens)
                out += [frames.finish(last), frames.end(usage, berth)]
            if not self._started:
                self._started = True
                await send(_stream_start(account.request_id))
            await send({"type": "http.response.body", "body": b"".join(out), "more_body": not done})
            if done:
                return

    async def _collect(self, send: Send) -> None:
        account, parts = self.account, []
        while not self._left:
            deltas = await self._wait()
            parts += [delta.text for delta in deltas]
            if not deltas or deltas[-1].finish_reason is None:
                continue
            self._count()
            last = deltas[-1]
            usage = usage_of(last.prompt_tokens, last.completion_tokens, account.cached_tokens)
            body = completion_body(
                f"chatcmpl-{account.request_id}",
                int(time.time()),
                self.request.model,
                text="".join(parts),
                finish_reason=last.finish_reason or "stop",
                usage=usage,
                berth=account.berth(),
            )
            await send_json(send, 200, body, {REQUEST_ID: account.request_id})
            return

    async def _refuse(self, send: Send, error: ApiError) -> None:
        if self._started:
            await send({"type": "http.response.body", "body": error_frame(error.body()), "more_body": False})
        else:
            await send_error(send, error, self.account.request_id)

    def _count(self) -> None:
        """One record for whatever entered the queue; what never did is the gateway's to count."""
        code = None if self._error is None else self._error.code
        if code == "queue_full":
            return
        if self.account.finish_reason in ("stop", "length"):
            outcome = Outcome.COMPLETED
        elif self._left:
            outcome = Outcome.CLIENT_LEFT
        elif code == "queue_timeout":
            outcome = Outcome.QUEUE_TIMEOUT
        elif self._error is not None and self._error.status == 400:
            outcome = Outcome.INVALID
        else:
            outcome = Outcome.TRUNCATED if self.account.completion_tokens else Outcome.FAILED
        self.replica.counter.end(self.account, outcome)


def read_slo(headers: Headers) -> Slo:
    """A malformed duration counts as none: it comes from our own gateway or from nobody."""
    return Slo(
        ttft_ms=_number(headers, SLO_TTFT_MS),
        free_tokens=_number(headers, SLO_FREE_TOKENS) or 0.0,
        prefill_rate=_number(headers, SLO_PREFILL_RATE),
    )


def _number(headers: Headers, name: str) -> float | None:
    try:
        value = float(headers.get(name, ""))
    except ValueError:
        return None
    return value if 0 <= value < 1e12 else None


async def read_body(receive: Receive) -> bytes:
    """The whole body. Raises ``ClientLeft`` and ``ApiError`` 413."""
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > MAX_BODY_BYTES:
            raise ApiError(413, f"The body is over {MAX_BODY_BYTES} bytes.", code="body_too_large")
        if not message.get("more_body", False):
            return b"".join(chunks)


def _stream_start(request_id: str) -> dict[str, object]:
    return {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (REQUEST_ID.encode(), request_id.encode()),
        ],
    }
