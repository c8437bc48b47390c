"""The door's queue in virtual time: what it is worth on the four-class mix, and what a flood does to others.

    python benchmarks/door_queue.py [--only mix,flood,engine] [--json FILE] [--check]

Queue, admission, prefix memory and the engine's scheduler are the ones that serve (``common.virtual``); only the time
of a step is modelled. **mix**: C_95 (docs/goodput.md), the largest load at which every class attains 95 %, of the queue
and of first come, first served, on a replica of few places; four tenants send the same mix. **flood**: four tenants
chat at half of what the replica can do, then one of them floods it; the worst of the other three's p95 TTFT
against the same run without the flood. **prediction**: the error of the TTFT that was predicted at arrival, at three
loads. **engine**: the flood on SmolLM2-135M with the engine itself, calm and flood in turns.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.common.mix import make_mix
from benchmarks.common.report import Targets, median, percentile, run_parts, say
from benchmarks.common.virtual import Asked, Door, Served, Stepping, StepTime, VirtualEngine, run_virtually
from gpuruntime.door.admission import Admission
from gpuruntime.door.queue import FairQueue, Ticket
from gpuruntime.goodput import ServiceLevel

# Of a device on which every class can be kept: 25,000 prompt tokens a second, 9 ms for a step of 16.
STEP = StepTime(base_s=0.005, prompt_s=0.00004, decode_s=0.00025)
PLACES, STEP_TOKENS, BLOCKS = 16, 512, 8000
VOCABULARY = 49_000
TENANTS = 4
GAIN, MOVED = 1.3, 1.2

# The platform's own (berth.slas.services.DEFAULT_CLASSES).
LEVELS = {
    "chat": ServiceLevel(base_ms=1000, tpot_ms=100),
    "code": ServiceLevel(base_ms=200, free_prompt_tokens=4000, prefill_tokens_per_s=40_000, tpot_ms=60),
    "rag": ServiceLevel(base_ms=1000, prefill_tokens_per_s=10_000, tpot_ms=100),
    "batch": ServiceLevel(e2e_ms=24 * 3600 * 1000),
}

Figures = dict[str, Any]


# --- Who decides ------------------------------------------------------------------------------------------------


class FirstCome(FairQueue):
    """One line for all: what an engine without a door has."""

    def __init__(self) -> None:
        super().__init__()
        self._line: deque[Ticket] = deque()

    def __len__(self) -> int:
        return sum(ticket.waiting for ticket in self._line)

    def push(self, ticket: Ticket, now: float = 0.0) -> None:
        ticket.waiting = True
        self._line.append(ticket)

    def peek(self, now: float, *, batch: bool = True) -> Ticket | None:
        while self._line and not self._line[0].waiting:
            self._line.popleft()
        return self._line[0] if self._line else None

    def pop(self, now: float, *, batch: bool = True) -> Ticket | None:
        ticket = self.peek(now)
        if ticket is not None:
            self._line.popleft()
            ticket.waiting = False
        return ticket

    def remove(self, ticket: Ticket) -> bool:
        waited, ticket.waiting = ticket.waiting, False
        return waited

    def settle(self, ticket: Ticket, actual_cost: float) -> None:
        ticket.charged = actual_cost


class AtOnce(Admission):
    """Whoever comes first enters while there is a place, whatever it does to others."""

    def _fits(self, ticket: Ticket) -> bool:
        return True

    def _fits_batch(self, ticket: Ticket, now: float) -> bool:
        return True

    def _leaves_room(self, ticket: Ticket, now: float) -> bool:
        return True


Policy = Callable[[VirtualEngine, int], Admission]


def ours(engine: VirtualEngine, max_queue: int) -> Admission:
    clock = asyncio.get_running_loop().time
    return Admission(
        PLACES, max_queue, 600.0, clock=clock, step_ms=lambda: engine.core.stats().step_ms_ewma, step_tokens=STEP_TOKENS
    )


def first_come(engine: VirtualEngine, max_queue: int) -> Admission:
    return AtOnce(PLACES, max_queue, 600.0, clock=asyncio.get_running_loop().time, queue=FirstCome())


def play(trace: Sequence[Asked], policy: Policy, max_queue: int = 1 << 20) -> list[Served]:
    async def main() -> list[Served]:
        engine = VirtualEngine(STEP, max_seqs=PLACES, max_tokens=STEP_TOKENS, num_blocks=BLOCKS)
        return await Door(policy(engine, max_queue), engine, LEVELS).play(trace)

    return run_virtually(main)


# --- The mix ----------------------------------------------------------------------------------------------------


def mix_at(rate: float, seed: int, count: int) -> list[Asked]:
    arrivals = make_mix(count, rate, VOCABULARY, seed)
    return [Asked.of(arrival, f"tenant {number % TENANTS}") for number, arrival in enumerate(arrivals)]


def attainments(served: Sequence[Served]) -> dict[str, float]:
    good: dict[str, list[bool]] = defaultdict(list)
    for one in served:
        if one.verdict.offered:
            good[one.asked.service].append(one.verdict.good)
    return {name: sum(found) / len(found) for name, found in sorted(good.items())}


def c95(policy: Policy, seed: int, count: int) -> tuple[float, dict[str, float]]:
    """The load in requests a second, to 1 %, and what the classes attain at it."""
    low, high, at_low = 4.0, 40.0, dict[str, float]()
    while high / low > 1.01:
        rate = (low * high) ** 0.5
        found = attainments(play(mix_at(rate, seed, count), policy))
        if min(found.values()) >= 0.95:
            low, at_low = rate, found
        else:
            high = rate
    return low, at_low


def measure_mix(seeds: Sequence[int] = (1, 2, 3), count: int = 1500) -> Figures:
    runs = []
    for seed in seeds:
        (mine, attained), (theirs, _) = c95(ours, seed, count), c95(first_come, seed, count)
        say(f"mix {seed}: {mine:.1f} against {theirs:.1f} requests/s")
        runs.append({"ours": mine, "first_come": theirs, "gain": mine / theirs, "attained": attained})
    return {"runs": runs, "gain": median([run["gain"] for run in runs])}


# --- The flood --------------------------------------------------------------------------------------------------

FLOOD_FROM_S, UNTIL_S = 30.0, 150.0


def chats(tenant: str, rate: float, seed: int, from_s: float = 0.0) -> list[Asked]:
    """Conversations of the mix's lengths, without anything shared."""
    random = np.random.default_rng(seed)
    return [
        Asked(
            at_s,
            tenant,
            "chat",
            _tokens(random, _length(random, 128, 0.99, 80, 1500)),
            _length(random, 64, 0.86, 4, 256),
        )
        for at_s in _arrivals(random, rate, from_s)
    ]


