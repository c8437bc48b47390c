"""One request inside the engine and the table of its life."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from gpuruntime.backend import FinishReason, SamplingParams, TokenLogprob
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.kv import BlockHash, chain_hash, root_hash
from gpuruntime.sampling.row import Picking, picking

if TYPE_CHECKING:
    from gpuruntime.engine.grammar import Matcher


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

    ``tokens`` is prompt plus output; ``pending`` more will follow from steps that were launched and not collected. The
    first ``computed`` of them all have K and V in ``blocks`` for whatever is launched next; the request is a decode
    when exactly one is ``missing``. ``table`` repeats ``blocks`` as an array, for the batches.
    ``epoch`` counts how often the request gave its blocks up: what a row of an earlier epoch produces is stale.
    ``resumed``: tokens of the output that another engine has generated; their K and V are computed with the prompt's.
    ``hashes`` covers the full blocks of ``tokens``, of which the first ``registered`` are findable in the pool.
    ``end_ids`` end the text. ``scores_prompt``: log probabilities of the prompt are still wanted, so its tokens must
    be computed, not found in a cache; ``prompt_scores`` grows with its chunks.
    ``state_sum``: fp64 ``[hidden]``, of an embedding's tokens so far.
    ``deadline_s``, of the engine's clock, aborts the request. ``accounted``: the rates of the device were known from
    its first step on. ``matcher``: its place in the grammar that ``params`` ask for, once that is compiled.
    """

    key: int
    prompt_len: int
    tokens: list[int]
    params: SamplingParams
    seed: int
    salt: bytes
    end_ids: frozenset[int]
    clock: Clock
    deadline_s: float = math.inf
    state: State = State.WAITING
    computed: int = 0
    pending: int = 0
    resumed: int = 0
    epoch: int = 0
    blocks: list[int] = field(default_factory=list)
    table: array[int] = field(default_factory=lambda: array("i"))
    hashes: list[BlockHash] = field(default_factory=list)
    registered: int = 0
    prompt_scores: list[TokenLogprob | None] = field(default_factory=list)
    scores_prompt: bool = field(init=False)
    picking: Picking = field(init=False)
    longest: int = field(init=False)
    cached_tokens: int | None = None
    new_prompt_tokens: int | None = None
    preemptions: int = 0
    accounted: bool = False
    executed_ideal_s: float = 0.0
    matcher: Matcher | None = None
    state_sum: NDArray[np.float64] | None = None
    _prompt_ids: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        self.scores_prompt = self.params.prompt_logprobs is not None
        self.picking = picking(self.params)
        # The last token that max_tokens allows is never read, and so needs no K and V.
        self.longest = self.prompt_len + max(1, self.params.max_tokens) - 1

    @property
    def reads_prompt(self) -> bool:
        """Whether every token of the prompt has to be computed, also one whose K and V are in the cache."""
        return self.scores_prompt or self.params.pooling == "mean"

    @property
    def prompt_ids(self) -> NDArray[np.int64]:
        """The prompt as the penalties read it, converted once."""
        if self._prompt_ids is None:
            self._prompt_ids = np.array(self.tokens[: self.prompt_len], dtype=np.int64)
        return self._prompt_ids

    @property
    def num_output(self) -> int:
        return len(self.tokens) - self.prompt_len

    @property
    def tokens_left(self) -> int:
        """Tokens until ``max_tokens`` ends the text."""
        return self.longest + 1 - len(self.tokens)

    @property
    def missing(self) -> int:
        """Tokens that need K and V and have none yet."""
        return min(len(self.tokens) + self.pending, self.longest) - self.computed

    def blocks_for(self, num_tokens: int) -> int:
        """How many more blocks the first ``num_tokens`` tokens need."""
        return max(0, -(-num_tokens // BLOCK_TOKENS) - len(self.blocks))

    def hold(self, blocks: Sequence[int]) -> None:
        """Takes over the references on ``blocks``, which follow the ones held."""
        del self.table[len(self.blocks) :]
        self.table.extend(blocks)
        self.blocks += blocks

    def extend_hashes(self) -> None:
        """Hashes the full blocks that ``tokens`` has gained."""
        while (len(self.hashes) + 1) * BLOCK_TOKENS <= len(self.tokens):
            start = len(self.hashes) * BLOCK_TOKENS
            parent = self.hashes[-1] if self.hashes else root_hash(self.salt)
            self.hashes.append(chain_hash(parent, self.tokens[start : start + BLOCK_TOKENS]))

    def append(self, tokens: Sequence[int]) -> tuple[int, FinishReason | None]:
        """Adds picked tokens up to the first that ends the text: how many were kept, and the reason if it ended."""
        left = self.tokens_left
        for kept, token in enumerate(tokens, 1):
            self.tokens.append(token)
            if token in self.end_ids:
                return kept, "stop"
            if self.matcher is not None:
                self.matcher.accept(token)
                if self.matcher.complete:
                    return kept, "error" if self.matcher.failed else "stop"
            if kept == left:
                return kept, "length"
        return len(tokens), None

    def add_state(self, start: int, state: NDArray[np.float64]) -> None:
        """Adds the sum ``[hidden]`` of a chunk's states; one from the prompt's start begins anew."""
        self.state_sum = state if start == 0 or self.state_sum is None else self.state_sum + state

    def embedding(self) -> bytes:
        """The states' sum at length 1, fp32. Raises ``FloatingPointError`` where it has none."""
        found = np.zeros(1) if self.state_sum is None else self.state_sum
        length = float(np.linalg.norm(found))
        if not 0 < length < math.inf:
            raise FloatingPointError("the model produced states that are not finite")
        return (found / length).astype("<f4").tobytes()

    def append_scores(self, start: int, scores: Sequence[TokenLogprob]) -> None:
        """Adds the prompt's scores of a chunk whose first logits stood at position ``start``; a repeat adds nothing."""
        if not self.prompt_scores:
            self.prompt_scores.append(None)
        self.prompt_scores += scores[len(self.prompt_scores) - start - 1 :]
        self.scores_prompt = len(self.prompt_scores) < self.prompt_len

    def move(self, event: Event) -> None:
        """Follows the table; an event that the state does not know is an error of the engine."""
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise RuntimeError(f"request {self.key}: {event} in state {self.state.value}")
        self.state = following
