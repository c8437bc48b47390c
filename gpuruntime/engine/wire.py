"""What the door and an engine in a process of its own tell each other: msgpack over ZeroMQ, on one machine.

Times are of CLOCK_MONOTONIC, which is the machine's and so the same for both.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpuruntime.backend import BackendStats, SamplingParams
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.core import StepOutput
from gpuruntime.engine.intake import Limits
from gpuruntime.engine.request import Clock, Request

VERSION = 3


class Load(msgspec.Struct, tag=True, array_like=True):
    """The first command. ``version``: of the messages, for the files may have been replaced under a running door."""

    version: int
    config: EngineConfig


class Enter(msgspec.Struct, tag=True, array_like=True):
    """A request; ``token_ids`` are int32, the last ``resumed`` of them output."""

    key: int
    token_ids: bytes
    params: SamplingParams
    seed: int
    salt: bytes
    end_ids: Sequence[int]
    entered_s: float
    deadline_s: float
    resumed: int

    @classmethod
    def of(cls, request: Request) -> Enter:
        return cls(
            key=request.key,
            token_ids=array("i", request.tokens).tobytes(),
            params=request.params,
            seed=request.seed,
            salt=request.salt,
            end_ids=tuple(request.end_ids),
            entered_s=request.clock.entered_s,
            deadline_s=request.deadline_s,
            resumed=request.resumed,
        )

    def request(self) -> Request:
        tokens = array("i", self.token_ids).tolist()
        return Request(
            key=self.key,
            prompt_len=len(tokens) - self.resumed,
            tokens=tokens,
            params=self.params,
            seed=self.seed,
            salt=self.salt,
            end_ids=frozenset(self.end_ids),
            clock=Clock(self.entered_s),
            deadline_s=self.deadline_s,
            resumed=self.resumed,
        )


class Leave(msgspec.Struct, tag=True, array_like=True):
    key: int


class End(msgspec.Struct, tag=True, array_like=True):
    """The last command."""


class Loaded(msgspec.Struct, tag=True, array_like=True):
    limits: Limits
    weights_bytes: int


class Refused(msgspec.Struct, tag=True, array_like=True):
    """The model could not be loaded. ``wrong``: by what files or settings say, a ``ValueError``."""

    reason: str
    wrong: bool


class Stepped(msgspec.Struct, tag=True, array_like=True):
    """One step, or a change while idle; the outputs of all its requests."""

    outputs: list[StepOutput]
    stats: BackendStats


class Broke(msgspec.Struct, tag=True, array_like=True):
    """A step failed; nothing follows."""

    reason: str


def _to_builtin(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not travel")


def _from_builtin(kind: type, value: Any) -> Any:
    return kind(value)


encode = msgspec.msgpack.Encoder(enc_hook=_to_builtin).encode
decode_command = msgspec.msgpack.Decoder(Load | Enter | Leave | End, dec_hook=_from_builtin).decode
decode_reply = msgspec.msgpack.Decoder(Loaded | Refused | Stepped | Broke).decode
