"""Asks Redis whether a request fits under all limits of its contract. Without Redis the gate is open."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass

from redis.exceptions import RedisError

from berth.gateway.errors import ApiError
from berth.gateway.line import Argument, Line, Script
from berth.gateway.snapshot import Limits, Route
from berth.live import names
from berth.metering.records import OpenRecord, encode

LEASE_S = 30
AWAY_S = 0.5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """Room that was made for one request. ``second`` 0: Redis was away and nothing is reserved.

    ``burst``: it went beyond a guaranteed rate.
    """

    second: int
    reserved: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    burst: bool = False


class Admission:
    """One call a request. While Redis is away only one request every half second waits to find out."""

    def __init__(self, line: Line, gateway_id: str) -> None:
        self._line = line
        self._gateway_id = gateway_id
        self._script = Script("admission.lua")
        self._away_until = 0.0
        self.refused: Counter[str] = Counter()

    async def ask(self, route: Route, opened: OpenRecord, reserve: int, replica_id: str, *, room: bool = True) -> Grant:
        """Raises ``ApiError`` 429 when a limit is reached; nothing is then reserved or opened.

        ``room``: a door has a free place, so bursts beyond the guaranteed rates may pass.
        """
        if time.monotonic() < self._away_until:
            return Grant(0, 0)
        try:
            answer = await self._script(self._line, *self._call(route, opened, reserve, replica_id, room))
        except RedisError as error:
            self._away_until = time.monotonic() + AWAY_S
            log.warning("admission_open", extra={"error": str(error)})
            return Grant(0, 0)
        admitted, over, wait_ms, *left, second = answer
        ceilings = route.limits.ceilings(room=room)
        headers = _rate_headers(ceilings, left)
        if not admitted:
            self.refused[over] += 1
            raise _over(route, over, wait_ms, reserve, headers, room=room)
        return Grant(int(second), reserve, headers, room and _bursts(route.limits, left))

    def _call(
        self, route: Route, opened: OpenRecord, reserve: int, replica_id: str, room: bool
    ) -> tuple[list[str], list[Argument]]:
        limits, request_id = route.limits, opened.request_id
        keys = [names.open_request(request_id), names.OPEN_REQUESTS, *names.limits(scope_of(route))]
        ceilings = (*limits.ceilings(room=room), limits.max_concurrency)
        args: list[Argument] = [request_id, reserve, *(-1 if c is None else c for c in ceilings), LEASE_S]
        args += ["record", encode(opened), "gateway", self._gateway_id, "replica", replica_id]
        args += ["prompt_tokens", 0, "tokens", 0]
        return keys, args


def scope_of(route: Route) -> str:
    """Whose counters these are: those of a tenant on a deployment, whatever version its contract has."""
    return f"{route.tenant_id}:{route.deployment_id}"


def _bursts(limits: Limits, left: list[int]) -> bool:
    """Whether less is left than the bursts alone: then the guaranteed rate is used up."""
    requests_left, _, tokens_left, _ = (int(value) for value in left)
    over_requests = limits.requests_per_min is not None and requests_left < limits.burst_requests_per_min
    return over_requests or (limits.tokens_per_min is not None and tokens_left < limits.burst_tokens_per_min)


def _rate_headers(ceilings: tuple[int | None, int | None], left: list[int]) -> tuple[tuple[bytes, bytes], ...]:
    requests_left, requests_reset_ms, tokens_left, tokens_reset_ms = (int(value) for value in left)
    found: list[tuple[bytes, bytes]] = []
    for name, limit, remaining, reset_ms in (
        (b"requests", ceilings[0], requests_left, requests_reset_ms),
        (b"tokens", ceilings[1], tokens_left, tokens_reset_ms),
    ):
        if limit is not None:
            found.append((b"x-ratelimit-limit-" + name, b"%d" % limit))
            found.append((b"x-ratelimit-remaining-" + name, b"%d" % remaining))
            found.append((b"x-ratelimit-reset-" + name, b"%.3fs" % (reset_ms / 1000)))
    return tuple(found)


def _over(
    route: Route, what: str, wait_ms: int, reserve: int, headers: tuple[tuple[bytes, bytes], ...], *, room: bool
) -> ApiError:
    limits = route.limits
    requests, tokens = limits.ceilings(room=room)
    full = not room and (limits.burst_requests_per_min if what == "requests" else limits.burst_tokens_per_min)
    burst = " The contract's burst beyond it waits until a replica has room." if full and what != "concurrency" else ""
    if what == "requests":
        text = f"The limit of {requests} requests a minute on '{route.model}' is reached.{burst}"
    elif what == "tokens" and tokens is not None and reserve > tokens:
        text = (
            f"The request needs up to {reserve} tokens (its prompt and max_tokens), more than the limit of "
            f"{tokens} tokens a minute on '{route.model}'.{burst} Shorten the messages or lower max_tokens."
        )
    elif what == "tokens":
        text = (
            f"The limit of {tokens} tokens a minute on '{route.model}' is reached: "
            f"this request needs up to {reserve}.{burst}"
        )
    else:
        text = f"The limit of {limits.max_concurrency} requests at a time on '{route.model}' is reached."
    wait_s = wait_ms / 1000
    return ApiError(
        429,
        f"{text} Try again in {wait_s:.1f} s.",
        code="rate_limit_exceeded",
        retry_after_s=wait_s,
        headers=headers,
    )
