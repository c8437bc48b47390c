"""A step's batch as the device reads it, brought there by one copy.

Everything lies in one piece of memory, whose layout follows from the step's sizes alone: so a captured graph finds its
inputs where they were, and each step costs one launch of a copy and no wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.executor import Draws, StepBatch
from gpuruntime.kernels.gpu.attention_batch import Requests
from gpuruntime.kernels.gpu.sampling_limits import SamplingParameters

_ALIGNMENT = 16  # Triton compiles anew for pointers that are no multiple of it
_DEFAULTS: Mapping[str, float] = {"top_ps": 1.0}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens, requests, sampled rows, and the width of the block tables."""

    tokens: int
    requests: int
    sampled: int
    width: int


@dataclass(frozen=True, slots=True)
class HostStep:
    """A step's arrays in the order of the device: requests with one new token first, ``decodes`` of them."""

    sizes: Sizes
    decodes: int
    arrays: Mapping[str, NDArray[Any]]

    @property
    def only_decodes(self) -> bool:
        return self.decodes == self.sizes.requests


@dataclass(frozen=True, slots=True)
class StepTensors:
    """What the device reads in a step of ``T`` tokens, ``R`` of which are sampled.

    token_ids: int32 ``[T]``, a negative one as in ``StepBatch``. positions: int64 ``[T]``. slots: int64 ``[T]``, a
    negative one is nowhere. sample_rows: int32 ``[R]``.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    requests: Requests
    decodes: int
    sample_rows: Tensor
    parameters: SamplingParameters


def arrange(batch: StepBatch, draws: Draws | None) -> HostStep:
    """Orders the rows; without ``draws`` each of the ``R`` rows takes its largest logit."""
    counts = np.diff(batch.begins)
    order = np.argsort(counts > 1, kind="stable")
    ordered = counts[order]
    begins = np.concatenate(([0], np.cumsum(ordered)))
    rows = np.repeat(order, ordered)
    offsets = np.arange(begins[-1]) - np.repeat(begins[:-1], ordered)
    tokens = batch.begins[rows] + offsets
    positions = batch.positions[rows] + offsets
    blocks = batch.tables[rows, positions // BLOCK_TOKENS].astype(np.int64)
    places = np.empty_like(tokens)
    places[tokens] = np.arange(len(tokens))
    arrays = {
        "token_ids": batch.token_ids[tokens],
        "positions": positions,
        "slots": blocks * BLOCK_TOKENS + positions % BLOCK_TOKENS,
        "begins": begins,
        "lengths": (batch.positions + counts)[order],
        "tables": batch.tables[order],
        "sample_rows": places[batch.logits_rows],
    }
    if draws is not None:
        arrays |= {name: getattr(draws, name) for name in SamplingParameters.__slots__}
    sizes = Sizes(len(tokens), len(counts), len(batch.logits_rows), batch.tables.shape[1])
    return HostStep(sizes, int((counts == 1).sum()), arrays)


def pad(step: HostStep, requests: int, width: int) -> HostStep:
    """A step of decodes alone as one of ``requests``, all of them sampled, with tables of ``width``.

    The rows behind the step's own have no context and write no K and V.
    """
    count, rows = step.sizes.requests, step.arrays["sample_rows"]
    arrays: dict[str, NDArray[Any]] = {"begins": np.arange(requests + 1), "sample_rows": np.arange(requests)}
    arrays["tables"] = np.zeros((requests, width), dtype=np.int32)
    arrays["tables"][:count, : step.sizes.width] = step.arrays["tables"]
    arrays["slots"] = np.full(requests, -1, dtype=np.int64)
    arrays["slots"][:count] = step.arrays["slots"]
    for name in ("token_ids", "positions", "lengths"):
        arrays[name] = np.zeros(requests, dtype=np.int32)
        arrays[name][:count] = step.arrays[name]
    for name in SamplingParameters.__slots__:
        if name in step.arrays:
            arrays[name] = np.full(requests, _DEFAULTS.get(name, 0), dtype=step.arrays[name].dtype)
            arrays[name][rows] = step.arrays[name]
    return HostStep(Sizes(requests, requests, requests, width), requests, arrays)


class Layout:
    """Where each array of a step of some sizes lies; ``nbytes`` in all."""

    def __init__(self, sizes: Sizes) -> None:
        tokens, requests, sampled = (sizes.tokens,), (sizes.requests,), (sizes.sampled,)
        shapes = {
            "token_ids": (torch.int32, tokens),
            "positions": (torch.int64, tokens),
            "slots": (torch.int64, tokens),
            "begins": (torch.int32, (sizes.requests + 1,)),
            "lengths": (torch.int32, requests),
            "tables": (torch.int32, (sizes.requests, sizes.width)),
            "sample_rows": (torch.int32, sampled),
            "temperatures": (torch.float32, sampled),
            "top_ks": (torch.int32, sampled),
            "top_ps": (torch.float32, sampled),
            "min_ps": (torch.float32, sampled),
            "seeds": (torch.int64, sampled),
            "steps": (torch.int32, sampled),
        }
        self.nbytes = 0
        self._places: dict[str, tuple[int, torch.dtype, tuple[int, ...]]] = {}
        for name, (dtype, shape) in shapes.items():
            self._places[name] = self.nbytes, dtype, shape
            self.nbytes += -(-prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT

    def fill(self, memory: Tensor, step: HostStep) -> None:
        """Writes a step of these sizes to uint8 ``memory [nbytes]`` of the host."""
        for name, view in self._views(memory).items():
            view.numpy()[...] = step.arrays.get(name, _DEFAULTS.get(name, 0))

    def tensors(self, memory: Tensor, decodes: int) -> StepTensors:
        """Views of uint8 ``memory [nbytes]``."""
        views = self._views(memory)
        return StepTensors(
            token_ids=views["token_ids"],
            positions=views["positions"],
            slots=views["slots"],
            requests=Requests(views["begins"], views["lengths"], views["tables"]),
            decodes=decodes,
            sample_rows=views["sample_rows"],
            parameters=SamplingParameters(**{name: views[name] for name in SamplingParameters.__slots__}),
        )

    def _views(self, memory: Tensor) -> dict[str, Tensor]:
        return {
            name: memory[begin : begin + prod(shape) * dtype.itemsize].view(dtype).view(shape)
            for name, (begin, dtype, shape) in self._places.items()
        }


def staged(layout: Layout, step: HostStep, device: torch.device) -> Tensor:
    """The step in memory of the host from which ``device`` can copy while the host goes on."""
    # PyTorch hands pinned memory out again only when the copies from it are through.
    memory = torch.empty(layout.nbytes, dtype=torch.uint8, pin_memory=device.type == "cuda")
    layout.fill(memory, step)
    return memory


def to_device(step: HostStep, device: torch.device) -> StepTensors:
    layout = Layout(step.sizes)
    return layout.tensors(staged(layout, step, device).to(device, non_blocking=True), step.decodes)