def flood(kind: str, tenant: str, seed: int) -> list[Asked]:
    """Several times what the replica can do, from ``FLOOD_FROM_S`` on."""
    random = np.random.default_rng(seed)
    heads = [_tokens(random, 1384) for _ in range(3)]
    rates = {"alike": 40.0, "long prompts": 40.0, "short prompts": 150.0, "cached prompts": 60.0}
    found = []
    for at_s in _arrivals(random, rates[kind], FLOOD_FROM_S):
        prompt, output = _chat(random)
        if kind == "long prompts":
            prompt = _tokens(random, 1500)
        elif kind == "short prompts":
            prompt, output = _tokens(random, 80), 8
        elif kind == "cached prompts":
            prompt = heads[int(random.integers(len(heads)))] + _tokens(random, 16)
        found.append(Asked(at_s, tenant, "chat", prompt, output))
    return found


FLOODS = ("alike", "long prompts", "short prompts", "cached prompts")


def measure_flood(rate: float = 2.0, max_queue: int = 256) -> Figures:
    regular = [asked for number in range(TENANTS) for asked in chats(f"tenant {number}", rate, 10 + number)]
    calm = _p95s(regular, max_queue)
    kinds: Figures = {}
    for kind in FLOODS:
        trace = regular + flood(kind, f"tenant {TENANTS - 1}", 99)
        found = _p95s(trace, max_queue)
        moved = {name: found[name] / calm[name] for name in calm}
        kinds[kind] = {"p95_ms": {name: 1000 * value for name, value in found.items()}, "moved": max(moved.values())}
        say(f"flood of {kind}: {kinds[kind]['moved']:.2f}")
    return {"calm_p95_ms": {name: 1000 * value for name, value in calm.items()}, "floods": kinds}


