"""What computes a step: the seam between the runner, which knows requests, and the code that multiplies.

``engine.torch_executor`` runs every family in PyTorch; ``engine.native_executor`` runs those that the C++ step covers.

A step whose tokens the device picks is launched: on a GPU the call returns while the device computes, and the next
step may be launched before the picks are known here, because it names them by their place (``StepBatch.token_ids``).
A step that the host's sampler has to see (penalties, log probabilities) asks for its logits and waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gpuruntime.kernels.rates import Probe

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StepBatch:
    """``T`` tokens of ``B`` rows, each row some consecutive tokens of one request; all arrays int32 and contiguous.

    token_ids: ``[T]``; a negative one, ``~r``, is the pick of row ``r`` of the launch before, which the host may not
    know yet; it stands alone in its row, and there is none where the executor does not run ahead. begins: ``[B + 1]``,
    row ``b`` is tokens ``begins[b] : begins[b + 1]``. positions: ``[B]``, the context position of each row's first
    token. tables: ``[B, width]``, each row's KV block ids, padded with 0; they cover the row's tokens. logits_rows:
    ``[R]``, ascending indexes into the tokens whose logits are wanted.
    """

    token_ids: Ints
    begins: Ints
    positions: Ints
    tables: Ints
    logits_rows: Ints


@dataclass(frozen=True, slots=True)
class Draws:
    """How each of the ``R`` rows of logits is sampled; the fields of ``kernels.gpu.sampling_limits``, on the host.

    temperatures: fp32, 0 takes the largest logit. top_ks: int32, 0 for all. top_ps, min_ps: fp32, 1 and 0 for all.
    seeds: int64, the bits of the request's. steps: int32, the place of the token in the request's output.
    """

    temperatures: Floats
    top_ks: Ints
    top_ps: Floats
    min_ps: Floats
    seeds: NDArray[np.int64]
    steps: Ints


class Picks(Protocol):
    """The tokens of a launched step."""

    def tokens(self) -> list[int]:
        """Waits for the step, not for those launched since: one token for each of the ``R`` rows of logits.

        Raises ``FloatingPointError`` on logits that are not finite, unless ``launch`` already did.
        """
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """``Picks`` of a step that had been computed when its launch returned."""

    found: list[int]

    def tokens(self) -> list[int]:
        return self.found


class Executor(Protocol):
    """One model's weights and KV memory on one device. K and V of a batch's tokens are written before they are read."""

    @property
    def name(self) -> str:
        """How it computes, for people: "native (AMX)", "PyTorch"."""
        ...

    @property
    def runs_ahead(self) -> bool:
        """Whether ``launch`` returns before the step is computed. What is launched later sees what it has written."""
        ...

    @property
    def draws(self) -> bool:
        """Whether ``launch`` can sample; else it only takes the largest logit."""
        ...

    @property
    def num_blocks(self) -> int: ...

    @property
    def weights_bytes(self) -> int: ...

    def probe(self) -> Probe:
        """What measures the device's rates for this executor's arithmetic."""
        ...

    def set_threads(self, count: int) -> None:
        """Threads of the coming steps, at most those of the configuration."""
        ...

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> Picks:
        """Starts a step whose tokens are picked where it is computed; without ``draws``, of the largest logits.

        The largest logit is the one of the lowest id among equals.
        """
        ...

    def logits(self, batch: StepBatch) -> Tensor:
        """fp32 ``[R, vocab]`` on the host, after the step; it may be overwritten by the next call."""
        ...

    def states(self, batch: StepBatch) -> Tensor:
        """fp32 ``[R, hidden]`` on the host: what the head would read, of the tokens that ``logits_rows`` names."""
        ...
