"""What each step from static batching to our engine is worth in goodput, on one executor and one mix of requests.

    python benchmarks/ladder.py [--seconds 20] [--load 0.7] [--json FILE] [--check]

Stage 0 serves static batches over contiguous KV; stage 1 is the engine's own scheduler: continuous batching, paged KV,
chunked prefill and the prefix cache. Each is switched on alone over stage 0, and then one after the other. Everybody
gets the same arrivals of the four service classes, judged by the platform's definition (docs/goodput.md) against the
platform's own levels; only what schedules the executor differs.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.common.executor import Loaded, load_executor, make_step, own_blocks, shape_of
from benchmarks.common.mix import Arrival, make_mix
from benchmarks.common.peers import model_paths
from benchmarks.common.report import conclude, end_on_signals, median, options_parser, say
from benchmarks.common.static_batching import Options, StaticBatching
from gpuruntime.backend import SamplingParams
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.goodput import Circumstances, Outcome, ServiceLevel, Timeline, Window, judge
from gpuruntime.roofline import DeviceRates, ModelShape, best_batch, ideal_decode_s, ideal_prefill_s

MAX_MODEL_LEN = 2048  # above the mix's longest prompt and answer together
SLOTS = 8  # contiguous requests that the KV memory holds
MAX_SEQS = 64
CHUNK = 512
WHOLE = SLOTS * MAX_MODEL_LEN  # a budget that cuts no prompt
DRAIN_S = 30.0  # what has no answer so long after the last arrival never gets one
REFERENCE_CONTEXT = 300

Figures = dict[str, Any]


class Meter:
    """Executed ideal seconds, by the roofline at bf16."""

    def __init__(self, shape: ModelShape, rates: DeviceRates) -> None:
        self._shape, self._rates = shape, rates
        self._batch = best_batch(
            shape,
            rates,
            tpot_us=100_000,
            context=REFERENCE_CONTEXT,
            kv_capacity_tokens=SLOTS * MAX_MODEL_LEN,
            most=MAX_SEQS,
        )
        self.executed_s = 0.0

    def work(self, start: int, tokens: int, decodes: bool) -> None:
        if decodes:
            self.executed_s += ideal_decode_s(self._shape, self._rates, self._batch, start + 1, tokens)
        else:
            self.executed_s += ideal_prefill_s(self._shape, self._rates, tokens, start)

    def delivered_s(self, arrival: Arrival, tokens: int) -> float:
        """What the client got, had every token that no earlier prompt had been computed once."""
        if tokens == 0:
            return 0.0
        known = len(arrival.prompt) - arrival.new_tokens
        context = len(arrival.prompt) + tokens // 2
        return ideal_prefill_s(self._shape, self._rates, arrival.new_tokens, known) + ideal_decode_s(
            self._shape, self._rates, self._batch, context, tokens - 1
        )


# --- Who schedules ----------------------------------------------------------------------------------------------


class Stage(Protocol):
    """Something that serves requests, one step a call; ``step`` returns (key, tokens, ended)."""

    @property
    def busy(self) -> bool: ...

    def add(self, key: int, arrival: Arrival) -> None: ...

    def step(self) -> list[tuple[int, int, bool]]: ...


class Static:
    """Stage 0 and each of its single changes."""

    def __init__(self, loaded: Loaded, meter: Meter, options: Options) -> None:
        self._batching = StaticBatching(
            loaded.executor, meter.work, max_model_len=MAX_MODEL_LEN, max_seqs=MAX_SEQS, options=options
        )

    @property
    def busy(self) -> bool:
        return self._batching.busy

    def add(self, key: int, arrival: Arrival) -> None:
        self._batching.add(key, arrival.prompt, arrival.max_tokens)

    def step(self) -> list[tuple[int, int, bool]]:
        return [(key, 1, ended) for key, ended in self._batching.step()]


class Continuous:
    """The engine's core. Without paging it runs no more requests than contiguous slots would hold."""

    def __init__(self, loaded: Loaded, meter: Meter, *, paged: bool, chunk: int, cache: bool) -> None:
        from gpuruntime.engine.core import EngineCore
        from gpuruntime.engine.ledger import Ledger
        from gpuruntime.engine.runner import ModelRunner

        blocks = loaded.executor.num_blocks
        ledger = Ledger(shape_of(loaded.model, "bf16"), kv_capacity_tokens=blocks * BLOCK_TOKENS, max_seqs=MAX_SEQS)
        self._core = EngineCore(
            _Metered(ModelRunner(loaded.executor), meter),
            ledger,
            max_seqs=MAX_SEQS if paged else SLOTS,
            max_tokens=chunk,
            num_blocks=blocks,
            cache=cache,
        )

    @property
    def busy(self) -> bool:
        return self._core.busy

    def add(self, key: int, arrival: Arrival) -> None:
        from gpuruntime.engine.request import Clock, Request

        request = Request(
            key=key,
            prompt_len=len(arrival.prompt),
            tokens=list(arrival.prompt),
            params=SamplingParams(max_tokens=arrival.max_tokens, temperature=0.0, ignore_eos=True),
            seed=0,
            salt=b"",
            end_ids=frozenset(),
            clock=Clock(time.monotonic()),
        )
        self._core.add(request)

    def step(self) -> list[tuple[int, int, bool]]:
        outputs = self._core.step()
        return [(output.key, len(output.tokens), output.finish_reason is not None) for output in outputs]


