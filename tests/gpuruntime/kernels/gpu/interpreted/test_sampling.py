"""What a row may draw against a sort in float64, its noise against Philox's published words, draws by chi-square."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.kernels.gpu.sampling import NOT_FINITE, _philox, draw, sample, sample_reference
from gpuruntime.kernels.gpu.sampling_limits import CHUNK, Limits, SamplingParameters, find_limits, kept_reference


def parameters(rows, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=0, step=0):
    """Each value is a row's or that of all rows."""

    def column(value, dtype):
        return torch.as_tensor(value, dtype=dtype).expand(rows).contiguous()

    floats = [column(value, torch.float32) for value in (temperature, top_p, min_p)]
    return SamplingParameters(
        temperatures=floats[0],
        top_ks=column(top_k, torch.int32),
        top_ps=floats[1],
        min_ps=floats[2],
        seeds=column(seed, torch.int64),
        steps=column(step, torch.int32),
    )


def normal(*shape, seed=0, scale=3.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def kept(logits, limits):
    threshold, last = limits.thresholds.unsqueeze(1), limits.last_ties.unsqueeze(1)
    return (logits > threshold) | ((logits == threshold) & (torch.arange(logits.shape[1]) <= last))


def oracle_kept(logits, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    """The ids that a plain reading of the three rules leaves, by walking down a sorted list in float64."""
    logits = [float(value) for value in logits]
    order = sorted((i for i in range(len(logits)) if logits[i] > float("-inf")), key=lambda i: (-logits[i], i))
    order = order[: top_k or None]
    weights = {i: float(np.exp((logits[i] - logits[order[0]]) / temperature)) for i in order}
    left, total, mass = [], sum(weights.values()), 0.0
    for i in order:
        if left and top_p < 1 and mass >= top_p * total:
            break
        left.append(i)
        mass += weights[i]
    return {i for i in left if weights[i] >= min_p}


def kept_ids(logits, **rules):
    mask = kept(logits.unsqueeze(0), find_limits(logits.unsqueeze(0), parameters(1, **rules)))
    return set(mask[0].nonzero().flatten().tolist())


@pytest.mark.parametrize("vocab", [1, 2, 5, 100, CHUNK, CHUNK + 1])
@pytest.mark.parametrize(
    "rules",
    [
        {"top_k": 1},
        {"top_k": 7},
        {"top_p": 0.9},
        {"top_p": 0.1, "temperature": 2.0},
        {"top_k": 40, "top_p": 0.7, "temperature": 0.6},
        {"min_p": 0.05},
        {"top_k": 50, "top_p": 0.95, "min_p": 0.02},
    ],
)
def test_keeps_what_a_sort_would(vocab, rules):
    logits = normal(vocab, seed=vocab)
    assert kept_ids(logits, **rules) == oracle_kept(logits, **rules)


@settings(max_examples=25)
@given(
    values=st.lists(st.integers(-4, 4), min_size=1, max_size=30),
    top_k=st.integers(0, 31),
    share=st.sampled_from([0.03, 0.31, 0.52, 0.77, 0.97, 1.0]),
)
def test_among_equal_logits_the_lowest_ids_are_kept(values, top_k, share):
    logits = torch.tensor(values, dtype=torch.float32)
    found = kept_ids(logits, top_k=top_k, top_p=share)
    lower, upper = (oracle_kept(logits, top_k=top_k, top_p=min(1.0, share * factor)) for factor in (0.9999, 1.0001))
    assert lower <= found <= upper
    reference = kept_reference(logits.unsqueeze(0), parameters(1, top_k=top_k, top_p=share))
    assert lower <= set(reference[0].nonzero().flatten().tolist()) <= upper


def test_clustered_and_extreme_logits_have_their_border_found():
    tiny = torch.tensor([2.0**-power for power in range(140)])
    assert kept_ids(tiny, top_k=70) == set(range(70))
    huge = torch.tensor([3e38, -3e38, 1e38, -1e38, 0.0])
    assert kept_ids(huge, top_k=3) == {0, 2, 4}
    neighbours = torch.tensor([1.0, np.nextafter(np.float32(1), np.float32(2)), 1.0])
    assert kept_ids(neighbours, top_k=1) == {1}
    assert kept_ids(neighbours, top_k=2) == {0, 1}


def test_banned_tokens_are_never_kept():
    logits = torch.tensor([float("-inf"), 1.0, float("-inf"), 0.0])
    assert kept_ids(logits, top_k=3) == {1, 3}
    assert kept_ids(logits, top_p=0.999) == {1, 3}
    tokens = sample(logits.expand(64, 4), parameters(64, seed=torch.arange(64)))
    assert set(tokens.tolist()) == {1, 3}


def test_the_noise_is_philox():
    """The known answers of Random123's kat_vectors for philox4x32, 10 rounds."""
    assert int(_philox(0, torch.tensor([0]), 0)) == 0x6627E8D5
    # The kernel's own words, read back from which of two tokens wins: equal logits, so the smaller word does.
    count = 200
    tokens = sample(torch.zeros(count, 2), parameters(count, seed=torch.arange(count) * 0x1234567, step=5))
    words = [_philox(seed * 0x1234567, torch.arange(2), 5) for seed in range(count)]
    assert tokens.tolist() == [int(pair.argmin()) for pair in words]


def chi_square(counts, probabilities):
    """The chance of counts at least this far off; cells of few expected draws are joined."""
    expected = probabilities * counts.sum()
    rare = expected < 5
    found = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    found, wanted = found[wanted > 0], wanted[wanted > 0]
    statistic = ((found - wanted) ** 2 / wanted).sum()
    return float(torch.special.gammaincc(torch.tensor((len(found) - 1) / 2.0), torch.tensor(statistic / 2)))


@pytest.mark.parametrize("rules", [{"temperature": 1.7}, {"top_k": 12, "top_p": 0.8}])
def test_draws_follow_the_exact_probabilities(rules):
    follows_the_exact_probabilities(4096, **rules)


@pytest.mark.kernels
@pytest.mark.parametrize(
    "rules",
    [{}, {"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.8, "temperature": 1.7}, {"top_k": 20, "min_p": 0.1}],
)
def test_many_draws_follow_the_exact_probabilities(rules):
    follows_the_exact_probabilities(32768, **rules)


def follows_the_exact_probabilities(count, **rules):
    vocab, logits = 30, normal(30, seed=3, scale=1.5)
    one = find_limits(logits.unsqueeze(0), parameters(1, **rules))
    limits = Limits(*(getattr(one, name).expand(count).contiguous() for name in Limits.__slots__))
    tokens = draw(logits.expand(count, vocab), limits, parameters(count, **rules, seed=7, step=torch.arange(count)))
    weights = np.exp(logits.double().numpy() / rules.get("temperature", 1.0))
    weights[[i for i in range(vocab) if i not in oracle_kept(logits, **rules)]] = 0
    counts = np.bincount(tokens.numpy(), minlength=vocab)
    assert counts[weights == 0].sum() == 0
    assert chi_square(counts, weights / weights.sum()) > 1e-4


def test_seeds_draw_as_fairly_as_steps_do():
    count, logits = 8192, normal(30, scale=1.0)
    tokens = sample_all(logits, count, seed=torch.arange(count) * 1_000_003 + (1 << 40), step=3)
    weights = np.exp(logits.double().numpy())
    assert chi_square(np.bincount(tokens, minlength=30), weights / weights.sum()) > 1e-4


def sample_all(logits, count, **rules):
    nothing = Limits(
        logits.max().expand(count).contiguous(),
        torch.full((count,), float("-inf")),
        torch.full((count,), len(logits), dtype=torch.int32),
    )
    return draw(logits.expand(count, -1), nothing, parameters(count, **rules)).numpy()


def test_successive_steps_are_independent():
    """Pairs of successive tokens of one seed fall into the squares of a uniform table alike."""
    tokens = sample_all(torch.zeros(4), 16384, seed=11, step=torch.arange(16384))
    pairs = np.bincount(tokens[::2] * 4 + tokens[1::2], minlength=16)
    assert chi_square(pairs, np.full(16, 1 / 16)) > 1e-4


def test_the_same_seed_and_step_give_the_same_token_in_any_batch():
    vocab = CHUNK + 300
    logits = normal(5, vocab)
    rules = {
        "temperature": torch.tensor([0.0, 0.7, 1.0, 1.3, 1.0]),
        "top_k": torch.tensor([0, 30, 0, 5, 0]),
        "top_p": torch.tensor([1.0, 0.9, 0.95, 1.0, 1.0]),
        "seed": torch.tensor([1, 2, 3, -4, 5]),
        "step": torch.tensor([0, 9, 8, 7, 6]),
    }
    together = sample(logits, parameters(5, **rules))
    assert together[0] == logits[0].argmax()
    for order in ([3, 1, 4], [2], [4, 3, 2, 1, 0, 0]):
        chosen = {name: values[order] for name, values in rules.items()}
        assert torch.equal(sample(logits[order], parameters(len(order), **chosen)), together[order])
    padded = torch.cat((logits, torch.zeros(5, 21)), dim=1)[:, :vocab]
    assert torch.equal(sample(padded, parameters(5, **rules)), together)


def test_the_reference_draws_the_same_tokens():
    logits = normal(12, 50)
    rules = parameters(12, temperature=0.8, top_k=20, top_p=0.9, min_p=0.01, seed=torch.arange(12), step=2)
    assert torch.equal(sample(logits, rules), sample_reference(logits, rules))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_is_told_from_the_others(bad):
    logits = normal(3, 20)
    logits[1, 13] = bad
    for rules in ({}, {"temperature": 0.0}, {"top_k": 5, "top_p": 0.5}):
        tokens = sample(logits, parameters(3, **rules)).tolist()
        assert [token == NOT_FINITE for token in tokens] == [False, True, False]
    assert sample(torch.full((1, 4), float("-inf")), parameters(1)).tolist() == [NOT_FINITE]


def test_temperature_zero_takes_the_lowest_id_of_the_largest():
    logits = torch.zeros(1, CHUNK * 2)
    logits[0, [CHUNK + 5, CHUNK - 1, 700]] = 2.0
    assert sample(logits, parameters(1, temperature=0.0, top_k=3)).tolist() == [700]


def test_a_tiny_temperature_neither_overflows_nor_errs():
    logits = normal(4, 100)
    assert torch.equal(sample(logits, parameters(4, temperature=1e-30, top_p=0.9)), logits.argmax(dim=1))


def test_no_rows_give_no_tokens():
    assert sample(torch.empty(0, 9), parameters(0)).shape == (0,)


def test_parameters_of_another_batch_are_refused():
    with pytest.raises(ValueError, match=r"temperatures must be \[2\]"):
        sample(torch.zeros(2, 9), parameters(3))
    with pytest.raises(ValueError, match="contiguous vocabulary"):
        sample(torch.zeros(9, 2).T, parameters(2))
