"""How a request is closed in Redis, by its gateway or, where that died, by the ledger. Pure."""

from __future__ import annotations

from berth.core.periods import day_of, month_of
from berth.live import names
from berth.metering.owners import owners_of
from berth.metering.records import OpenRecord


def settle_call(
    opened: OpenRecord, *, used: int, cost: int, record: bytes = b""
) -> tuple[list[str], list[str | bytes | int | float]]:
    """Keys and arguments of ``settle.lua``. ``used``: tokens; ``cost``: in 1e-10 of the currency's unit."""
    request_id = opened.request_id
    keys = [names.open_request(request_id), names.OPEN_REQUESTS, names.USAGE_STREAM, names.settled(request_id)]
    for owner in owners_of(opened.tenant_id, opened.deployment_id, opened.key_id):
        keys += [*names.limits(owner.scope)[1:], names.budget(owner.scope)]
    return keys, [request_id, used, cost, day_of(opened.at), month_of(opened.at), record]
