"""The ladder's requests: the same at every rate, in the published shape, with what is new counted by hand."""

from __future__ import annotations

import itertools
import statistics

import pytest

from benchmarks.common.mix import ARRIVALS_CV, CLASSES, MAX_OUTPUT, MAX_PROMPT, make_mix


def test_the_rate_moves_only_the_clock() -> None:
    slow, fast = make_mix(200, 1.0, 5000), make_mix(200, 4.0, 5000)
    assert [arrival.prompt for arrival in slow] == [arrival.prompt for arrival in fast]
    assert [arrival.at_s / 4 for arrival in slow] == pytest.approx([arrival.at_s for arrival in fast])


def test_new_tokens_are_those_behind_the_longest_known_beginning() -> None:
    earlier: list[tuple[int, ...]] = []
    for arrival in make_mix(120, 1.0, 5000):
        blocks = len(arrival.prompt) // 16
        known = max(
            (
                n
                for n in range(blocks + 1)
                for old in earlier
                if len(old) >= 16 * n and old[: 16 * n] == arrival.prompt[: 16 * n]
            ),
            default=0,
        )
        assert arrival.new_tokens == len(arrival.prompt) - 16 * known
        earlier.append(arrival.prompt)


def test_the_shape_is_the_published_one() -> None:
    mix = make_mix(6000, 2.0, 5000)
    gaps = [late.at_s - early.at_s for early, late in itertools.pairwise(mix)]
    assert statistics.mean(gaps) == pytest.approx(0.5, rel=0.05)
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(ARRIVALS_CV, rel=0.06)
    for name, lengths in CLASSES.items():
        own = [arrival for arrival in mix if arrival.service == name]
        assert len(own) / len(mix) == pytest.approx(lengths.share, abs=0.02)
        assert statistics.median(len(arrival.prompt) for arrival in own) == pytest.approx(lengths.prompt / 8, rel=0.15)
        assert statistics.median(arrival.max_tokens for arrival in own) == pytest.approx(lengths.output / 2, rel=0.15)
        assert max(len(arrival.prompt) for arrival in own) <= MAX_PROMPT
        assert max(arrival.max_tokens for arrival in own) <= MAX_OUTPUT