class _Metered:
    """Books the rows that the core's runner runs."""

    def __init__(self, runner: Any, meter: Meter) -> None:
        self._runner, self._meter = runner, meter

    def reads(self, rows: Sequence[Any]) -> bool:
        return bool(self._runner.reads(rows))

    def launch(self, rows: Sequence[Any]) -> Any:
        for row in rows:
            decodes = row.count == 1 and row.start >= row.request.prompt_len
            self._meter.work(row.start, row.size, decodes)
        return self._runner.launch(rows)


@dataclass(frozen=True, slots=True)
class Rung:
    name: str
    make: Callable[[Loaded, Meter], Stage]


RUNGS = (
    Rung("stage 0: static, contiguous", lambda loaded, meter: Static(loaded, meter, Options())),
    Rung("  paged KV alone", lambda loaded, meter: Static(loaded, meter, Options(paged=True))),
    Rung("  chunked prefill alone", lambda loaded, meter: Static(loaded, meter, Options(chunk=CHUNK))),
    Rung("  prefix cache alone", lambda loaded, meter: Static(loaded, meter, Options(reuse=True))),
    Rung(
        "+ continuous batching", lambda loaded, meter: Continuous(loaded, meter, paged=False, chunk=WHOLE, cache=False)
    ),
    Rung("+ paged KV", lambda loaded, meter: Continuous(loaded, meter, paged=True, chunk=WHOLE, cache=False)),
    Rung("+ chunked prefill", lambda loaded, meter: Continuous(loaded, meter, paged=True, chunk=CHUNK, cache=False)),
    Rung(
        "+ prefix cache: stage 1", lambda loaded, meter: Continuous(loaded, meter, paged=True, chunk=CHUNK, cache=True)
    ),
)


# --- One run ----------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """The clock of one rung's run; microseconds since its begin."""

    arrivals: Sequence[Arrival]
    levels: dict[str, ServiceLevel]
    meter: Meter
    lines: dict[int, Timeline] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    total: Window = field(default_factory=Window)

    def serve(self, stage: Stage) -> None:
        """Feeds the arrivals at their times and steps until all are answered or the drain is over."""
        began, following, busy_s = time.monotonic(), 0, 0.0
        until_s = self.arrivals[-1].at_s + DRAIN_S
        while (following < len(self.arrivals) or stage.busy) and (now_s := time.monotonic() - began) < until_s:
            while following < len(self.arrivals) and self.arrivals[following].at_s <= now_s:
                arrival = self.arrivals[following]
                tpot_us = self.levels[arrival.service].tpot_us
                self.lines[following] = Timeline(int(arrival.at_s * 1e6), tpot_us)
                stage.add(following, arrival)
                following += 1
            if not stage.busy:
                time.sleep(max(0.0, self.arrivals[following].at_s - now_s))
                continue
            produced = stage.step()
            ended_s = time.monotonic() - began
            busy_s += ended_s - now_s
            for key, tokens, ended in produced:
                self.lines[key].add(tokens, int(ended_s * 1e6))
                if ended:
                    self._judge(key, Outcome.COMPLETED, ended_s)
        provisioned_s = time.monotonic() - began
        for key in list(self.lines):
            self._judge(key, Outcome.QUEUE_TIMEOUT, provisioned_s)
        self.total.busy_s, self.total.provisioned_s = busy_s, provisioned_s
        self.total.executed_ideal_s = self.meter.executed_s

    def _judge(self, key: int, outcome: Outcome, now_s: float) -> None:
        arrival, line = self.arrivals[key], self.lines.pop(key)
        seen = Circumstances(outcome, int(now_s * 1e6), arrival.new_tokens)
        verdict = judge(self.levels[arrival.service], line, seen)
        ideal_s = self.meter.delivered_s(arrival, line.tokens)
        for window in (self.total, self.windows.setdefault(arrival.service, Window())):
            window.record(verdict, outcome, prompt_tokens=len(arrival.prompt), stalls=line.stalls, ideal_s=ideal_s)

    def figures(self) -> Figures:
        window = self.total
        return {
            **window.factors,
            "goodput": window.goodput,
            "attainment": window.attainment,
            "classes": {name: window.attainment for name, window in sorted(self.windows.items())},
            "offered": window.offered,
            "tokens": window.tokens,
            "provisioned_s": window.provisioned_s,
            "ttft_p50_ms": (window.ttft.percentile(0.5) or 0) / 1000,
            "tpot_p50_ms": (window.tpot.percentile(0.5) or 0) / 1000,
        }


