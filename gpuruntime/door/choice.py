"""The engine requests behind one HTTP request: a choice each, those of one prompt sharing it.

The first choice of a prompt leads: the others start with its first token, when the prefix cache holds their prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpuruntime.backend import Delta, FinishReason, Prompt, SamplingParams, Timings, TokenLogprob
from gpuruntime.door.queue import Ticket
from gpuruntime.mailbox import Mailbox

_SEEDS = 1 << 64


@dataclass(slots=True, eq=False)
class Source:
    """One prompt. ``hashes`` of its full blocks; ``echo`` is the text a completion repeats before its own.

    ``begun``: its first choice has a delta; ``computed``: its first token was seen.
    """

    prompt: Prompt
    hashes: Sequence[bytes] = ()
    tokens: int = 0
    new_tokens: int | None = None
    echo: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    computed: bool = False
    logprobs: tuple[TokenLogprob | None, ...] = ()


@dataclass(slots=True, eq=False)
class Choice:
    """One text being generated. ``silent``: its token is not for the client, who asked for none (``max_tokens`` 0).

    ``answered``: its first tokens, which another door generated and the client has.
    """

    index: int
    engine_id: str
    source: Source
    params: SamplingParams
    ticket: Ticket
    leads: bool = True
    silent: bool = False
    answered: tuple[int, ...] = ()
    feed: Mailbox | None = None
    started_s: float | None = None
    begun: bool = False
    completion_tokens: int = 0
    finish_reason: FinishReason | None = None
    timings: Timings | None = None
    texts: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)

    @property
    def prompt(self) -> Prompt:
        return replace(self.source.prompt, answered=self.answered) if self.answered else self.source.prompt

    @property
    def new_tokens(self) -> int:
        """What was generated here."""
        last = None if self.feed is None else self.feed.last
        return 0 if last is None else last.completion_tokens - len(self.answered)

    def replays(self, delta: Delta) -> bool:
        """Whether it only repeats what the client has."""
        have = len(self.answered)
        return bool(have) and delta.completion_tokens <= have and delta.finish_reason is None


def seeded(params: SamplingParams, number: int, base: int) -> SamplingParams:
    """The parameters of choice ``number``: the client's seed, or ``base`` where it gave none, plus that number."""
    seed = (base if params.seed is None else params.seed) + number
    return replace(params, seed=(seed + _SEEDS // 2) % _SEEDS - _SEEDS // 2)


def joined_timings(choices: Sequence[Choice]) -> Timings | None:
    """One request's times: waiting and prefill of its first choice, the longest decode, the work of all.

    Prompt tokens count once, so those found in the cache are of the leading choices only.
    """
    known = [choice.timings for choice in choices if choice.timings is not None]
    leaders = [choice.timings for choice in choices if choice.timings is not None and choice.leads]
    if len(known) <= 1:
        return known[0] if known else None
    first = choices[0].timings or known[0]
    return Timings(
        queue_ms=first.queue_ms,
        prefill_ms=first.prefill_ms,
        decode_ms=max((t.decode_ms for t in known if t.decode_ms is not None), default=None),
        preemptions=_sum([t.preemptions for t in known]),
        cached_tokens=_sum([t.cached_tokens for t in leaders]),
        new_prompt_tokens=_sum([t.new_prompt_tokens for t in leaders]),
        ideal_s=_total([t.ideal_s for t in known]),
        executed_ideal_s=_total([t.executed_ideal_s for t in known]),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
