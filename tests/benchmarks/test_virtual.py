"""The door in virtual time: its clock by hand, and what the queue's policy is worth on a small scale."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.common.report import percentile
from benchmarks.common.virtual import Asked, Served, VirtualEngine, run_virtually
from benchmarks.door_queue import LEVELS, STEP, attainments, chats, first_come, flood, mix_at, ours, play
from gpuruntime.engine.core import StepOutput


def prompt(tokens: int, first: int = 0) -> tuple[int, ...]:
    return tuple(range(first, first + tokens))


def test_an_hour_passes_at_once_and_timers_fire_in_order() -> None:
    async def main() -> tuple[list[str], float]:
        said: list[str] = []

        async def say(text: str, after_s: float) -> None:
            await asyncio.sleep(after_s)
            said.append(text)

        await asyncio.gather(say("late", 3600.0), say("early", 60.0))
        return said, asyncio.get_running_loop().time()

    assert run_virtually(main) == (["early", "late"], pytest.approx(3600.0))


def test_who_waits_for_nothing_is_found() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="nothing is going to happen"):
        run_virtually(main)


def test_a_requests_times_are_those_of_its_steps() -> None:
    """1,000 tokens are computed in two steps of at most 512, then a token a step."""
    (served,) = play([Asked(1.0, "t", "chat", prompt(1000), 5)], ours)
    assert served.first_s == pytest.approx(2 * STEP.base_s + 1000 * STEP.prompt_s, abs=2e-6)
    assert served.verdict.e2e_us / 1e6 - served.first_s == pytest.approx(4 * (STEP.base_s + STEP.decode_s), abs=5e-6)
    assert served.verdict.good


def test_the_second_of_two_equal_prompts_finds_the_first_ones_blocks() -> None:
    asked = [Asked(at_s, "t", "chat", prompt(1000), 1) for at_s in (0.0, 5.0)]
    first, second = sorted(play(asked, ours), key=lambda one: one.asked.at_s)
    assert first.first_s is not None
    assert second.first_s == pytest.approx(STEP.base_s + (1000 - 62 * 16) * STEP.prompt_s, abs=2e-6)


def test_the_engine_frees_everything_and_counts_its_tokens() -> None:
    async def main() -> tuple[list[int], int]:
        engine = VirtualEngine(STEP, max_seqs=2, max_tokens=64, num_blocks=64)
        running = asyncio.create_task(engine.run())
        produced, ended, over = [0, 0, 0], set[int](), asyncio.Event()

        def tell(output: StepOutput) -> None:
            produced[output.key] += len(output.tokens)
            if output.finish_reason is not None:
                ended.add(output.key)
            if len(ended) == len(produced):
                over.set()

        for key in range(len(produced)):
            engine.generate(key, prompt(100, 1000 * key), 4, b"", tell)
        await over.wait()
        running.cancel()
        engine.core.audit()
        return produced, engine.core.stats().running

    assert run_virtually(main) == ([4, 4, 4], 0)


def firsts(served: list[Served], tenants: set[str]) -> list[float]:
    return [one.first_s or 600.0 for one in served if one.asked.tenant in tenants and one.asked.at_s >= 35.0]


def test_beside_a_flood_others_wait_a_fraction_of_a_second_instead_of_half_a_minute() -> None:
    few = {"tenant 0", "tenant 1"}
    regular = [asked for asked in chats("tenant 0", 1.5, 1) + chats("tenant 1", 1.5, 2) if asked.at_s < 60]
    flooding = [asked for asked in flood("alike", "tenant 3", 3) if asked.at_s < 60]
    trace = sorted(regular + flooding, key=lambda asked: asked.at_s)
    assert percentile(firsts(play(trace, ours, 256), few), 0.95) < 0.3
    assert percentile(firsts(play(trace, first_come, 256), few), 0.5) > 10


def test_on_the_mix_the_queue_keeps_more_promises_than_first_come_first_served() -> None:
    trace = mix_at(17.0, 1, 500)
    mine, theirs = attainments(play(trace, ours)), attainments(play(trace, first_come))
    assert mine["batch"] == theirs["batch"] == 1.0
    assert mine["code"] > theirs["code"]
    assert min(mine.values()) > min(theirs.values())


def test_the_predicted_ttft_is_near_while_the_queue_is_short() -> None:
    served = sorted(play(mix_at(8.0, 1, 300), ours), key=lambda one: one.asked.at_s)[100:]
    errors = [abs(one.predicted_s - one.first_s) for one in served if one.first_s and one.asked.service != "batch"]
    assert percentile(errors, 0.5) < 0.015
    assert set(LEVELS) == {one.asked.service for one in served}