def _p95s(trace: Sequence[Asked], max_queue: int) -> dict[str, float]:
    served = play(sorted(trace, key=lambda asked: asked.at_s), ours, max_queue)
    firsts: dict[str, list[float]] = {f"tenant {number}": [] for number in range(TENANTS - 1)}
    for one in served:
        if one.asked.tenant in firsts and one.asked.at_s >= FLOOD_FROM_S:
            firsts[one.asked.tenant].append(600.0 if one.first_s is None else one.first_s)
    return {tenant: percentile(values, 0.95) for tenant, values in firsts.items()}


def _arrivals(random: np.random.Generator, rate: float, from_s: float) -> list[float]:
    gaps = random.exponential(1 / rate, int(2 * rate * UNTIL_S))
    times = from_s + np.cumsum(gaps)
    found: list[float] = times[times < UNTIL_S].tolist()
    return found


def _chat(random: np.random.Generator) -> tuple[tuple[int, ...], int]:
    return _tokens(random, _length(random, 128, 0.99, 80, 1500)), _length(random, 64, 0.86, 4, 256)


def _tokens(random: np.random.Generator, count: int) -> tuple[int, ...]:
    return tuple(random.integers(1000, VOCABULARY, count).tolist())


def _length(random: np.random.Generator, middle: float, spread: float, least: int, most: int) -> int:
    return int(min(most, max(least, random.lognormal(np.log(middle), spread))))


# --- The prediction ---------------------------------------------------------------------------------------------


def measure_prediction(rates: Sequence[float] = (8.0, 14.0, 20.0)) -> Figures:
    """Predicted against real TTFT of interactive requests, once a hundred have shown what the engine takes."""
    found: Figures = {}
    for rate in rates:
        served = sorted(play(mix_at(rate, 1, 1500), ours), key=lambda one: one.asked.at_s)[100:]
        pairs = [(one.predicted_s, one.first_s) for one in served if one.asked.service != "batch" and one.first_s]
        errors = [abs(predicted - real) for predicted, real in pairs]
        found[f"{rate:g}"] = {
            "ttft_p50_ms": 1000 * median([real for _, real in pairs]),
            "error_p50_ms": 1000 * median(errors),
            "error_p90_ms": 1000 * percentile(errors, 0.9),
            "bias_ms": 1000 * median([predicted - real for predicted, real in pairs]),
        }
        say(f"prediction at {rate:g}/s: {found[f'{rate:g}']}")
    return found


# --- The engine itself ------------------------------------------------------------------------------------------

PAIRS, PHASE_S, VICTIM_HZ, FLOOD_HZ = 4, 20.0, 2.0, 8.0
ENGINE_TOKENS = 8 * 2048


def measure_engine() -> Figures:
    """Calm and flood in turns, through one door: each flood over the calm before it."""
    from benchmarks.common.executor import load_executor
    from benchmarks.common.peers import model_paths
    from gpuruntime.engine.runner import ModelRunner

    model, _ = model_paths()
    loaded = load_executor(model, "bf16", kv_tokens=ENGINE_TOKENS, max_model_len=2048, max_step_tokens=STEP_TOKENS)

    async def main() -> list[tuple[float, float]]:
        runner, blocks = ModelRunner(loaded.executor), loaded.executor.num_blocks
        engine = Stepping(runner, max_seqs=PLACES, max_tokens=STEP_TOKENS, num_blocks=blocks)
        admission = Admission(
            PLACES, 32, 5.0, step_ms=lambda: engine.core.stats().step_ms_ewma, step_tokens=STEP_TOKENS
        )
        door = Door(admission, engine, LEVELS)
        await door.play(_short("victim", VICTIM_HZ, 0))  # to warm up
        return [
            (await _phase(door, seed, flood=False), await _phase(door, seed, flood=True))
            for seed in range(1, PAIRS + 1)
        ]

    pairs = asyncio.run(main())
    return {
        "pairs": pairs,
        "calm_ms": 1000 * median([calm for calm, _ in pairs]),
        "flood_ms": 1000 * median([flood for _, flood in pairs]),
        "moved": median([flood / calm for calm, flood in pairs]),
    }


