"""What the doors counted, added up beside the records: each account exactly once, by its number.

    EndedRequest --count--> DoorCount                                   first, of the accounts alone
                 --book---> UsageRecord | LooseAccount (and why)         later, joined with the gateway's word

A door sends its accounts in order of their numbers, and all again that were not acknowledged: whoever sends number n
has sent every number below it. So a number at or below ``DoorEpoch.counted`` is a repetition, whoever brings it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from django.db import connection, transaction

from berth.metering.hours import be_alone
from berth.metering.join import name_of
from berth.metering.models import DoorEpoch, LooseAccount, UsageRecord
from berth.metering.services import correct
from berth.metering.spans import HOUR, floor
from gpuruntime.goodput import Outcome
from gpuruntime.protocol import EndedRequest

ELSEWHERE, INVALID = "elsewhere", "invalid"

_COUNTED = ("prompt_tokens", "cached_tokens", "completion_tokens")
_TAKEN = ("counted_by", "counted_as", "replica_id")
_Epoch = tuple[str, str]
_Row = tuple[datetime, str, str, str, str]

_ADD = """
    INSERT INTO metering_doorcount AS kept (
        hour, replica_id, epoch, deployment_id, outcome, requests, prompt_tokens, cached_tokens, completion_tokens
    ) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (hour, replica_id, epoch, deployment_id, outcome) DO UPDATE SET
        requests = kept.requests + excluded.requests, prompt_tokens = kept.prompt_tokens + excluded.prompt_tokens,
        cached_tokens = kept.cached_tokens + excluded.cached_tokens,
        completion_tokens = kept.completion_tokens + excluded.completion_tokens
"""


def count(accounts: Iterable[EndedRequest]) -> int:
    """Adds up the accounts, given in the order they arrived, that are not added up yet; how many these were."""
    numbered = [account for account in accounts if name_of(account)]
    if not _new(numbered, _counted(numbered)):
        return 0
    with transaction.atomic():
        be_alone()
        new = _new(numbered, _counted(numbered))
        _add(new)
        highest = {(account.replica_id, account.epoch): account.number or 0 for account in new}
        for (replica_id, epoch), number in highest.items():
            DoorEpoch.objects.update_or_create(replica_id=replica_id, epoch=epoch, defaults={"counted": number})
    return len(new)


def _counted(accounts: Sequence[EndedRequest]) -> dict[_Epoch, int]:
    rows = DoorEpoch.objects.filter(
        replica_id__in={account.replica_id for account in accounts}, epoch__in={account.epoch for account in accounts}
    )
    return {(row.replica_id, row.epoch): row.counted for row in rows}


def _new(accounts: Iterable[EndedRequest], counted: dict[_Epoch, int]) -> list[EndedRequest]:
    found = []
    high = dict(counted)
    for account in accounts:
        epoch, number = (account.replica_id, account.epoch), account.number or 0
        if number > high.get(epoch, 0):
            high[epoch] = number
            found.append(account)
    return found


def _add(accounts: Iterable[EndedRequest]) -> None:
    sums: defaultdict[_Row, list[int]] = defaultdict(lambda: [0] * (1 + len(_COUNTED)))
    for account in accounts:
        hour = floor(_ended_at(account), HOUR)
        row = (hour, account.replica_id, account.epoch, account.deployment, account.outcome)
        for index, value in enumerate((1, *(getattr(account, name) for name in _COUNTED))):
            sums[row][index] += value
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, [(*row, *values) for row, values in sums.items()])


def settle(accounts: Sequence[EndedRequest]) -> int:
    """After their records were booked: where every account went. How many corrected a record.

    A record without a door's counts takes them; what is in no record is kept as a loose account. One whose record could
    not be written is neither, and stays a difference. Safe to repeat.
    """
    rows = UsageRecord.objects.for_platform().only("request_id", *_TAKEN)
    kept = rows.in_bulk({account.request_id for account in accounts})
    loose, corrected = [], 0
    for account in accounts:
        row = kept.get(account.request_id)
        if row is not None and row.counted_by == "gateway" and row.replica_id == account.replica_id:
            corrected += correct(row=row, door=account)
            row.refresh_from_db(fields=_TAKEN)
        if row is not None and row.counted_as == name_of(account) and row.replica_id == account.replica_id:
            continue
        if name_of(account) and (row is not None or account.outcome == Outcome.INVALID.value):
            loose.append(_loose(account, INVALID if row is None else ELSEWHERE))
    LooseAccount.objects.bulk_create(loose, ignore_conflicts=True)
    return corrected


def _loose(account: EndedRequest, why: str) -> LooseAccount:
    return LooseAccount(
        replica_id=account.replica_id,
        epoch=account.epoch,
        number=account.number or 0,
        ended_at=_ended_at(account),
        request_id=account.request_id,
        deployment_id=account.deployment,
        outcome=account.outcome,
        why=why,
        **{name: getattr(account, name) for name in _COUNTED},
    )


def _ended_at(account: EndedRequest) -> datetime:
    return datetime.fromtimestamp(account.ended_at or 0.0, UTC)
