"""Deltas between engine and reader: in order, none lost, an end that is an end."""

from __future__ import annotations

import asyncio

import pytest

from gpuruntime.backend import Delta, EngineFailed
from gpuruntime.mailbox import Mailbox


def delta(number: int, *, last: bool = False) -> Delta:
    return Delta(f"{number}", min(1, number), number, 3, "stop" if last else None)


async def test_a_reader_gets_everything_in_order_and_then_the_end() -> None:
    box = Mailbox()
    asyncio.get_running_loop().call_later(0.01, lambda: [box.put(delta(n, last=n == 3)) for n in (2, 3)])
    box.put(delta(1))
    assert [d.text async for d in box] == ["1", "2", "3"]
    box.put(delta(4))
    assert box.take() == []
    assert box.last is not None
    assert box.last.text == "3"


async def test_a_failure_comes_after_what_was_there_before_it() -> None:
    box, seen = Mailbox(), list[str]()
    box.put(delta(1))
    box.fail(EngineFailed("boom"))

    async def read() -> None:
        async for one in box:
            seen.append(one.text)

    with pytest.raises(EngineFailed, match="boom"):
        await read()
    assert seen == ["1"]


async def test_taking_empties_it_and_notify_tells_of_news() -> None:
    told: list[int] = []
    box = Mailbox(notify=lambda: told.append(1))
    box.put(delta(0))
    assert box.first_s is None
    box.put(delta(1))
    assert box.first_s is not None
    assert ([d.text for d in box.take()], box.take(), len(told)) == (["0", "1"], [], 2)
    assert not box.over.is_set()
    box.fail(EngineFailed("x"))
    assert (box.over.is_set(), len(told)) == (True, 3)


@pytest.mark.parametrize("ended", [True, False])
async def test_closing_tells_the_engine_once_and_only_before_the_end(ended: bool) -> None:
    closed: list[int] = []
    box = Mailbox(close=lambda: closed.append(1))
    box.put(delta(1, last=ended))
    for _ in range(2):
        await box.aclose()
    assert len(closed) == (0 if ended else 1)
    box.put(delta(2))
    assert len(box.take()) == 1


async def test_a_reader_that_is_cancelled_closes_it() -> None:
    closed: list[int] = []
    box = Mailbox(close=lambda: closed.append(1))
    reading = asyncio.create_task(anext(box))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert closed == [1]