async def _phase(door: Door, seed: int, *, flood: bool) -> float:
    """The victim's p95 TTFT in seconds."""
    trace = _short("victim", VICTIM_HZ, seed) + (_short("flood", FLOOD_HZ, 100 + seed) if flood else [])
    served = await door.play(sorted(trace, key=lambda asked: asked.at_s))
    waited = [one.first_s or 5.0 for one in served if one.asked.tenant == "victim"]
    say(f"{'flood' if flood else 'calm'}: {1000 * percentile(waited, 0.95):.0f} ms of {len(waited)} requests")
    return percentile(waited, 0.95)


def _short(tenant: str, rate: float, seed: int) -> list[Asked]:
    """For ``PHASE_S``: prompts of 64 to 192 tokens, answers of 8 to 24."""
    random = np.random.default_rng(seed)
    times = [at_s for at_s in np.cumsum(random.exponential(1 / rate, int(3 * rate * PHASE_S))) if at_s < PHASE_S]
    return [
        Asked(float(at_s), tenant, "chat", _tokens(random, int(random.integers(64, 193))), int(random.integers(8, 25)))
        for at_s in times
    ]


# --- The figures ------------------------------------------------------------------------------------------------


def report(result: Mapping[str, Any]) -> None:
    if mix := result.get("mix"):
        print("C_95, requests/s      the queue   first come   gain   attained by the queue there")
        for number, run in enumerate(mix["runs"], 1):
            attained = ", ".join(f"{name} {100 * share:.1f} %" for name, share in run["attained"].items())
            print(
                f"  trace {number:<14} {run['ours']:>10.1f} {run['first_come']:>12.1f} {run['gain']:>6.2f}   {attained}"
            )
    if found := result.get("flood"):
        print("worst p95 TTFT of three tenants beside one that floods      ms    moved by")
        print(f"  calm {max(found['calm_p95_ms'].values()):>55.0f}")
        for kind, one in found["floods"].items():
            print(f"  {kind:<48} {max(one['p95_ms'].values()):>11.0f} {one['moved']:>10.2f}")
    if found := result.get("prediction"):
        print("predicted TTFT, ms                       real p50   error p50   error p90   median bias")
        for rate, one in found.items():
            print(
                f"  {rate:>3} requests/s {one['ttft_p50_ms']:>33.0f} {one['error_p50_ms']:>11.0f}"
                f" {one['error_p90_ms']:>11.0f} {one['bias_ms']:>13.0f}"
            )
    if found := result.get("engine"):
        print(f"on the engine: p95 TTFT calm {found['calm_ms']:.0f} ms, beside a flood {found['flood_ms']:.0f} ms")
        print(f"  moved by {found['moved']:.2f}, the median of {len(found['pairs'])} pairs")


def failures(result: Mapping[str, Any]) -> list[str]:
    targets = Targets()
    if "mix" in result:
        targets.at_least("C_95 of the queue over first come, first served", result["mix"]["gain"], GAIN)
    for kind, one in result.get("flood", {}).get("floods", {}).items():
        targets.at_most(f"p95 TTFT beside a flood of {kind}, over calm", one["moved"], MOVED)
    if "engine" in result:
        targets.at_most("p95 TTFT on the engine beside a flood, over calm", result["engine"]["moved"], MOVED)
    return targets.missed


def main() -> int:
    parts: dict[str, Callable[[], Figures]] = {
        "mix": measure_mix,
        "flood": measure_flood,
        "prediction": measure_prediction,
        "engine": measure_engine,
    }
    return run_parts(__doc__, parts, report, failures)


if __name__ == "__main__":
    sys.exit(main())