# --- Scaling to this machine ------------------------------------------------------------------------------------


def service_levels() -> dict[str, ServiceLevel]:
    """The platform's four classes, as a new installation has them."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "berth.settings"
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as home:
        os.environ["BERTH_HOME"] = home
        import django

        django.setup()
        from berth.slas.services import DEFAULT_CLASSES
    known = set(ServiceLevel.__dataclass_fields__)
    return {
        name: ServiceLevel(**{key: value for key, value in values.items() if key in known})
        for name, values in DEFAULT_CLASSES.items()
    }


def device_rates(loaded: Loaded) -> DeviceRates:
    from gpuruntime.kernels.rates import measure_rates

    found: list[DeviceRates] = []
    for _ in measure_rates(loaded.executor.probe(), None, found.append):
        pass
    return found[0]


def request_rate(loaded: Loaded, mix: Sequence[Arrival], load: float) -> float:
    """Requests a second that keep the executor busy for ``load`` of the time, if it decoded eight at a time."""
    prompt = make_step([(list(range(1000, 1000 + REFERENCE_CONTEXT)), 0, own_blocks(0, REFERENCE_CONTEXT))])
    eight = make_step([([1000], REFERENCE_CONTEXT, own_blocks(row, REFERENCE_CONTEXT + 1)) for row in range(SLOTS)])
    token_s = _time(loaded, prompt) / REFERENCE_CONTEXT
    decode_s = _time(loaded, eight) / SLOTS
    work = sum(token_s * arrival.new_tokens + decode_s * arrival.max_tokens for arrival in mix)
    return load * len(mix) / work


def _time(loaded: Loaded, step: Any) -> float:
    loaded.executor.launch(step).tokens()
    took = []
    for _ in range(5):
        began = time.perf_counter()
        loaded.executor.launch(step).tokens()
        took.append(time.perf_counter() - began)
    return median(took)


# --- The figures ------------------------------------------------------------------------------------------------


def measure(seconds: float, load: float) -> Figures:
    model, _ = model_paths()
    levels = service_levels()
    loaded = load_executor(
        model, "bf16", kv_tokens=SLOTS * MAX_MODEL_LEN, max_model_len=MAX_MODEL_LEN, max_step_tokens=WHOLE
    )
    vocabulary = loaded.model.vocab_size
    rate = request_rate(loaded, make_mix(200, 1.0, vocabulary), load)
    arrivals = make_mix(max(8, round(rate * seconds)), rate, vocabulary)
    say(f"{loaded.executor.name}: {len(arrivals)} requests, {rate:.2f} a second, for {len(RUNGS)} rungs")
    rates, shape = device_rates(loaded), shape_of(loaded.model, "bf16")
    rungs: dict[str, Figures] = {}
    for rung in RUNGS:
        meter = Meter(shape, rates)
        run = Run(arrivals, levels, meter)
        run.serve(rung.make(loaded, meter))
        rungs[rung.name.strip()] = run.figures()
        say(f"{rung.name}: {run.total.provisioned_s:.0f} s")
    return {"executor": loaded.executor.name, "requests_per_s": rate, "load": load, "rungs": rungs}


def report(result: Figures) -> None:
    print(f"{result['executor']}, {result['requests_per_s']:.2f} requests a second, longest context {MAX_MODEL_LEN}")
    print("                                  G  attained    eta     U     E     R     A   chat   code    rag  batch")
    for name, at in result["rungs"].items():
        factors = f"{at['eta']:>6.3f} {at['U']:>5.2f} {at['E']:>5.2f} {at['R']:>5.2f} {at['A']:>5.2f}"
        classes = " ".join(f"{100 * at['classes'].get(kind, 0):>4.0f} %" for kind in ("chat", "code", "rag", "batch"))
        print(f"{name:<28} {at['goodput']:>6.1f} {100 * at['attainment']:>7.1f} % {factors} {classes}")


def failures(result: Figures) -> list[str]:
    first, *_, last = result["rungs"].values()
    return [
        f"{key}: {last[key]:.3f} at stage 1, {first[key]:.3f} at stage 0 (more expected)"
        for key in ("goodput", "eta")
        if not last[key] > first[key]
    ]


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of arrivals at each rung")
    parser.add_argument("--load", type=float, default=0.7, help="of what the executor can do, as it is offered")
    options = parser.parse_args()
    end_on_signals()
    result = measure(options.seconds, options.load)
    report(result)
    return conclude(result, failures(result), options)


if __name__ == "__main__":
    sys.exit(main())
