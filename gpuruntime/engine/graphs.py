"""Decode steps that were recorded once and are replayed: a step then costs one launch, not one for each kernel.

A graph reads its inputs where it was captured, so each captured batch size has its place in the arena, which a step of
that size or of a few requests less is copied to. What follows works without a GPU too: there the "replay" of a step is
the step itself, over the same arena.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from gpuruntime.engine.step_tensors import HostStep, Layout, Sizes, StepTensors, pad, staged

Replay = Callable[[], Tensor]
# Makes a replay of a function, which it may call several times.
Capture = Callable[[Replay], Replay]


def captured_sizes(largest: int) -> list[int]:
    """1, 2, 4, 8 and on in steps of 8, so that few rows are padding; ``largest`` is always one of them."""
    return sorted({size for size in (1, 2, 4, *range(8, largest, 8)) if size < largest} | {largest})


class DecodeGraphs:
    """``run`` over steps of up to ``largest`` decodes with tables of up to ``width`` blocks."""

    def __init__(
        self,
        run: Callable[[StepTensors], Tensor],
        capture: Capture,
        *,
        largest: int,
        width: int,
        device: torch.device,
    ) -> None:
        """``run`` returns int64 ``[R]`` and does nothing that waits for the device."""
        self.sizes = captured_sizes(largest)
        self._width = width
        self._device = device
        self._layouts = {size: Layout(Sizes(size, size, size, width)) for size in self.sizes}
        self._arena = {
            size: torch.zeros(layout.nbytes, dtype=torch.uint8, device=device) for size, layout in self._layouts.items()
        }
        # The largest first: the smaller ones then find room in the memory that it left.
        self._replays = {size: capture(self._bound(run, size)) for size in reversed(self.sizes)}

    def covers(self, step: HostStep) -> bool:
        return step.only_decodes and step.sizes.requests <= self.sizes[-1] and step.sizes.width <= self._width

    def run(self, step: HostStep) -> Tensor:
        """int64, one for each of the step's sampled rows; it may be overwritten by the next call."""
        size = self.sizes[bisect_left(self.sizes, step.sizes.requests)]
        padded = pad(step, size, self._width)
        self._arena[size].copy_(staged(self._layouts[size], padded, self._device), non_blocking=True)
        found = self._replays[size]()
        if step.sizes.sampled == step.sizes.requests:
            return found[: step.sizes.requests]
        return _picked(found, step.arrays["sample_rows"].tolist())

    def _bound(self, run: Callable[[StepTensors], Tensor], size: int) -> Replay:
        tensors = self._layouts[size].tensors(self._arena[size], decodes=size)
        return lambda: run(tensors)


def _picked(found: Tensor, rows: Iterable[int]) -> Tensor:
    """Rows whose numbers the host knows, without a copy to the device."""
    parts = [found[row : row + 1] for row in rows]
    return torch.cat(parts) if parts else found[:0]


def eagerly(function: Replay) -> Replay:
    """``Capture`` where there are no graphs."""
    return function


class CudaCapture:
    """``Capture`` as CUDA graphs, which all take their memory from one pool: only one of them runs at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, function: Replay) -> Replay:
        # Once outside: kernels are compiled and loaded at their first launch, which a capture cannot record.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            function()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            found = function()

        def replay() -> Tensor:
            graph.replay()
            return found

        return replay
