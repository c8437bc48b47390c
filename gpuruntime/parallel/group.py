"""What the layers ask of the other ranks: a sum and a concatenation. ``Alone`` is a model on one device."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from gpuruntime.parallel.shard import Shard


class Group(Protocol):
    """The ranks that run one model. Every rank calls the same collectives in the same order."""

    @property
    def shard(self) -> Shard: ...

    def sum(self, x: Tensor) -> Tensor:
        """The ranks' ``x`` added up, the same bits on each; in place."""
        ...

    def concatenate(self, x: Tensor, columns: int) -> Tensor:
        """``[R, columns]`` on every rank, of each rank's ``x``: its ``Shard.part`` of the columns."""
        ...


class Alone:
    """Implements ``Group`` for one rank."""

    shard = Shard()

    @staticmethod
    def sum(x: Tensor) -> Tensor:
        return x

    @staticmethod
    def concatenate(x: Tensor, columns: int) -> Tensor:
        return x
