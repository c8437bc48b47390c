"""Drafts from a smaller model with the same vocabulary, run by an executor of its own over KV blocks of its own.

It picks with the target's parameters and the target's uniform number for each place, so where the two models agree on
a distribution they agree on the token.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gpuruntime.engine.core import Runner
from gpuruntime.engine.kv import BlockPool
from gpuruntime.engine.request import Clock, Request
from gpuruntime.engine.scheduler import Row


@dataclass(slots=True)
class _Shadow:
    """One request's text in the small model; its first ``sure`` tokens are known to be the request's."""

    text: Request
    sure: int


class DraftProposer:
    """Implements ``speculation.Proposer``. Behind each request stands a shadow: its text in the small model's KV.

    The shadow is brought up to date when drafts are asked for, ``max_tokens`` tokens a round at most; a text that is
    further behind gets no drafts yet. Out of blocks, shadows of requests that do not run are dropped.
    """

    def __init__(
        self, runner: Runner, num_blocks: int, max_tokens: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.pool = BlockPool(num_blocks, keep_released=False)
        self.round_s: float | None = None
        self._runner = runner
        self._max_tokens = max_tokens
        self._clock = clock
        self._shadows: dict[int, _Shadow] = {}

    def depths(self, rows: Sequence[Row], most: Sequence[int]) -> list[int]:
        return list(most)

    def propose(self, rows: Sequence[Row], depths: Sequence[int]) -> list[tuple[int, ...]]:
        began_s = self._clock()
        texts = [self._updated(row.request) for row in rows]
        keys = {text.key for text in texts}
        behind = max(text.missing for text in texts)
        ends = {text.key: len(text.tokens) + depth for text, depth in zip(texts, depths, strict=True)}
        asked = [text for text in texts if self._make_room(text, ends[text.key], keys)]
        rounds = 0
        while asked:
            asked = [text for text in self._round(asked) if len(text.tokens) < ends[text.key]]
            rounds += 1
        # A text that was far behind says nothing of what the rounds of later steps take.
        self.round_s = (self._clock() - began_s) / rounds if rounds and behind <= 1 + max(depths) else None
        return [tuple(text.tokens[len(row.request.tokens) :]) for text, row in zip(texts, rows, strict=True)]

    def free(self, request: Request) -> None:
        shadow = self._shadows.pop(request.key, None)
        if shadow is not None:
            self.pool.release(shadow.text.blocks)

    def audit(self) -> None:
        self.pool.audit()
        held = [block for shadow in self._shadows.values() for block in shadow.text.blocks]
        if Counter(held) != self.pool.references:
            raise RuntimeError("KV blocks: the drafts' texts do not hold what their pool has given out")

    def _round(self, texts: Iterable[Request]) -> list[Request]:
        """One step of the small model; those of ``texts`` that gained a token."""
        budget = self._max_tokens
        batch = []
        for text in sorted(texts, key=lambda text: text.missing):
            count = min(text.missing, budget)
            if count > 0:
                batch.append(Row(text, text.computed, count, samples=count == text.missing))
                budget -= count
        for row, result in zip(batch, self._runner.launch(batch).results(), strict=True):
            row.request.computed += row.count
            row.request.tokens += result.tokens
        return [row.request for row in batch if row.samples]

    def _updated(self, request: Request) -> Request:
        """The shadow with the request's text: guesses that were wrong are taken out, their blocks stay."""
        shadow = self._shadows.get(request.key)
        if shadow is None:
            shadow = self._shadows[request.key] = _Shadow(_copy(request), 0)
        text, same = shadow.text, shadow.sure
        while same < min(len(text.tokens), len(request.tokens)) and text.tokens[same] == request.tokens[same]:
            same += 1
        text.tokens[same:] = request.tokens[same:]
        text.computed = min(text.computed, same, len(text.tokens) - 1)
        shadow.sure = len(text.tokens)
        return text

    def _make_room(self, text: Request, num_tokens: int, keep: set[int]) -> bool:
        """Blocks for ``num_tokens`` tokens. Where there are not enough this text, too, gives up its own."""
        while (needed := text.blocks_for(num_tokens)) > 0:
            blocks = self.pool.allocate(needed)
            if blocks is not None:
                text.hold(blocks)
                return True
            victim = next((key for key in self._shadows if key not in keep), text.key)
            self.free(self._shadows[victim].text)
            if victim == text.key:
                return False
        return True


def _copy(request: Request) -> Request:
    return Request(
        key=request.key,
        prompt_len=request.prompt_len,
        tokens=list(request.tokens),
        params=replace(request.params, logprobs=None, prompt_logprobs=None, grammar=None),
        seed=request.seed,
        salt=request.salt,
        end_ids=request.end_ids,
        clock=Clock(request.clock.entered_s),
    )
