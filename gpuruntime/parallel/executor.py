"""One model over several ranks, for an engine that does not know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executor import Draws, Picks, StepBatch
from gpuruntime.kernels.rates import Probe
from gpuruntime.models.config import ModelConfig
from gpuruntime.parallel.message import Call, Kind, Load, pack
from gpuruntime.parallel.rank import load_part
from gpuruntime.parallel.ranks import Ranks
from gpuruntime.parallel.shard import rank_config

_Result = TypeVar("_Result")


class ShardedExecutor:
    """Implements ``engine.executor.Executor``: each call is made by every rank, and rank 0's result is the result.

    Every rank has the whole logits and picks for itself, so that none has to be told what was picked.
    """

    def __init__(
        self, config: EngineConfig, model_config: ModelConfig, max_len: int, ranks: Ranks | None = None
    ) -> None:
        """``config.backend``: the one that every rank loads, "torch" or "triton".

        ``ranks``: to run the model on, instead of new ones; what they ran before is dropped.

        Raises ``ValueError`` for what cannot be dealt out or loaded, ``RankLost`` when a rank does not come up.
        """
        self._size = size = config.tensor_parallel
        rank_config(model_config, size)  # refuses before a process is started
        self._threads = max(1, config.resolved_threads // size)
        load = Load(replace(config, threads=self._threads), model_config, max_len)
        self._ranks = ranks or Ranks(size, on_gpus=config.backend == "triton" and torch.cuda.is_available())
        try:
            self._ranks.tell(load)
            self._own = load_part(load, self._ranks.group)
            others = self._ranks.loaded()
        except (OSError, RuntimeError) as error:
            raise self._ranks.failure(error) from error
        except BaseException:
            self._ranks.close()
            raise
        self.num_blocks = min(self._own.num_blocks, *(other.num_blocks for other in others))
        self.weights_bytes = self._own.weights_bytes + sum(other.weights_bytes for other in others)
        self.runs_ahead, self.draws = self._own.runs_ahead, self._own.draws

    @property
    def name(self) -> str:
        return f"{self._own.name} on {self._size} ranks"

    def probe(self) -> Probe:
        return _Together(self._own.probe(), self._size)

    def set_threads(self, count: int) -> None:
        """``count`` of all ranks together; the others learn it with the next step."""
        self._threads = max(1, count // self._size)
        self._own.set_threads(self._threads)

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> Picks:
        call = Call(Kind.LAUNCH, self._threads, batch, draws)
        picks = self._everywhere(call, lambda: self._own.launch(batch, draws))
        return _RankPicks(picks, self._ranks)

    def logits(self, batch: StepBatch) -> Tensor:
        return self._everywhere(Call(Kind.LOGITS, self._threads, batch), lambda: self._own.logits(batch))

    def states(self, batch: StepBatch) -> Tensor:
        return self._everywhere(Call(Kind.STATES, self._threads, batch), lambda: self._own.states(batch))

    def check(self) -> None:
        """Raises ``RankLost`` when a rank has ended, which an idle engine would not notice."""
        self._ranks.check()

    def close(self) -> None:
        """Ends the other ranks. Idempotent."""
        self._ranks.close()

    def _everywhere(self, call: Call, own: Callable[[], _Result]) -> _Result:
        try:
            self._ranks.tell(pack(call))
            return own()
        except (OSError, RuntimeError) as error:
            raise self._ranks.failure(error) from error


@dataclass(frozen=True, slots=True)
class _RankPicks:
    """Implements ``engine.executor.Picks``; on a GPU a lost rank shows when the picks are waited for."""

    inner: Picks
    ranks: Ranks

    def tokens(self) -> list[int]:
        try:
            return self.inner.tokens()
        except RuntimeError as error:
            raise self.ranks.failure(error) from error


@dataclass(frozen=True, slots=True)
class _Together:
    """Implements ``kernels.rates.Probe``: one rank's rates times their number, as each has a device of its own."""

    inner: Probe
    size: int

    @property
    def name(self) -> str:
        return f"{self.inner.name}-x{self.size}"

    def flops_per_s(self) -> float:
        return self.size * self.inner.flops_per_s()

    def bytes_per_s(self) -> float:
        return self.size * self.inner.bytes_per_s()
