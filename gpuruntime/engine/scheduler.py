"""What runs in the next step.

There are no phases: every request catches up the tokens it has not computed, under one token budget. Requests that
miss one token (decodes) come first, then chunks of longer prompts, then waiting requests. When blocks run out the
last admitted request is preempted: it gives up its blocks, keeps its tokens, and recomputes when there is room. The
first admitted one therefore always advances.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.kv import BlockPool, GhostList
from gpuruntime.engine.request import Request, State

# Logits of a whole chunk are vocabulary times chunk: more tokens of a scored prompt at once would cost 100 MB.
SCORED_CHUNK = 64


@dataclass(slots=True, eq=False)
class Row:
    """``count`` tokens of one request from position ``start``; ``samples`` when the next token follows from them.

    ``drafts`` are guesses at the tokens that come next, computed in the same step behind the request's own.
    """

    request: Request
    start: int
    count: int
    samples: bool
    drafts: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Tokens that the step computes for this row."""
        return self.count + len(self.drafts)

    @property
    def wanted(self) -> int:
        """How many of the row's last tokens need logits."""
        if self.request.scores_prompt:
            return self.count
        return 1 + len(self.drafts) if self.samples else 0


class Scheduler:
    """Owns the queue, the running requests and their blocks; knows nothing of tensors or clocks.

    ``spare_tokens``: what the last step's rows left of the budget.
    """

    def __init__(self, pool: BlockPool, *, max_seqs: int, max_tokens: int) -> None:
        self.pool = pool
        self.ghosts = GhostList()
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.preemptions = 0
        self.spare_tokens = 0
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
            row = _row(request, budget)
            for victim in self._make_room(request, row.start + row.count):
                preempted = True
                dropped = rows.pop(victim.key, None)
                budget += dropped.count if dropped else 0
            if request.state is State.RUNNING:
                rows[request.key] = row
                budget -= row.count
        # Freed blocks belong to those who run; admitting now would preempt again in the next step.
        while not preempted and budget > 0 and self.waiting and len(self.running) < self._max_seqs:
            request = self.waiting[0]
            if not self._admit(request, budget):
                break
            row = rows[request.key] = _row(request, budget)
            budget -= row.count
        self.spare_tokens = budget
        return list(rows.values())

    def reserve(self, request: Request, num_tokens: int) -> bool:
        """Blocks for ``num_tokens`` tokens of a running request, unless others would soon be preempted for them."""
        needed = request.blocks_for(num_tokens)
        if needed == 0:
            return True
        if needed + len(self.running) > self.pool.available:
            return False
        request.hold(self.pool.allocate(needed) or ())
        return True

    def computed(self, request: Request, computed: int) -> None:
        """Notes that the first ``computed`` tokens have K and V and makes the blocks they filled findable."""
        request.computed = computed
        if (request.registered + 1) * BLOCK_TOKENS > computed:
            return
        request.extend_hashes()
        while (request.registered + 1) * BLOCK_TOKENS <= computed:
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

    def audit(self) -> None:
        """Raises ``RuntimeError`` when blocks are lost or the requests' references are not those of the pool."""
        self.pool.audit()
        held = [block for request in self.running for block in request.blocks]
        if Counter(held) != self.pool.references:
            raise RuntimeError("KV blocks: the running requests do not hold what the pool has given out")
        if any(request.blocks for request in self.waiting):
            raise RuntimeError("KV blocks: a waiting request holds some")

    def _by_urgency(self) -> list[Request]:
        missing = [len(request.tokens) - request.computed for request in self.running]
        decodes = [request for request, count in zip(self.running, missing, strict=True) if count == 1]
        return decodes + [request for request, count in zip(self.running, missing, strict=True) if count > 1]

    def _make_room(self, request: Request, num_tokens: int) -> Iterator[Request]:
        """Allocates blocks for ``num_tokens`` tokens; yields whom it preempted, in the end maybe ``request`` itself."""
        while (needed := request.blocks_for(num_tokens)) > 0:
            blocks = self.pool.allocate(needed)
            if blocks is not None:
                request.hold(blocks)
                return
            victim = self.running.pop()
            victim.move("preempt")
            victim.preemptions += 1
            self.preemptions += 1
            self._free(victim)
            self.waiting.appendleft(victim)
            yield victim
            if victim is request:
                return

    def _admit(self, request: Request, budget: int) -> bool:
        """Moves a waiting request to running if the blocks of its first chunk are there; else changes nothing."""
        request.extend_hashes()
        # The last token is always computed: its logits are what the request waits for.
        usable = 0 if request.scores_prompt else (len(request.tokens) - 1) // BLOCK_TOKENS
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
        request.hold(matched + fresh)
        request.computed = computed
        request.registered = len(matched)
        self.running.append(request)
        return True

    def _free(self, request: Request) -> None:
        self.pool.release(request.blocks)
        request.blocks.clear()
        request.computed = 0
        request.registered = 0


def _row(request: Request, budget: int) -> Row:
    """The request's next tokens, as many as are missing and fit."""
    missing = len(request.tokens) - request.computed
    count = min(missing, budget, SCORED_CHUNK) if request.scores_prompt else min(missing, budget)
    return Row(request, request.computed, count, count == missing)
