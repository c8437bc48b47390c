"""What computes a step: the seam between the runner, which knows requests, and the code that multiplies.

``engine.torch_executor`` runs every family in PyTorch; ``engine.native_executor`` runs those that the C++ step covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gpuruntime.kernels.rates import Probe

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class StepBatch:
    """``T`` tokens of ``B`` rows, each row some consecutive tokens of one request; all arrays int32 and contiguous.

    token_ids: ``[T]``. begins: ``[B + 1]``, row ``b`` is tokens ``begins[b] : begins[b + 1]``. positions: ``[B]``, the
    context position of each row's first token. tables: ``[B, width]``, each row's KV block ids, padded with 0; they
    cover the row's tokens. logits_rows: ``[R]``, ascending indexes into the tokens whose logits are wanted.
    """

    token_ids: Ints
    begins: Ints
    positions: Ints
    tables: Ints
    logits_rows: Ints


class Executor(Protocol):
    """One model's weights and KV memory on one device. K and V of a batch's tokens are written before they are read."""

    @property
    def name(self) -> str:
        """How it computes, for people: "native (AMX)", "PyTorch"."""
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

    def logits(self, batch: StepBatch) -> Tensor:
        """fp32 ``[R, vocab]``; it may be overwritten by the next call."""
        ...

    def greedy(self, batch: StepBatch) -> list[int]:
        """The arg max of each of the ``R`` rows of logits, the lowest id among equals.

        Raises ``FloatingPointError`` on logits that are not finite.
        """
        ...
