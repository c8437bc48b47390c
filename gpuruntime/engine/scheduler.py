"""What runs in the next step.

There are no phases: every request catches up the tokens it has not computed, under one token budget. Requests that
miss one token (decodes) come first, then chunks of longer prompts, then waiting requests. When blocks run out the
last admitted request is preempted: it gives up its blocks, keeps its tokens, and recomputes when there is room. The
first admitted one therefore always advances.

A step may be scheduled while the one before is still computed. A token that is being picked counts as there, so that
the next one can be asked for; what its id is only the device has to know. A request that ends or is preempted begins
a new epoch, and what its rows in flight produce is dropped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
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
    ``epoch`` is the request's when the row was made.
    """

    request: Request
    start: int
    count: int
    samples: bool
    drafts: tuple[int, ...] = ()
    epoch: int = 0

    @property
    def current(self) -> bool:
        """Whether the request still is where it was when the row was made."""
        return self.epoch == self.request.epoch

    @property
    def size(self) -> int:
        """Tokens that the step computes for this row."""
        return self.count + len(self.drafts)

    @property
    def wanted(self) -> int:
        """How many of the row's last tokens need logits, or their states for an embedding."""
        if self.request.reads_prompt:
            return self.count
        if self.request.params.pooling is not None:
            return int(self.start + self.count == self.request.prompt_len)
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
        for request, missing in self._by_urgency():
            if request.state is not State.RUNNING or budget == 0:
                continue
            row = _row(request, missing, budget)
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
            row = rows[request.key] = _row(request, request.missing, budget)
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

    def launched(self, rows: Sequence[Row]) -> None:
        """Notes that the rows' step is under way: what is launched later finds their K and V written."""
        for row in rows:
            request = row.request
            request.computed = row.start + row.count
            request.pending += row.samples

    def computed(self, request: Request, computed: int) -> None:
        """Notes that the first ``computed`` tokens, all known, have K and V and makes the blocks they filled findable.

        A step behind may already have been launched for the request.
        """
        request.computed = max(request.computed, computed)
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

    def _by_urgency(self) -> list[tuple[Request, int]]:
        """The running requests and what they miss, those with nothing to compute left out."""
        missing = [(request, request.missing) for request in self.running]
        decodes = [pair for pair in missing if pair[1] == 1]
        return decodes if len(decodes) == len(missing) else decodes + [pair for pair in missing if pair[1] > 1]

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
        usable = 0 if request.reads_prompt else (len(request.tokens) - 1) // BLOCK_TOKENS
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
        """Gives the request's blocks up and makes its rows in flight stale.

        Such a row still writes K and V into blocks that are someone else's from now on. That harms nobody:

        - Whoever gets one of the blocks is launched later. The device computes launches in their order, so the owner's
          writes come after the stale ones, and it reads only positions that it has written or found by their hash.
        - Nothing stale can be found by its hash. A block is registered when all its positions are of collected steps,
          and rows in flight write positions behind those: into a block that is not full, or not at all.
        """
        self.pool.release(request.blocks)
        request.blocks.clear()
        request.computed = 0
        request.registered = 0
        request.pending = 0
        request.epoch += 1


def _row(request: Request, missing: int, budget: int) -> Row:
    """The request's next tokens, as many as are missing and fit."""
    count = min(missing, budget, SCORED_CHUNK) if request.scores_prompt else min(missing, budget)
    samples = count == missing and request.params.pooling is None
    return Row(request, request.computed, count, samples, (), request.epoch)
