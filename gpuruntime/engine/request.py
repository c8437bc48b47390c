"""One request inside the engine and the table of its life."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from gpuruntime.backend import SamplingParams
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.kv import BlockHash, chain_hash, root_hash


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


Event = Literal["admit", "preempt", "finish", "abort"]

TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.WAITING, "admit"): State.RUNNING,
    (State.WAITING, "abort"): State.FINISHED,
    (State.RUNNING, "preempt"): State.PREEMPTED,
    (State.RUNNING, "finish"): State.FINISHED,
    (State.RUNNING, "abort"): State.FINISHED,
    (State.PREEMPTED, "admit"): State.RUNNING,
    (State.PREEMPTED, "abort"): State.FINISHED,
}


@dataclass(slots=True)
class Clock:
    """When things happened, in seconds of the engine's monotonic clock; None until they did."""

    entered_s: float
    admitted_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None


@dataclass(slots=True, eq=False)
class Request:
    """A prompt and what was generated so far.

    ``tokens`` is prompt plus output. The first ``computed`` of them have K and V in ``blocks``; the request is a
    decode when exactly one is missing. ``hashes`` covers the full blocks of ``tokens``, of which the first
    ``registered`` are findable in the pool. ``end_ids`` end the text; empty under ``ignore_eos``. ``accounted``: the
    rates of the device were known from its first step on.
    """

    key: int
    prompt_len: int
    tokens: list[int]
    params: SamplingParams
    seed: int
    salt: bytes
    end_ids: frozenset[int]
    clock: Clock
    state: State = State.WAITING
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    hashes: list[BlockHash] = field(default_factory=list)
    registered: int = 0
    cached_tokens: int | None = None
    new_prompt_tokens: int | None = None
    preemptions: int = 0
    accounted: bool = False
    executed_ideal_s: float = 0.0

    @property
    def num_output(self) -> int:
        return len(self.tokens) - self.prompt_len

    @property
    def missing(self) -> int:
        """Tokens without K and V yet."""
        return len(self.tokens) - self.computed

    def blocks_for(self, num_tokens: int) -> int:
        """How many more blocks the first ``num_tokens`` tokens need."""
        return max(0, -(-num_tokens // BLOCK_TOKENS) - len(self.blocks))

    def extend_hashes(self) -> None:
        """Hashes the full blocks that ``tokens`` has gained."""
        while (len(self.hashes) + 1) * BLOCK_TOKENS <= len(self.tokens):
            start = len(self.hashes) * BLOCK_TOKENS
            parent = self.hashes[-1] if self.hashes else root_hash(self.salt)
            self.hashes.append(chain_hash(parent, self.tokens[start : start + BLOCK_TOKENS]))

    def move(self, event: Event) -> None:
        """Follows the table; an event that the state does not know is an error of the engine."""
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise RuntimeError(f"request {self.key}: {event} in state {self.state.value}")
        self.state = following
