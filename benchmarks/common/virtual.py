"""A door's queue and the engine's scheduler in virtual time: the code that serves, with a model of a step's time.

Admission, queue, prefix memory, scheduler and KV blocks are the runtime's own; only the clock of the event loop and
what computes a step are not. Nothing waits, so an hour takes as long as its work takes.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks.common.mix import Arrival
from gpuruntime.backend import SamplingParams
from gpuruntime.door.admission import Admission, Slo
from gpuruntime.door.errors import ApiError
from gpuruntime.door.seen import SeenBlocks, block_hashes
from gpuruntime.engine.core import EngineCore, Runner, StepOutput
from gpuruntime.engine.ledger import Ledger
from gpuruntime.engine.request import Clock, Request
from gpuruntime.engine.scheduler import Row
from gpuruntime.goodput import Circumstances, Outcome, ServiceLevel, Timeline, Verdict, judge
from gpuruntime.roofline import ModelShape

T = TypeVar("T")


class _NoWait(selectors.SelectSelector):
    """Waiting for files moves the clock and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing is going to happen")
        self.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only where everybody sleeps."""

    def __init__(self) -> None:
        self._selector_of_time = _NoWait()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        return self._selector_of_time.now_s


def run_virtually(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


# --- The engine -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step: a base, and for each prompt token and each decoded one."""

    base_s: float
    prompt_s: float
    decode_s: float

    def of(self, rows: Sequence[Row]) -> float:
        decodes = sum(row.count == 1 for row in rows)
        return self.base_s + self.decode_s * decodes + self.prompt_s * (sum(row.count for row in rows) - decodes)


@dataclass(frozen=True, slots=True)
class _Result:
    tokens: Sequence[int]
    logprobs: Sequence[Any] = ()
    scores: Sequence[Any] = ()
    state: None = None


class _Step:
    settled = True

    def __init__(self, rows: Sequence[Row], over: Callable[[], None]) -> None:
        self._rows, self._over = rows, over

    def results(self) -> list[_Result]:
        self._over()
        return [_Result((7,) if row.samples else ()) for row in self._rows]


# Only what the ledger divides by: no rates are set, so that nothing is reckoned with it.
_SHAPE = ModelShape.__new__(ModelShape)


class Stepping:
    """An engine's core on the event loop; ``run`` steps it for ever, and requests enter between two steps."""

    def __init__(self, runner: Runner, *, max_seqs: int, max_tokens: int, num_blocks: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.core = EngineCore(
            runner,
            Ledger(_SHAPE, kv_capacity_tokens=16 * num_blocks, max_seqs=max_seqs),
            max_seqs=max_seqs,
            max_tokens=max_tokens,
            num_blocks=num_blocks,
            cache=True,
            clock=self.now_s,
        )
        self._coming: list[Request] = []
        self._listeners: dict[int, Callable[[StepOutput], None]] = {}
        self._work = asyncio.Event()

    def now_s(self) -> float:
        return self._loop.time()

    async def step(self) -> list[StepOutput]:
        """In a thread, as the engine does."""
        return await self._loop.run_in_executor(None, self.core.step)

    def generate(
        self, key: int, prompt: Sequence[int], max_tokens: int, salt: bytes, tell: Callable[[StepOutput], None]
    ) -> None:
        """``tell`` is called with each step's share, the last one with its reason to finish."""
        self._listeners[key] = tell
        self._coming.append(
            Request(
                key=key,
                prompt_len=len(prompt),
                tokens=list(prompt),
                params=SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True),
                seed=0,
                salt=salt,
                end_ids=frozenset(),
                clock=Clock(self._loop.time()),
            )
        )
        self._work.set()

    async def run(self) -> None:
        while True:
            coming, self._coming = self._coming, []
            for request in coming:
                self.core.add(request)
            if not self.core.busy:
                self._work.clear()
                await self._work.wait()
                continue
            for output in await self.step():
                self._listeners[output.key](output)
                if output.finish_reason is not None:
                    del self._listeners[output.key]


