"""What rank 0 and the others tell each other. A step is one buffer of int32, laid out here alone:

head       kind, threads, T, B, width, R, whether draws follow
batch      token_ids [T], begins [B + 1], positions [B], tables [B, width], logits_rows [R]
draws      temperatures [R], top_ks [R], top_ps [R], min_ps [R], seeds [R] (two each), steps [R]; floats as their bits
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from pathlib import Path

import numpy as np

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executor import Draws, Ints, StepBatch
from gpuruntime.models.config import ModelConfig
from gpuruntime.parallel.shard import Shard

_HEAD = 7


@dataclass(frozen=True, slots=True)
class Started:
    """From a rank: its libraries are loaded."""


@dataclass(frozen=True, slots=True)
class Join:
    """To a rank: who it is, the file over which the ranks meet, and whether each has a GPU of its own: its number."""

    shard: Shard
    meeting: Path
    on_gpus: bool


@dataclass(frozen=True, slots=True)
class Load:
    """To a rank: the model to run from now on, on ``config.backend``, for contexts of up to ``max_len`` tokens."""

    config: EngineConfig
    model: ModelConfig
    max_len: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """From a rank, about its part."""

    num_blocks: int
    weights_bytes: int


@dataclass(frozen=True, slots=True)
class Refused:
    """From a rank that could not load, before it ends."""

    reason: str


class Kind(IntEnum):
    """Which method of the executor every rank calls."""

    LOGITS = 0
    LAUNCH = 1
    STATES = 2


@dataclass(frozen=True, slots=True)
class Call:
    """One step; ``threads`` of each rank."""

    kind: Kind
    threads: int
    batch: StepBatch
    draws: Draws | None = None


def pack(call: Call) -> bytes:
    batch, draws = call.batch, call.draws
    rows, width = batch.tables.shape
    head = [call.kind, call.threads, len(batch.token_ids), rows, width, len(batch.logits_rows), draws is not None]
    arrays = [getattr(batch, field.name) for field in fields(StepBatch)]
    if draws is not None:
        arrays += [getattr(draws, field.name) for field in fields(Draws)]
    return b"".join([np.array(head, dtype=np.int32).tobytes(), *(array.tobytes() for array in arrays)])


def unpack(data: bytes) -> Call:
    """What ``pack`` was given; the arrays share ``data`` and cannot be written."""
    values = np.frombuffer(data, dtype=np.int32)
    kind, threads, tokens, rows, width, wanted, drawn = values[:_HEAD].tolist()
    reader = _Reader(values[_HEAD:])
    batch = StepBatch(
        token_ids=reader.take(tokens),
        begins=reader.take(rows + 1),
        positions=reader.take(rows),
        tables=reader.take(rows * width).reshape(rows, width),
        logits_rows=reader.take(wanted),
    )
    draws = _draws(reader, wanted) if drawn else None
    return Call(Kind(kind), threads, batch, draws)


def _draws(reader: _Reader, rows: int) -> Draws:
    return Draws(
        temperatures=reader.take(rows).view(np.float32),
        top_ks=reader.take(rows),
        top_ps=reader.take(rows).view(np.float32),
        min_ps=reader.take(rows).view(np.float32),
        seeds=reader.take(2 * rows).view(np.int64).copy(),  # where it lies in the buffer is no place for 8 bytes
        steps=reader.take(rows),
    )


class _Reader:
    def __init__(self, values: Ints) -> None:
        self._values = values

    def take(self, count: int) -> Ints:
        taken, self._values = self._values[:count], self._values[count:]
        return taken
