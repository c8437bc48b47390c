"""From the bytes of a request to its ``Run``: what ``/v1/chat/completions`` and ``/v1/completions`` share."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from starlette.datastructures import Headers

from gpuruntime.backend import Backend, BackendInfo, BadPrompt, EngineFailed, SamplingParams
from gpuruntime.door.arrival import number_of, read_slo
from gpuruntime.door.asked import Asked, refusing
from gpuruntime.door.choice import Choice, Source, seeded
from gpuruntime.door.counting import Account
from gpuruntime.door.endpoint import Endpoint
from gpuruntime.door.errors import ApiError, bad_request
from gpuruntime.door.frames import Envelope, Writer
from gpuruntime.door.replica import Replica
from gpuruntime.door.resumed import NONE, check_resumed, leader_of, model_id, split_body
from gpuruntime.door.run import Run
from gpuruntime.door.seen import block_hashes
from gpuruntime.marks import Begun
from gpuruntime.protocol import CREATED, MARKS, SALT, TENANT, WEIGHT


class Kind(Protocol):
    """What is peculiar to one endpoint."""

    name: str
    prefix: str
    prompt_field: str

    def parse(self, body: bytes) -> Asked:
        """Raises ``ApiError`` (400) whose ``param`` names the field."""
        ...

    async def sources(self, backend: Backend, info: BackendInfo, asked: Asked, salt: bytes) -> list[Source]:
        """The prompts. Raises ``BadPrompt`` and ``ApiError``."""
        ...

    def writer(self, envelope: Envelope, backend: Backend, info: BackendInfo, asked: Asked) -> Writer: ...


class GenerateEndpoint(Endpoint):
    def __init__(self, replica: Replica, kind: Kind) -> None:
        super().__init__(replica)
        self._kind = kind

    async def _prepare(self, body: bytes, headers: Headers, request_id: str) -> Run:
        received_s = time.monotonic()
        replica, kind = self._replica, self._kind
        backend, info = replica.require_ready()
        model = model_id(replica.config)
        body, begun = split_body(headers, body, model)
        asked = kind.parse(body)
        replica.require_model(asked.model)
        asked.check(info)
        if asked.grammar is not None:
            await asyncio.to_thread(refusing, asked.grammar.check)
        salt = headers.get(SALT, "").encode()
        try:
            sources = await kind.sources(backend, info, asked, salt)
        except BadPrompt as error:
            param = kind.prompt_field if error.param == "messages" else error.param
            raise bad_request(str(error), param, error.code) from error
        except EngineFailed as error:
            raise ApiError(500, f"The engine failed: {error}", code="engine_failed") from error
        replica.require_ready()  # again: a drain may have begun meanwhile, and it waits only for whom it knows
        account = Account(request_id, headers.get(TENANT, ""), received_s)
        for source in sources:
            self._weigh(source, salt, account)
        check_resumed(begun, len(sources) * asked.n, asked, info)
        choices = self._choices(sources, asked, info, headers, account, begun=begun)
        envelope = Envelope(
            kind.name,
            f"{kind.prefix}-{request_id}",
            int(number_of(headers, CREATED) or time.time()),
            asked.model,
            account,
            usage=asked.body.include_usage,
            continuous=asked.body.continuous_usage,
            **asked.echoed,
        )
        writer = kind.writer(envelope, backend, info, asked)
        marks = model if MARKS in headers and info.resumes else ""
        return Run(replica, backend, choices, account, writer, stream=asked.stream, model=marks)

    def _weigh(self, source: Source, salt: bytes, account: Account) -> None:
        """What the door knows of a prompt by itself: its tokens, and how many of them are new."""
        token_ids = source.prompt.token_ids
        if token_ids is None:
            return
        source.tokens = len(token_ids)
        source.hashes = block_hashes(token_ids, salt)
        source.new_tokens = self._replica.seen.new_tokens(source.hashes, source.tokens)
        account.prompt_tokens += source.tokens
        account.new_prompt_tokens = (account.new_prompt_tokens or 0) + source.new_tokens

    def _choices(
        self,
        sources: Sequence[Source],
        asked: Asked,
        info: BackendInfo,
        headers: Headers,
        account: Account,
        *,
        begun: Mapping[int, Begun],
    ) -> list[Choice]:
        replica = self._replica
        count = len(sources) * asked.n
        fits = replica.admission.capacity + replica.admission.max_queue
        if count > fits:
            name = self._kind.prompt_field if asked.n == 1 else "n"
            raise bad_request(f"Invalid '{name}': {count} choices never fit a replica with room for {fits}.", name)
        context = min(info.max_model_len, info.kv_capacity_tokens or info.max_model_len)
        default = replica.config.engine.default_max_tokens
        base = secrets.randbits(62)
        slo, weight = read_slo(headers), max(number_of(headers, WEIGHT) or 1.0, 1e-3)
        made: list[Choice] = []
        for source in sources:
            most = room_for(asked.max_tokens, source.tokens, context, default, self._kind.prompt_field)
            params = asked.params(max(1, most), replica.default_sampling, asked.special(info))
            if params.min_tokens > most:
                text = f"Invalid 'min_tokens': {params.min_tokens} is more than the {most} of max_tokens."
                raise bad_request(text, "min_tokens")
            own = range(len(made), len(made) + asked.n)
            leader = leader_of(begun, own)
            replayed = len(begun.get(leader, NONE).tokens)
            ticket = replica.admission.ticket(
                account.tenant,
                weight=weight,
                new_prompt_tokens=(source.new_tokens or 0) + replayed,
                cached_tokens=source.tokens - (source.new_tokens or 0),
                max_tokens=most - replayed,
                slo=slo,
                received_s=account.received_s,
            )
            for number, at in enumerate(own):
                have = begun.get(at, NONE)
                scores = at == leader and at not in begun
                choice = Choice(
                    index=at,
                    engine_id=account.request_id if at == 0 else f"{account.request_id}-{at}",
                    source=source,
                    params=_of_choice(params, number, base, asked.n, scores=scores),
                    ticket=ticket if at == leader else ticket.following(),
                    leads=at == leader,
                    silent=most == 0,
                    answered=tuple(have.tokens),
                )
                if at in begun:
                    account.resume(choice, have)
                made.append(choice)
        return made


def _of_choice(params: SamplingParams, number: int, base: int, n: int, *, scores: bool) -> SamplingParams:
    """The prompt's log probabilities are the leader's to give; a single choice keeps the client's seed or none."""
    params = params if scores else replace(params, prompt_logprobs=None)
    return params if n == 1 else seeded(params, number, base)


def room_for(asked: int | None, prompt_tokens: int, context: int, default: int, prompt_field: str = "messages") -> int:
    """The output limit: the client's, never lowered, or the deployment's default within the context."""
    left = context - prompt_tokens
    if left < 1 or (asked or 0) > left:
        wanted = f" and {asked} output tokens were asked for" if asked else ""
        raise bad_request(
            f"This model's maximum context length is {context} tokens, but the {prompt_field} are "
            f"{prompt_tokens} tokens{wanted}. Shorten the {prompt_field} or lower max_tokens.",
            prompt_field if left < 1 else "max_tokens",
            "context_length_exceeded",
        )
    return min(default, left) if asked is None else asked