class VirtualEngine(Stepping):
    """Its steps compute nothing and take ``step_time``."""

    def __init__(self, step_time: StepTime, *, max_seqs: int, max_tokens: int, num_blocks: int) -> None:
        self._step_time = step_time
        self._ahead_s = 0.0
        super().__init__(self, max_seqs=max_seqs, max_tokens=max_tokens, num_blocks=num_blocks)

    def now_s(self) -> float:
        return super().now_s() + self._ahead_s

    def reads(self, rows: Sequence[Row]) -> bool:
        return False

    def launch(self, rows: Sequence[Row]) -> _Step:
        def over() -> None:
            self._ahead_s = self._step_time.of(rows)

        return _Step(rows, over)

    async def step(self) -> list[StepOutput]:
        outputs = self.core.step()
        took_s, self._ahead_s = self._ahead_s, 0.0
        await asyncio.sleep(took_s)
        return outputs


# --- The door ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the trace: whose it is, and what was promised."""

    at_s: float
    tenant: str
    service: str
    prompt: tuple[int, ...]
    max_tokens: int

    @classmethod
    def of(cls, arrival: Arrival, tenant: str) -> Asked:
        return cls(arrival.at_s, tenant, arrival.service, arrival.prompt, arrival.max_tokens)


@dataclass(slots=True)
class Served:
    """How one request went; times in seconds of virtual time. ``predicted_s``: of its TTFT, at its arrival."""

    asked: Asked
    verdict: Verdict
    outcome: Outcome
    predicted_s: float
    first_s: float | None
    started_s: float | None


@dataclass(slots=True)
class Door:
    """One replica's door before one engine."""

    admission: Admission
    engine: Stepping
    levels: dict[str, ServiceLevel]
    weights: dict[str, float] = field(default_factory=dict)
    when_late: dict[str, Any] = field(default_factory=dict)
    seen: SeenBlocks = field(default_factory=SeenBlocks)
    served: list[Served] = field(default_factory=list)

    async def play(self, trace: Sequence[Asked]) -> list[Served]:
        """All of the trace at its times from now on; ends with the last answer, and returns how it went."""
        loop = asyncio.get_running_loop()
        began_s, before = loop.time(), len(self.served)
        stepping = asyncio.create_task(self.engine.run())
        tasks = []
        for key, asked in enumerate(trace):
            await asyncio.sleep(max(0.0, began_s + asked.at_s - loop.time()))
            tasks.append(asyncio.create_task(self._serve(before + key, asked)))
        await asyncio.gather(*tasks)
        stepping.cancel()
        self.engine.core.audit()
        return self.served[before:]

    async def _serve(self, key: int, asked: Asked) -> None:
        loop, admission, level = asyncio.get_running_loop(), self.admission, self.levels[asked.service]
        salt = asked.tenant.encode()
        hashes = block_hashes(asked.prompt, salt)
        new = self.seen.new_tokens(hashes, len(asked.prompt))
        received_s = loop.time()
        slo = Slo(
            level.base_ms,
            level.free_prompt_tokens,
            level.prefill_tokens_per_s,
            level.tpot_ms,
            self.when_late.get(asked.tenant, "queue"),
        )
        ticket = admission.ticket(
            asked.tenant,
            weight=self.weights.get(asked.tenant, 1.0),
            new_prompt_tokens=new,
            cached_tokens=len(asked.prompt) - new,
            max_tokens=asked.max_tokens,
            slo=slo,
            received_s=received_s,
        )
        line = Timeline(round(received_s * 1e6), level.tpot_us)
        predicted_s = admission.predicted_s(ticket)
        outcome, started_s, tokens, over = Outcome.COMPLETED, None, 0, loop.create_future()

        def tell(output: StepOutput) -> None:
            nonlocal tokens
            if output.tokens:
                if not tokens:
                    self.seen.remember(hashes)
                tokens += len(output.tokens)
                line.add(len(output.tokens), round(loop.time() * 1e6))
                admission.generated(ticket, tokens)
            if output.finish_reason is not None:
                over.set_result(None)

        try:
            await admission.enter(ticket)
            started_s = loop.time()
            self.engine.generate(key, asked.prompt, asked.max_tokens, salt, tell)
            await over
            admission.throughput.record(loop.time() - started_s, tokens)
            admission.leave(ticket, tokens)
        except ApiError as error:
            outcome = Outcome.QUEUE_TIMEOUT if error.code == "queue_timeout" else Outcome.REFUSED
        verdict = judge(level, line, Circumstances(outcome, round(loop.time() * 1e6), new))
        first_s = None if line.ttft_us is None else line.ttft_us / 1e6
        self.served.append(Served(asked, verdict, outcome, predicted_s, first_s, started_s))
