"""Whose limits a request is under, and how they are told: the headers of the tightest, the refusal of the one that is
reached. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from berth.gateway.errors import ApiError
from berth.gateway.snapshot import Limits, Route
from berth.live import names
from berth.metering.owners import Owner, owners_of

RateHeaders = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """One that a request counts for, and what its requests may take together."""

    owner: Owner
    limits: Limits

    @property
    def leases(self) -> str:
        """Where its requests in flight are counted; empty where their number has no limit."""
        return "" if self.limits.max_concurrency is None else names.limits(self.owner.scope)[2]


class Left(NamedTuple):
    """What a holder has left in its minute, and after how many milliseconds all of it is free again."""

    requests: int
    requests_reset_ms: int
    tokens: int
    tokens_reset_ms: int


class Over(NamedTuple):
    """The limit that a request is over: whose, ``requests``, ``tokens``, ``concurrency`` or one of ``budgets.FIELDS``,
    for how long, and what of a budget is used."""

    holder: Holder
    what: str
    wait_ms: int
    used: int = 0


def holders_of(route: Route, key_id: str, key_limits: Limits) -> tuple[Holder, Holder, Holder]:
    """A request counts for all three, limited or not: a budget may be set while it runs."""
    key, tenant, contract = owners_of(route.tenant_id, route.deployment_id, key_id)
    return Holder(key, key_limits), Holder(tenant, route.tenant_limits), Holder(contract, route.limits)


def whose(owner: Owner, model: str) -> str:
    return {"key": "of this API key", "tenant": "of your tenant"}.get(owner.kind, f"on '{model}'")


def bursts(holders: Sequence[Holder], lefts: Sequence[Left]) -> bool:
    """Whether one has less left than its bursts alone: then its guaranteed rate is used up."""
    for holder, left in zip(holders, lefts, strict=True):
        limits = holder.limits
        if limits.requests_per_min is not None and left.requests < limits.burst_requests_per_min:
            return True
        if limits.tokens_per_min is not None and left.tokens < limits.burst_tokens_per_min:
            return True
    return False


def rate_headers(holders: Sequence[Holder], lefts: Sequence[Left], *, room: bool) -> RateHeaders:
    """``x-ratelimit-*`` of the tightest limit: the one with the least left."""
    requests, tokens = [], []
    for holder, left in zip(holders, lefts, strict=True):
        most_requests, most_tokens = holder.limits.ceilings(room=room)
        if most_requests is not None:
            requests.append((left.requests, most_requests, left.requests_reset_ms))
        if most_tokens is not None:
            tokens.append((left.tokens, most_tokens, left.tokens_reset_ms))
    found: list[tuple[bytes, bytes]] = []
    for name, limits in ((b"requests", requests), (b"tokens", tokens)):
        if limits:
            remaining, limit, reset_ms = min(limits)
            found.append((b"x-ratelimit-limit-" + name, b"%d" % limit))
            found.append((b"x-ratelimit-remaining-" + name, b"%d" % remaining))
            found.append((b"x-ratelimit-reset-" + name, b"%.3fs" % (reset_ms / 1000)))
    return tuple(found)


def refusal(over: Over, model: str, reserve: int, headers: RateHeaders, *, room: bool) -> ApiError:
    """429. A request that is larger than the limit itself is not to be sent again as it is."""
    limits, wait_s = over.holder.limits, over.wait_ms / 1000
    requests, tokens = limits.ceilings(room=room)
    of = whose(over.holder.owner, model)
    waits = {"requests": limits.burst_requests_per_min, "tokens": limits.burst_tokens_per_min}.get(over.what, 0)
    burst = " The contract's burst beyond it waits until a replica has room." if waits and not room else ""
    never = False
    if over.what == "requests":
        text = f"The limit of {requests} requests a minute {of} is reached.{burst}"
    elif over.what == "concurrency":
        text = f"The limit of {limits.max_concurrency} requests at a time {of} is reached."
    elif tokens is not None and reserve > tokens:
        never = room or reserve > tokens + waits
        text = (
            f"The request needs up to {reserve} tokens (its prompt and max_tokens), more than the limit of "
            f"{tokens} tokens a minute {of}.{burst} Shorten the messages or lower max_tokens."
        )
    else:
        text = f"The limit of {tokens} tokens a minute {of} is reached: this request needs up to {reserve}.{burst}"
    return ApiError(
        429,
        text if never else f"{text} Try again in {wait_s:.1f} s.",
        code="rate_limit_exceeded",
        retry_after_s=wait_s,
        headers=(*headers, (b"x-should-retry", b"false" if never else b"true")),
    )


def uncounted_refusal() -> ApiError:
    """503: the counters are away, and the tenant chose that nothing passes uncounted."""
    return ApiError(
        503,
        "The limits on this request cannot be counted at the moment. Try again shortly.",
        code="limits_unavailable",
        retry_after_s=1,
        headers=[(b"x-should-retry", b"true")],
    )
