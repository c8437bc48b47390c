"""Guesses tokens ahead and lets the model check them all in one step (Leviathan et al., arXiv:2211.17192).

Exact by shared randomness: the model picks the token of every place with that place's own uniform number, as it would
without guesses, and a guess counts while it equals the pick. So no text depends on what was guessed, greedy or
sampled; only how many steps it takes does. That holds where a row's
logits do not depend on the batch around it: always on the native step. PyTorch in bf16 may round otherwise in a batch
of another shape, and a near tie may then fall the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpuruntime.engine.core import Result
from gpuruntime.engine.request import Request
from gpuruntime.engine.scheduler import Row, Scheduler
from gpuruntime.speculative.controller import Controller


class Proposer(Protocol):
    """Where guesses come from.

    ``round_s``: what one guess further ahead for all rows took in the last ``propose``; None where that is not known.
    """

    @property
    def round_s(self) -> float | None: ...

    def depths(self, rows: Sequence[Row], most: Sequence[int]) -> list[int]:
        """How many drafts could be had for each row, at most ``most``."""
        ...

    def propose(self, rows: Sequence[Row], depths: Sequence[int]) -> list[tuple[int, ...]]:
        """At most so many drafts for each row, each depth at least 1 and within what ``depths`` said for it."""
        ...

    def free(self, request: Request) -> None: ...

    def audit(self) -> None: ...


class Speculation:
    """Implements ``engine.core.Feature``: at most ``max_drafts`` for one request in one step.

    Only steps of decodes carry drafts: a prefill chunk keeps the device busy already, and would blur what is measured.
    """

    def __init__(self, proposer: Proposer, max_drafts: int, controller: Controller | None = None) -> None:
        self.proposer = proposer
        self.controller = controller or Controller()
        self.proposed = 0
        self.accepted = 0
        self._max_drafts = max_drafts

    def extend(self, rows: Sequence[Row], scheduler: Scheduler) -> None:
        if not _are_decodes(rows):
            return
        keys = [row.request.key for row in rows]
        most = [min(self._max_drafts, row.request.tokens_left - 1) for row in rows]
        depths = self.proposer.depths(rows, most)
        plan = self.controller.choose(keys, depths, scheduler.spare_tokens)
        chosen = [
            (row, depth)
            for row, depth in zip(rows, plan, strict=True)
            if depth > 0 and scheduler.reserve(row.request, row.start + row.count + depth)
        ]
        if not chosen:
            return
        drafts = self.proposer.propose([row for row, _ in chosen], [depth for _, depth in chosen])
        if self.proposer.round_s is not None:
            self.controller.note_round(len(chosen), self.proposer.round_s)
        for (row, _), guess in zip(chosen, drafts, strict=True):
            row.drafts = _followed(row.request, guess)

    def result(self, rows: Sequence[Row], results: Sequence[Result], took_s: float) -> None:
        if not _are_decodes(rows):
            return
        self.controller.times.note(len(rows), sum(row.size for row in rows), took_s)
        for row, result in zip(rows, results, strict=True):
            if row.drafts:
                right = len(result.tokens) - 1
                self.controller.acceptance.note(row.request.key, right, len(row.drafts))
                self.proposed += len(row.drafts)
                self.accepted += right

    def free(self, request: Request) -> None:
        self.proposer.free(request)
        self.controller.free(request.key)

    def audit(self) -> None:
        self.proposer.audit()

    def counts(self) -> dict[str, float]:
        return {"draft_tokens_total": self.proposed, "accepted_draft_tokens_total": self.accepted}


def _followed(request: Request, guess: tuple[int, ...]) -> tuple[int, ...]:
    """As far as the request's grammar goes along: what is certain to be wrong is not worth a place in the step."""
    if request.matcher is None:
        return guess
    ends = (index for index, token in enumerate(guess) if token in request.end_ids)
    within = guess[: next(ends, len(guess))]
    return within[: request.matcher.follows(within)]


def _are_decodes(rows: Sequence[Row]) -> bool:
    return all(row.count == 1 and row.samples and not row.request.scores_prompt for row in rows)
