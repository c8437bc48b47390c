"""Nothing that ended is lost or sent for ever."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gpuruntime.door.spool import BATCH, Spool, read_spool
from gpuruntime.protocol import EndedRequest


def ended(number: int) -> EndedRequest:
    return EndedRequest(
        request_id=f"req_{number}",
        tenant="ten_a",
        deployment="dep_1",
        replica_id="rep_1",
        epoch="e",
        outcome="completed",
        finish_reason="stop",
        prompt_tokens=number,
        completion_tokens=1,
    )


def ids(requests: list[EndedRequest]) -> list[str]:
    return [request.request_id for request in requests]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_the_file_holds_each_request_at_once_and_is_emptied_by_the_last_acknowledgement(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), "rep_1", "e1")
    for number in range(3):
        spool.append(ended(number))
        assert len(read_spool(tmp_path / "rep_1.e1.spool")) == number + 1
    batch = ids(spool.unsent())
    spool.acknowledge(batch[:2])
    assert len(spool) == 1
    assert (tmp_path / "rep_1.e1.spool").stat().st_size > 0
    spool.acknowledge(batch[2:])
    assert (tmp_path / "rep_1.e1.spool").stat().st_size == 0
    await spool.close()
    assert names(tmp_path) == []


async def test_what_a_dead_process_left_is_taken_over_by_its_successor_only(tmp_path: Path) -> None:
    line = b'{"request_id":"req_%d","tenant":"","deployment":"d","replica_id":"%s","epoch":"e0","outcome":"failed",'
    line += b'"finish_reason":"","prompt_tokens":1,"completion_tokens":2}\n'
    (tmp_path / "rep_1.e0.spool").write_bytes(line % (1, b"rep_1") + line % (2, b"rep_1") + b'{"request_id":"torn')
    (tmp_path / "rep_2.e0.spool").write_bytes(line % (3, b"rep_2"))
    spool = Spool(str(tmp_path), "rep_1", "e1")
    assert ids(spool.unsent()) == ["req_1", "req_2"]
    assert names(tmp_path) == ["rep_1.e1.spool", "rep_2.e0.spool"]
    assert ids(read_spool(tmp_path / "rep_1.e1.spool")) == ["req_1", "req_2"]
    await spool.close()


async def test_the_spool_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    first = Spool(str(tmp_path), "rep_1", "e1")
    first.append(ended(1))
    second = Spool(str(tmp_path), "rep_1", "e2")
    assert second.unsent() == []
    await first.close()
    await second.close()
    third = Spool(str(tmp_path), "rep_1", "e3")
    assert ids(third.unsent()) == ["req_1"]
    await third.close()


async def test_unacknowledged_requests_go_out_again_on_a_new_connection() -> None:
    spool = Spool("", "rep_1", "e")
    for number in range(BATCH + 5):
        spool.append(ended(number))
    first, second = spool.unsent(), spool.unsent()
    assert (len(first), len(second), spool.unsent()) == (BATCH, 5, [])
    spool.acknowledge(ids(first))
    spool.forget_sent()
    assert ids(spool.unsent()) == ids(second)


async def test_an_acknowledgement_drops_only_what_was_sent() -> None:
    spool = Spool("", "rep_1", "e")
    spool.append(ended(1))
    spool.unsent()
    spool.append(ended(1))  # the same id again, not sent yet
    spool.acknowledge(["req_1", "req_unknown"])
    assert len(spool) == 1


async def test_a_long_file_is_compacted_and_still_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuruntime.door.spool.COMPACT_BYTES", 2000)
    spool = Spool(str(tmp_path), "rep_1", "e1")
    for number in range(40):
        spool.append(ended(number))
    sent = ids(spool.unsent())
    spool.acknowledge(sent[:38])
    (name,) = names(tmp_path)
    assert ids(read_spool(tmp_path / name)) == sent[38:]
    spool.append(ended(99))
    await spool.close()
    successor = Spool(str(tmp_path), "rep_1", "e2")
    assert ids(successor.unsent()) == [*sent[38:], "req_99"]
    await successor.close()


async def test_a_full_disk_costs_no_request(tmp_path: Path) -> None:
    """/dev/full fails every write with ENOSPC."""
    spool = Spool(str(tmp_path), "rep_1", "e1")
    assert spool._fd is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, spool._fd)
    os.close(full)
    spool.append(ended(1))
    assert ids(spool.unsent()) == ["req_1"]
    await asyncio.sleep(0)
