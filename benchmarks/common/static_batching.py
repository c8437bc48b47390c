"""Stage 0 of the ladder: how models were served before continuous batching, on the same executor.

A batch is formed from the queue, its prompts padded to the longest, and it runs until its last answer ends; requests
that ended earlier are computed on, and nobody joins. Every request's KV is one contiguous slot of ``max_model_len``
tokens, so that as many run as slots fit.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.common.executor import make_step
from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.executor import Executor

PAD = 0


@dataclass(frozen=True, slots=True)
class Options:
    """What is switched on alone.

    paged: a request holds blocks for its own prompt and answer, and prompts need no padding.
    chunk: tokens of one prefill step, one prompt after the other, instead of the whole batch at once.
    reuse: a slot keeps what it held, and a request takes the slot that begins most like it.
    """

    paged: bool = False
    chunk: int | None = None
    reuse: bool = False


@dataclass(slots=True, eq=False)
class Member:
    """One request; ``blocks`` are consecutive. ``reused`` prompt tokens were found in its slot."""

    key: int
    prompt: tuple[int, ...]
    max_tokens: int
    blocks: list[int] = field(default_factory=list)
    reused: int = 0
    tokens: list[int] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return len(self.tokens) >= self.max_tokens


@dataclass(frozen=True, slots=True)
class Piece:
    """``count`` tokens of a member's prompt from ``start``, padding behind its end included."""

    member: Member
    start: int
    count: int

    @property
    def samples(self) -> bool:
        return self.start < len(self.member.prompt) <= self.start + self.count


Work = Callable[[int, int, bool], None]


class StaticBatching:
    """``step`` returns (key, ended) of each token that a request got. ``work(start, tokens, decodes)`` books a row."""

    def __init__(
        self, executor: Executor, work: Work, *, max_model_len: int, max_seqs: int, options: Options = Options()
    ) -> None:
        self._executor = executor
        self._work = work
        self._slot = max_model_len // BLOCK_TOKENS
        self._slots = executor.num_blocks // self._slot
        self._max_seqs = max_seqs if options.paged else min(max_seqs, self._slots)
        self._max_model_len = max_model_len
        self._options = options
        self._queue: deque[Member] = deque()
        self._batch: list[Member] = []
        self._pieces: list[list[Piece]] = []
        self._held: list[tuple[int, ...]] = [()] * self._slots

    @property
    def busy(self) -> bool:
        return bool(self._batch or self._queue)

    def add(self, key: int, prompt: tuple[int, ...], max_tokens: int) -> None:
        self._queue.append(Member(key, prompt, max_tokens))

    def step(self) -> list[tuple[int, bool]]:
        if not self._batch:
            self._form()
        produced = self._prefill(self._pieces.pop(0)) if self._pieces else self._decode()
        if not self._pieces and all(member.ended for member in self._batch):
            self._batch = []
        return [(member.key, member.ended) for member in produced]

    def _form(self) -> None:
        """Takes the longest-waiting requests that fit beside each other."""
        room = self._executor.num_blocks
        while self._queue and len(self._batch) < self._max_seqs:
            needed = self._blocks_of(self._queue[0])
            if needed > room:
                break
            member = self._queue.popleft()
            first = self._executor.num_blocks - room
            member.blocks = list(range(first, first + needed))
            room -= needed
            self._batch.append(member)
        if self._options.reuse:
            self._choose_slots()
        self._pieces = self._plan()

    def _blocks_of(self, member: Member) -> int:
        tokens = len(member.prompt) + member.max_tokens if self._options.paged else self._max_model_len
        return -(-tokens // BLOCK_TOKENS)

    def _choose_slots(self) -> None:
        free = set(range(self._slots))
        for member in self._batch:
            best = max(free, key=lambda slot: _common(self._held[slot], member.prompt))
            free.remove(best)
            member.blocks = list(range(best * self._slot, (best + 1) * self._slot))
            # The last token is always computed: its logits are what the request waits for.
            member.reused = min(_common(self._held[best], member.prompt), len(member.prompt) - 1)
            self._held[best] = member.prompt

    def _plan(self) -> list[list[Piece]]:
        """The prefill's steps. Contiguous batches are padded to the longest rest of a prompt."""
        rests = [len(member.prompt) - member.reused for member in self._batch]
        if not self._options.paged:
            rests = [min(max(rests), self._max_model_len - member.reused) for member in self._batch]
        pieces = [Piece(member, member.reused, rest) for member, rest in zip(self._batch, rests, strict=True)]
        return [pieces] if self._options.chunk is None else _chunked(pieces, self._options.chunk)

    def _prefill(self, pieces: list[Piece]) -> list[Member]:
        rows = []
        for piece in pieces:
            part = list(piece.member.prompt[piece.start : piece.start + piece.count])
            rows.append((part + [PAD] * (piece.count - len(part)), piece.start, piece.member.blocks))
            self._work(piece.start, piece.count, False)
        begins = itertools.accumulate((piece.count for piece in pieces), initial=0)
        sampling = [(piece, begin) for piece, begin in zip(pieces, begins, strict=False) if piece.samples]
        wanted = [begin + len(piece.member.prompt) - 1 - piece.start for piece, begin in sampling]
        picks = self._executor.launch(make_step(rows, wanted)).tokens()
        for (piece, _), token in zip(sampling, picks, strict=True):
            piece.member.tokens.append(token)
        return [piece.member for piece, _ in sampling]

    def _decode(self) -> list[Member]:
        """One token of every member; those that ended compute their last one again."""
        going = [member for member in self._batch if not member.ended]
        rows = []
        for member in self._batch:
            position = len(member.prompt) + len(member.tokens) - 1
            rows.append(([member.tokens[-1]], position, member.blocks))
            self._work(position, 1, True)
        picks = self._executor.launch(make_step(rows)).tokens()
        for member, token in zip(self._batch, picks, strict=True):
            if member in going:
                member.tokens.append(token)
        return going


def _chunked(pieces: list[Piece], budget: int) -> list[list[Piece]]:
    """The pieces in order, cut so that no step has more than ``budget`` tokens."""
    steps: list[list[Piece]] = [[]]
    room = budget
    for piece in pieces:
        start, left = piece.start, piece.count
        while left:
            if room == 0:
                steps.append([])
                room = budget
            count = min(left, room)
            steps[-1].append(Piece(piece.member, start, count))
            start, left, room = start + count, left - count, room - count
    return steps


def _common(held: tuple[int, ...], prompt: tuple[int, ...]) -> int:
    """Tokens of the common beginning."""
    size = min(len(held), len(prompt))
    return next((index for index in range(size) if held[index] != prompt[index]), size)
