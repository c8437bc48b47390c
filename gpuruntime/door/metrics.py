"""Prometheus metrics of one replica, under vLLM's names where they mean the same, in a registry of their own."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.backend import BackendStats
from gpuruntime.protocol import EndedRequest

_LABELS = ["model_name"]
_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """``snapshot`` gives the engine's statistics and the number of requests that wait at the door."""

    def __init__(self, model_name: str, snapshot: Callable[[], tuple[BackendStats, int]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(model_name, snapshot))
        self._gaps = _Gaps(model_name)
        self._registry.register(self._gaps)
        self.token_gap = self._gaps.add
        self._model = model_name

        def histogram(name: str, text: str) -> Histogram:
            metric = Histogram(name, text, _LABELS, buckets=_SECONDS, registry=self._registry)
            return metric.labels(model_name)

        self._ended = Counter(
            "vllm:request_success", "Requests that ended, by reason.", [*_LABELS, "finished_reason"],
            registry=self._registry,
        )  # fmt: skip
        self._outcomes = Counter(
            "berth:request_outcome", "Admitted requests, by outcome.", [*_LABELS, "outcome"], registry=self._registry
        )
        self._ttft = histogram("vllm:time_to_first_token_seconds", "From the body read to the first token.")
        self._tpot = histogram("vllm:request_time_per_output_token_seconds", "Mean time per token after the first.")
        self._e2e = histogram("vllm:e2e_request_latency_seconds", "From the body read to the end.")
        self._queue = histogram("vllm:request_queue_time_seconds", "Waiting at the door and in the engine.")
        self._prefill = histogram("vllm:request_prefill_time_seconds", "Prefill.")
        self._decode = histogram("vllm:request_decode_time_seconds", "Decode.")

    def observe(self, ended: EndedRequest) -> None:
        self._outcomes.labels(self._model, ended.outcome).inc()
        if ended.finish_reason:
            self._ended.labels(self._model, ended.finish_reason).inc()
        self._e2e.observe(ended.duration_ms / 1000)
        for histogram, value_ms in (
            (self._ttft, ended.ttft_ms),
            (self._queue, ended.queue_ms),
            (self._prefill, ended.prefill_ms),
            (self._decode, ended.decode_ms),
        ):
            if value_ms is not None:
                histogram.observe(value_ms / 1000)
        if ended.completion_tokens > 1 and ended.ttft_ms is not None:
            self._tpot.observe((ended.duration_ms - ended.ttft_ms) / 1000 / (ended.completion_tokens - 1))

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _Gaps(Collector):
    """Seconds between the tokens of a choice. They are many, so a list counts them: a tenth of a Histogram's cost."""

    def __init__(self, model_name: str) -> None:
        self._model = model_name
        self._counts = [0] * (len(_SECONDS) + 1)
        self._sum_s = 0.0

    def add(self, gap_s: float) -> None:
        self._counts[bisect_left(_SECONDS, gap_s)] += 1
        self._sum_s += gap_s

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        name, text = "vllm:inter_token_latency_seconds", "Between two steps that gave a choice tokens."
        family = HistogramMetricFamily(name, text, labels=_LABELS)
        edges = [*(str(float(edge)) for edge in _SECONDS), "+Inf"]
        family.add_metric([self._model], list(zip(edges, accumulate(self._counts), strict=True)), self._sum_s)
        yield family


class _EngineCollector(Collector):
    """Reads the engine's totals when scraped, so that serving pays nothing for them."""

    def __init__(self, model_name: str, snapshot: Callable[[], tuple[BackendStats, int]]) -> None:
        self._model = [model_name]
        self._snapshot = snapshot

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        stats, queued = self._snapshot()
        gauges: list[tuple[str, str, float | None]] = [
            ("vllm:num_requests_running", "Requests in the engine's batches.", stats.running),
            ("vllm:num_requests_waiting", "Requests waiting, at the door and in the engine.", queued + stats.waiting),
            ("vllm:kv_cache_usage_perc", "Share of the KV blocks in use (0 to 1).", _kv_usage(stats)),
        ]
        counters: list[tuple[str, str, float]] = [
            ("vllm:prompt_tokens", "Prompt tokens processed.", stats.prompt_tokens_total),
            ("vllm:generation_tokens", "Tokens generated.", stats.completion_tokens_total),
            ("vllm:prefix_cache_queries", "Prompt tokens looked for in the prefix cache.", stats.prompt_tokens_total),
            ("vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache.", stats.cached_tokens_total),
            ("vllm:num_preemptions", "Preemptions.", stats.preemptions_total),
            ("berth:engine_steps", "Steps of the engine.", stats.steps_total),
            ("berth:engine_busy_seconds", "Time the engine spent in steps.", stats.busy_s_total),
            ("berth:engine_ideal_seconds", "Roofline time of the executed work.", stats.ideal_s_total),
        ]
        for name, text, value in gauges:
            if value is not None:
                gauge = GaugeMetricFamily(name, text, labels=_LABELS)
                gauge.add_metric(self._model, value)
                yield gauge
        for name, text, value in counters:
            counter = CounterMetricFamily(name, text, labels=_LABELS)
            counter.add_metric(self._model, value)
            yield counter


def _kv_usage(stats: BackendStats) -> float | None:
    if not stats.kv_blocks_total or stats.kv_blocks_free is None:
        return None
    return 1 - stats.kv_blocks_free / stats.kv_blocks_total
