"""``POST /v1/embeddings``: one place in the queue for all inputs, a few of which are in the engine at a time."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from starlette.datastructures import Headers
from starlette.types import Receive, Send

from gpuruntime.backend import (
    Backend,
    BackendInfo,
    BadPrompt,
    Delta,
    EngineFailed,
    EngineFull,
    Prompt,
    SamplingParams,
    Timings,
)
from gpuruntime.door.arrival import number_of, read_slo
from gpuruntime.door.asked import refusing
from gpuruntime.door.counting import Account
from gpuruntime.door.endpoint import Endpoint
from gpuruntime.door.errors import ApiError, bad_request
from gpuruntime.door.frames import DONE, encode
from gpuruntime.door.queue import Ticket
from gpuruntime.door.replica import Replica
from gpuruntime.door.respond import send_error, send_json, stream_start
from gpuruntime.door.seen import block_hashes
from gpuruntime.goodput import Outcome
from gpuruntime.openai_api import EmbeddingBody
from gpuruntime.openai_checks import check_ids, decode_embedding
from gpuruntime.protocol import REQUEST_ID, SALT, TENANT, WEIGHT

# Enough to fill a step with short inputs; a text that comes meanwhile waits in the engine for these, not for all.
AT_ONCE = 8

log = logging.getLogger("gpuruntime.embeddings")


@dataclass(slots=True)
class Input:
    prompt: Prompt
    hashes: Sequence[bytes] = ()
    embedding: bytes = b""
    timings: Timings | None = None

    @property
    def tokens(self) -> int:
        return len(self.prompt.token_ids or ())


class EmbeddingEndpoint(Endpoint):
    async def _prepare(self, body: bytes, headers: Headers, request_id: str) -> EmbeddingRun:
        received_s = time.monotonic()
        replica = self._replica
        backend, info = replica.require_ready()
        asked = refusing(lambda: decode_embedding(body))
        replica.require_model(asked.model)
        if info.pooling is None:
            text = f"Unsupported 'model': '{asked.model[:100]}' gives no embeddings on its engine ({info.engine})."
            raise bad_request(text, "model", "unsupported_value")
        account = Account(request_id, headers.get(TENANT, ""), received_s, new_prompt_tokens=0)
        inputs = await _read_inputs(backend, info, asked, headers.get(SALT, "").encode())
        for one in inputs:
            account.prompt_tokens += one.tokens
            account.new_prompt_tokens = (account.new_prompt_tokens or 0) + replica.seen.new_tokens(
                one.hashes, one.tokens
            )
        replica.require_ready()  # again: a drain may have begun meanwhile, and it waits only for whom it knows
        ticket = replica.admission.ticket(
            account.tenant,
            weight=max(number_of(headers, WEIGHT) or 1.0, 1e-3),
            new_prompt_tokens=account.new_prompt_tokens or 0,
            max_tokens=0,
            slo=read_slo(headers),
            received_s=received_s,
        )
        return EmbeddingRun(
            replica,
            backend,
            asked,
            inputs=inputs,
            account=account,
            ticket=ticket,
            params=SamplingParams(0, pooling=info.pooling),
        )


async def _read_inputs(backend: Backend, info: BackendInfo, asked: EmbeddingBody, salt: bytes) -> list[Input]:
    """Raises ``ApiError`` 400, naming the input where there are several."""
    context = min(info.max_model_len, info.kv_capacity_tokens or info.max_model_len)
    found = []
    for at, given in enumerate(asked.inputs):
        if isinstance(given, tuple):
            refusing(lambda ids=given: check_ids("input", ids, info.vocab_size))  # type: ignore[misc]
        try:
            prompt = await backend.prepare_text(given, salt)
        except BadPrompt as error:
            raise bad_request(str(error), "input", error.code) from error
        except EngineFailed as error:
            raise ApiError(500, f"The engine failed: {error}", code="engine_failed") from error
        ids = prompt.token_ids or ()
        if not 1 <= len(ids) <= context:
            which = "input" if isinstance(asked.input, str) else f"input[{at}]"
            text = f"This model's maximum context length is {context} tokens, but '{which}' has {len(ids)}."
            raise bad_request(text, "input", "context_length_exceeded")
        found.append(Input(prompt, block_hashes(ids, salt)))
    return found


class EmbeddingRun:
    """One request; ``fail`` ends it from outside."""

    def __init__(
        self,
        replica: Replica,
        backend: Backend,
        asked: EmbeddingBody,
        *,
        inputs: Sequence[Input],
        account: Account,
        ticket: Ticket,
        params: SamplingParams,
    ) -> None:
        self.account = account
        self._replica = replica
        self._backend = backend
        self._asked = asked
        self._inputs = inputs
        self._ticket = ticket
        self._params = params
        self._error: ApiError | None = None
        self._left = False
        self._work: asyncio.Task[None] | None = None

    def fail(self, error: ApiError) -> None:
        """Ends the request with an error; the first one stays."""
        self._error = self._error or error
        if self._work is not None:
            self._work.cancel()

    async def serve(self, receive: Receive, send: Send) -> None:
        """Cleans up on every way out: the end, an error, a client that left, a server that is stopped."""
        admission, account = self._replica.admission, self.account
        account.running_at_arrival, account.queued_at_arrival = admission.running, admission.queued
        try:
            admission.join([self._ticket])
        except ApiError as error:  # counted by the gateway: it never was in the queue
            await send_error(send, error, account.request_id)
            return
        account.degraded = self._ticket.degraded
        self._work = asyncio.create_task(self._embed())
        watcher = asyncio.create_task(self._watch(receive))
        try:
            await asyncio.wait({self._work})
            self._count()  # before the client can know that it ended
            if self._error is not None:
                await send_error(send, self._error, account.request_id)
            elif not self._left:
                await self._send(send)
        finally:
            watcher.cancel()
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(watcher, self._work, return_exceptions=True)
            self._count()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._left = True
        if self._work is not None:
            self._work.cancel()

    async def _embed(self) -> None:
        admission = self._replica.admission
        try:
            await admission.turn(self._ticket)
            try:
                self.account.start()
                await self._run_all()
            finally:
                self.account.timings = self._timings()
                admission.leave(self._ticket, 0)
        except ApiError as error:
            self.fail(error)
        except EngineFull as error:
            self.fail(ApiError(503, f"The replica is full: {error}.", code="queue_full", retry_after_s=1))
        except EngineFailed as error:
            self.fail(ApiError(500, f"The engine failed: {error}", code="engine_failed"))
        except Exception as error:
            log.exception("request_id=%s the engine raised", self.account.request_id)
            self.fail(ApiError(500, f"The engine failed: {type(error).__name__}.", code="engine_failed"))

    async def _run_all(self) -> None:
        """A few readers take the inputs in turn; the first failure ends all."""
        numbered = zip(count(), self._inputs, strict=False)

        async def reader() -> None:
            for at, one in numbered:
                await self._run(at, one)

        readers = [asyncio.create_task(reader()) for _ in range(min(AT_ONCE, len(self._inputs)))]
        try:
            await asyncio.gather(*readers)
        finally:
            for task in readers:
                task.cancel()
            await asyncio.gather(*readers, return_exceptions=True)

    async def _run(self, at: int, one: Input) -> None:
        engine_id = self.account.request_id if at == 0 else f"{self.account.request_id}-{at}"
        last: Delta | None = None
        deltas = self._backend.generate(engine_id, one.prompt, self._params)
        async with contextlib.aclosing(deltas):  # type: ignore[type-var]
            async for delta in deltas:
                last = delta
        if last is None or last.finish_reason != "stop" or not last.embedding:
            reason = None if last is None else last.error or last.finish_reason
            raise EngineFailed(f"an input ended early ({reason or 'no reason given'})")
        one.embedding, one.timings = last.embedding, last.timings
        self._replica.seen.remember(one.hashes)

    def _timings(self) -> Timings:
        """All inputs' work; the time since the first began counts as prefill."""
        known = [one.timings for one in self._inputs if one.timings is not None]
        ideal = [one.ideal_s for one in known if one.ideal_s is not None]
        executed = [one.executed_ideal_s for one in known if one.executed_ideal_s is not None]
        return Timings(
            queue_ms=0.0,
            prefill_ms=1000 * (time.monotonic() - (self.account.started_s or self.account.received_s)),
            decode_ms=0.0,
            preemptions=sum(one.preemptions or 0 for one in known),
            cached_tokens=sum(one.cached_tokens or 0 for one in known),
            ideal_s=sum(ideal) if ideal else None,
            executed_ideal_s=sum(executed) if executed else None,
        )

    def _count(self) -> None:
        account = self.account
        if account.ended or (self._error is not None and self._error.code == "queue_full"):
            return  # the engine took none of it: like one the queue refused, it is the gateway's to count
        if all(one.embedding for one in self._inputs):
            outcome = Outcome.COMPLETED
        elif self._left:
            outcome = Outcome.CLIENT_LEFT
        elif self._error is not None and self._error.code == "queue_timeout":
            outcome = Outcome.QUEUE_TIMEOUT
        else:
            outcome = Outcome.FAILED
        self._replica.counter.end(account, outcome)

    # --- The answer ---------------------------------------------------------------------------------------------

    async def _send(self, send: Send) -> None:
        """OpenAI's list; to our own gateway, which asks for a stream, an event an embedding and one with the counts."""
        if not self._asked.stream:
            data = [self._shown(at, one) for at, one in enumerate(self._inputs)]
            body = encode({"object": "list", "data": data, "model": self._asked.model, "usage": self._usage()})
            await send_json(send, 200, body, {REQUEST_ID: self.account.request_id} | self.account.told())
            return
        await send(stream_start(self.account.request_id, self.account.told()))
        for at, one in enumerate(self._inputs):
            body = b"data: " + encode({**self._shown(at, one), "choices": []}) + b"\n\n"
            await send({"type": "http.response.body", "body": body, "more_body": True})
        end = {"object": "list", "choices": [], "usage": self.account.usage(), "berth": self.account.berth()}
        body = b"data: " + encode({**end, "model": self._asked.model}) + b"\n\n" + DONE
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _shown(self, at: int, one: Input) -> dict[str, object]:
        found = one.embedding
        in_base64 = self._asked.encoding_format == "base64"
        shown = base64.b64encode(found).decode() if in_base64 else array("f", found).tolist()
        return {"object": "embedding", "index": at, "embedding": shown}

    def _usage(self) -> dict[str, int]:
        return {"prompt_tokens": self.account.prompt_tokens, "total_tokens": self.account.prompt_tokens}
