"""A seeded mix of the four service classes in the shape of published traces, its lengths scaled to two cores.

Lengths are log-normal with the medians and spreads of Azure's LLM inference trace of 2023 (conversation, code) and of
Mooncake's conversation trace (long prompts; CC-BY-4.0 and Apache-2.0), prompts at an eighth and answers at half of
their length. Arrivals of conversations have a coefficient of variation of 1.09. Of sharing only Mooncake tells: every
request begins with one block of 512 tokens, and 32 % go on with an earlier request's prompt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuruntime.engine.config import BLOCK_TOKENS
from gpuruntime.engine.kv import GhostList, chain_hash, root_hash

PROMPT_SCALE, OUTPUT_SCALE = 1 / 8, 1 / 2
COMMON_TOKENS = 64
CONTINUES = 0.32
ARRIVALS_CV = 1.09
MAX_PROMPT, MAX_OUTPUT = 1500, 256
_MIN_PROMPT, _MIN_OUTPUT = COMMON_TOKENS + 16, 4


@dataclass(frozen=True, slots=True)
class Lengths:
    """Median tokens and spread (the deviation of their logarithm) of prompts and answers; ``share`` of the requests."""

    share: float
    prompt: float
    prompt_spread: float
    output: float
    output_spread: float


CLASSES = {
    "chat": Lengths(0.55, 1020, 0.99, 129, 0.86),
    "code": Lengths(0.25, 1469, 1.36, 13, 0.85),
    "rag": Lengths(0.10, 8001, 1.01, 362, 0.40),
    "batch": Lengths(0.10, 1020, 0.99, 362, 0.40),
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request. ``new_tokens``: prompt tokens that no earlier arrival had, in whole blocks from the beginning."""

    at_s: float
    service: str
    prompt: tuple[int, ...]
    max_tokens: int
    new_tokens: int


def make_mix(count: int, rate: float, vocabulary: int, seed: int = 1) -> list[Arrival]:
    """``count`` requests arriving at ``rate`` a second; the same seed gives the same requests at any rate."""
    random = np.random.default_rng(seed)
    common = {name: _tokens(random, COMMON_TOKENS, vocabulary) for name in CLASSES}
    earlier: dict[str, list[tuple[int, ...]]] = {name: [] for name in CLASSES}
    seen = GhostList()
    shape = 1 / ARRIVALS_CV**2
    names, shares = list(CLASSES), [lengths.share for lengths in CLASSES.values()]
    now, arrivals = 0.0, []
    for _ in range(count):
        name = names[int(random.choice(len(names), p=shares))]
        lengths = CLASSES[name]
        size = _draw(random, lengths.prompt * PROMPT_SCALE, lengths.prompt_spread, _MIN_PROMPT, MAX_PROMPT)
        output = _draw(random, lengths.output * OUTPUT_SCALE, lengths.output_spread, _MIN_OUTPUT, MAX_OUTPUT)
        head = common[name]
        if earlier[name] and random.random() < CONTINUES:
            head = earlier[name][int(random.integers(len(earlier[name])))]
        prompt = head[: size - BLOCK_TOKENS]
        prompt += _tokens(random, size - len(prompt), vocabulary)
        earlier[name].append(prompt)
        now += float(random.gamma(shape, 1 / (shape * rate)))
        arrivals.append(Arrival(now, name, prompt, output, size - _remember(seen, prompt)))
    return arrivals


def _remember(seen: GhostList, prompt: Sequence[int]) -> int:
    """The leading tokens that earlier prompts had; this one's are remembered."""
    parent, hashes = root_hash(b""), []
    for start in range(0, len(prompt) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        parent = chain_hash(parent, prompt[start : start + BLOCK_TOKENS])
        hashes.append(parent)
    known = seen.leading(hashes)
    for digest in hashes:
        seen.add(digest)
    return known * BLOCK_TOKENS


def _draw(random: np.random.Generator, median: float, spread: float, least: int, most: int) -> int:
    return int(min(most, max(least, random.lognormal(math.log(median), spread))))


def _tokens(random: np.random.Generator, count: int, vocabulary: int) -> tuple[int, ...]:
    return tuple(random.integers(1000, vocabulary, count).tolist())
