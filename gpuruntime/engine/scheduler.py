"""What runs in the next step.

There are no phases: every request catches up the tokens it has not computed, under one token budget. Requests that
miss one token (decodes) come first, then chunks of longer prompts, then waiting requests. When blocks run out the
last admitted request is preempted: it gives up its blocks, keeps its tokens, and recomputes when there is room. The
first admitted one therefore always advances.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.kv import BlockPool, GhostList
from gpuruntime.engine.request import Request, State


@dataclass(frozen=True, slots=True)
class Row:
    """``count`` tokens of one request from position ``start``; ``samples`` when the next token follows from them."""

    request: Request
    start: int
    count: int
    samples: bool


class Scheduler:
    """Owns the queue, the running requests and their blocks; knows nothing of tensors or clocks."""

    def __init__(self, pool: BlockPool, *, max_seqs: int, max_tokens: int) -> None:
        self.pool = pool
        self.ghosts = GhostList()
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.preemptions = 0
        self._max_seqs = max_seqs
        self._max_tokens = max_tokens

    def add(self, request: Request) -> None:
        self.waiting.append(request)

    def schedule(self) -> list[Row]:
        """The next step's rows, at most ``max_tokens`` tokens of at most ``max_seqs`` requests; empty when idle."""
        rows: dict[int, Row] = {}
        budget = self._max_tokens
        preempted = False
        for request in self._by_urgency():
            if request.state is not State.RUNNING or budget == 0:
                continue
            count = min(request.missing, budget)
            for victim in self._make_room(request, request.computed + count):
                preempted = True
                dropped = rows.pop(victim.key, None)
                budget += dropped.count if dropped else 0
            if request.state is State.RUNNING:
                rows[request.key] = self._row(request, count)
                budget -= count
        # Freed blocks belong to those who run; admitting now would preempt again in the next step.
        while not preempted and budget > 0 and self.waiting and len(self.running) < self._max_seqs:
            request = self.waiting[0]
            if not self._admit(request, budget):
                break
            count = min(request.missing, budget)
            rows[request.key] = self._row(request, count)
            budget -= count
        return list(rows.values())

    def computed(self, row: Row) -> None:
        """Notes that a row's K and V are in its blocks and makes the blocks it filled findable."""
        request = row.request
        request.computed = row.start + row.count
        request.extend_hashes()
        while (request.registered + 1) * BLOCK_TOKENS <= request.computed:
            digest = request.hashes[request.registered]
            self.pool.register(request.blocks[request.registered], digest)
            self.ghosts.add(digest)
            request.registered += 1

    def finish(self, request: Request) -> None:
        request.move("finish")
        self.running.remove(request)
        self._free(request)

    def abort(self, request: Request) -> None:
        """Takes a live request out at any phase and frees what it holds."""
        if request.state is State.RUNNING:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        request.move("abort")
        self._free(request)

    def _by_urgency(self) -> Iterator[Request]:
        yield from [request for request in self.running if request.missing == 1]
        yield from [request for request in self.running if request.missing > 1]

    def _make_room(self, request: Request, num_tokens: int) -> Iterator[Request]:
        """Allocates blocks for ``num_tokens`` tokens; yields whom it preempted, in the end maybe ``request`` itself."""
        while (blocks := self.pool.allocate(request.blocks_for(num_tokens))) is None:
            victim = self.running.pop()
            victim.move("preempt")
            victim.preemptions += 1
            self.preemptions += 1
            self._free(victim)
            self.waiting.appendleft(victim)
            yield victim
            if victim is request:
                return
        request.blocks.extend(blocks)

    def _admit(self, request: Request, budget: int) -> bool:
        """Moves a waiting request to running if the blocks of its first chunk are there; else changes nothing."""
        request.extend_hashes()
        # The last token is always computed: its logits are what the request waits for.
        usable = (len(request.tokens) - 1) // BLOCK_TOKENS
        matched = self.pool.match(request.hashes[:usable])
        computed = len(matched) * BLOCK_TOKENS
        count = min(len(request.tokens) - computed, budget)
        needed = -(-(computed + count) // BLOCK_TOKENS) - len(matched)
        fresh = self.pool.allocate(needed)
        if fresh is None:
            self.pool.release(matched)
            return False
        if request.cached_tokens is None:
            request.cached_tokens = min(computed, request.prompt_len)
            seen = self.ghosts.leading(request.hashes[: request.prompt_len // BLOCK_TOKENS])
            request.new_prompt_tokens = request.prompt_len - seen * BLOCK_TOKENS
        self.waiting.popleft()
        request.move("admit")
        request.blocks = matched + fresh
        request.computed = computed
        request.registered = len(matched)
        self.running.append(request)
        return True

    def _free(self, request: Request) -> None:
        self.pool.release(request.blocks)
        request.blocks = []
        request.computed = 0
        request.registered = 0

    @staticmethod
    def _row(request: Request, count: int) -> Row:
        return Row(request, request.computed, count, samples=count == request.missing)
