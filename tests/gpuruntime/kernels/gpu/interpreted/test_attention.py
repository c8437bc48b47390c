"""Paged attention against float64: every kind of batch, of view, of shape and of type.

Each case is computed by the kernels and by their PyTorch reference. ``kept`` are K and V as the pool holds them, and
``exact`` as they were before quantization.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuruntime.kernels.gpu.attention import attention, attention_reference, plan_attention
from gpuruntime.kernels.gpu.attention_batch import BLOCK_SIZES, Requests, ScoreRule
from gpuruntime.kernels.gpu.attention_mixed import MixedShape, attend_mixed
from gpuruntime.kernels.gpu.kv_write import KvPool
from gpuruntime.kernels.kv_memory import mapped_zeros
from gpuruntime.kernels.paged_attention import View
from helpers.paged import Heads, exact_attention, make_batch, worst

TOLERANCE, QUANTIZED_TOLERANCE = 1e-3, 5e-2
HEADS = Heads(2, 1, 64)
RULE = ScoreRule(0.125)
VIEWS = (View(), View(7), View(40), View(64, 3), View(20, 70))
# Around the edges of a block of 16 and of tiles of 32 and 64; a share of a split context has 128 tokens.
LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257)


def check(shape, heads=HEADS, rule=RULE, *, decodes=0, use_far=False, invariant=False, programs=None, **options):
    batch = make_batch(shape, heads, rule, **options)
    plan = plan_attention(batch.requests, rule, batch.kv, decodes=decodes, invariant=invariant, programs=programs)
    kept = exact_attention(batch, rule, batch.kept, use_far=use_far)
    exact = exact_attention(batch, rule, batch.exact, use_far=use_far)
    for compute in (attention, attention_reference):
        found = compute(batch.q, batch.kv, plan, far=batch.far if use_far else None)
        assert found.dtype == batch.q.dtype
        assert worst(found, kept) <= TOLERANCE
        error = np.linalg.norm(found.double().numpy().reshape(exact.shape) - exact)
        assert error <= QUANTIZED_TOLERANCE * np.linalg.norm(exact)


def test_a_batch_of_everything():
    check([(1, 1), (1, 70), (1, 33), (5, 5), (17, 40), (1, 16), (3, 65)], Heads(4, 2, 64), decodes=3)


@pytest.mark.parametrize("rule", [ScoreRule(0.125, view) for view in VIEWS], ids=str)
def test_decodes_of_every_length(rule):
    check([(1, length) for length in LENGTHS], rule=rule, decodes=len(LENGTHS), programs=12)


@pytest.mark.parametrize("rule", [ScoreRule(0.125, view) for view in VIEWS], ids=str)
def test_prefills_and_chunks_of_every_length(rule):
    check([(length, length) for length in LENGTHS[:11]] + [(9, 40), (33, 65), (1, 64), (16, 80)], rule=rule)


@pytest.mark.parametrize(("group", "dim"), [(1, 64), (3, 64), (3, 80), (1, 256), (8, 128)])
def test_heads(group, dim):
    check([(1, 150), (1, 20), (7, 30), (20, 37)], Heads(2 * group, 2, dim), decodes=2, programs=8)


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_blocks(block_size):
    view = ScoreRule(0.125, View(70, 5))
    for rule in (RULE, view):
        check([(1, 200), (1, 128), (40, 130)], rule=rule, decodes=2, programs=8, block_size=block_size)


@pytest.mark.parametrize("rule", [ScoreRule(0.3, View(), 5.0), ScoreRule(2.0, View(40, 3), 0.5)], ids=str)
def test_capped_scores(rule):
    check([(1, 140), (1, 20), (30, 70)], rule=rule, decodes=2, programs=8)


@pytest.mark.parametrize("view", [View(20, 3), View(33, 70), View(64, 64)], ids=str)
def test_sinks_seen_by_their_own_rotation(view):
    check([(1, 150), (1, 2), (1, 65), (40, 100)], rule=ScoreRule(0.125, view), decodes=3, programs=8, use_far=True)


@pytest.mark.parametrize("kv_dtype", [torch.int8, torch.float8_e4m3fn, torch.float16], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("rule", [RULE, ScoreRule(0.125, View(40, 5), 3.0)], ids=str)
def test_types_of_k_and_v(rule, dtype, kv_dtype):
    if dtype == kv_dtype or kv_dtype != torch.float16:
        check([(1, 150), (1, 20), (30, 70)], rule=rule, decodes=2, programs=8, dtype=dtype, kv_dtype=kv_dtype)


def test_a_long_prefill_walks_large_tiles():
    """Many tokens a request choose the shape that a GPU's prefill has: 128 rows, tiles of 64 keys."""
    check([(90, 90), (70, 150)], Heads(6, 2, 64))


def test_requests_and_rows_that_are_not_there():
    """As a captured graph has them: more rows than tokens, requests without any, contexts without any."""
    rule = ScoreRule(0.125, View(30))
    batch = make_batch([(1, 20), (1, 140), (9, 30), (0, 0), (0, 0)], HEADS, rule)
    lengths = torch.cat((batch.requests.lengths[:1], torch.zeros(1, dtype=torch.int32), batch.requests.lengths[2:]))
    padded = torch.cat((batch.q, torch.full((6, 2, 64), float("nan"))))
    requests = Requests(batch.requests.begins, lengths, batch.requests.tables)
    plan = plan_attention(requests, rule, batch.kv, decodes=2)
    found = attention(padded, batch.kv, plan).view(-1, 2, 64)
    expected = exact_attention(batch, rule, batch.kept)
    assert worst(found[:1], expected[:1]) <= TOLERANCE
    assert (found[1] == 0).all()
    assert worst(found[2:11], expected[2:11]) <= TOLERANCE


def test_queries_may_be_columns_of_the_fused_product():
    batch = make_batch([(1, 40), (12, 30)], HEADS, RULE)
    fused = torch.cat((batch.q.flatten(1), torch.full((13, 128), float("nan"))), dim=1)
    q = fused[:, :128].unflatten(1, (2, 64))
    plan = plan_attention(batch.requests, RULE, batch.kv, decodes=1)
    assert worst(attention(q, batch.kv, plan), exact_attention(batch, RULE, batch.kept)) <= TOLERANCE


@pytest.mark.parametrize("rule", [RULE, ScoreRule(0.125, View(600, 5))], ids=str)
def test_invariant_results_have_the_same_bits_in_any_batch(rule):
    """The same requests alone, with a few and with many others, at other places and with other programs."""
    subjects = [(1, 530), (1, 90), (1, 1030)]
    found = []
    for others, programs in (([], 4), ([(1, 3), (1, 700)], 64), ([(1, 50)] * 20 + [(25, 60)], 1)):
        batch = make_batch(subjects + others, HEADS, rule, width=70)
        decodes = sum(new == 1 for new, _ in subjects + others)
        plan = plan_attention(batch.requests, rule, batch.kv, decodes=decodes, programs=programs, invariant=True)
        found.append(attention(batch.q, batch.kv, plan)[:3])
        assert worst(found[-1], exact_attention(batch, rule, batch.kept)[:3]) <= TOLERANCE
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_an_invariant_prompt_has_the_same_bits_in_chunks_and_whole():
    whole = make_batch([(100, 100)], HEADS, RULE)
    chunks = [(0, 37), (37, 64), (64, 100)]
    found = []
    for begin, end in chunks:
        tokens = torch.tensor([0, end - begin], dtype=torch.int32)
        requests = Requests(tokens, torch.tensor([end], dtype=torch.int32), whole.requests.tables)
        plan = plan_attention(requests, RULE, whole.kv, decodes=0, invariant=True)
        found.append(attention(whole.q[begin:end], whole.kv, plan))
    plan = plan_attention(whole.requests, RULE, whole.kv, decodes=0, invariant=True)
    assert torch.equal(attention(whole.q, whole.kv, plan), torch.cat(found))


def test_blocks_may_lie_behind_two_to_the_31_values():
    """Zeros that nothing touches take no memory, so a pool may be larger than 32-bit offsets reach."""
    batch = make_batch([(1, 40), (20, 50)], HEADS, RULE, kv_dtype=torch.int8)
    assert batch.kv.scales is not None
    blocks = batch.kv.values.shape[0]
    first = (1 << 31) // batch.kv.values[0].numel()
    values = mapped_zeros((first + blocks, *batch.kv.values.shape[1:]), torch.int8)
    scales = mapped_zeros(values.shape[:4], torch.float32)
    values[first:], scales[first:] = batch.kv.values, batch.kv.scales
    requests = Requests(batch.requests.begins, batch.requests.lengths, batch.requests.tables + first)
    found = []
    for kv, where in ((batch.kv, batch.requests), (KvPool(values, scales), requests)):
        found.append(attention(batch.q, kv, plan_attention(where, RULE, kv, decodes=1)))
    assert torch.equal(*found)


def test_shares_follow_the_lengths_without_the_host():
    """A long context among short ones is split finely, and what is short stays whole."""
    batch = make_batch([(1, 2000), (1, 20), (1, 100), (1, 130)], HEADS, RULE)
    plan = plan_attention(batch.requests, RULE, batch.kv, decodes=4, programs=16)
    assert plan.shares is not None
    # 32 + 1 + 2 + 3 tiles of 64 keys over 16 programs: 3 tiles a share.
    assert plan.shares.tiles.tolist() == [3]
    assert plan.shares.begins.tolist() == [0, 11, 12, 13, 14]
    assert plan.shares.begins[-1] <= plan.shares.most


@pytest.mark.parametrize(
    ("values", "scales", "message"),
    [
        (torch.zeros(2, 24, 2, 1, 64), None, "blocks of 24 tokens"),
        (torch.zeros(2, 16, 2, 1, 20), None, "heads of 20 values"),
        (torch.zeros(2, 16, 1, 1, 64), None, "one contiguous"),
        (torch.zeros(2, 16, 2, 1, 64, dtype=torch.int8), None, "need scales"),
        (torch.zeros(2, 16, 2, 1, 64), torch.zeros(2, 16, 2, 1), "have no scales"),
        (torch.zeros(2, 16, 2, 1, 64, dtype=torch.float64), None, "cannot be kept as"),
    ],
)
def test_pools_without_a_kernel_are_refused(values, scales, message):
    batch = make_batch([(1, 5)], HEADS, RULE)
    with pytest.raises(ValueError, match=message):
        plan_attention(batch.requests, RULE, KvPool(values, scales), decodes=1)


@pytest.mark.parametrize("q", [torch.zeros(1, 3, 80), torch.zeros(1, 2, 128)[:, :, ::2], torch.zeros(1, 64)])
def test_queries_that_do_not_fit_are_refused(q):
    batch = make_batch([(1, 5)], HEADS, RULE)
    plan = plan_attention(batch.requests, RULE, batch.kv, decodes=1)
    with pytest.raises(ValueError, match=r"queries|lie one behind"):
        attention(q, batch.kv, plan)


@st.composite
def _cases(draw):
    decodes = draw(st.lists(st.integers(1, 200), max_size=4))
    others = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), max_size=4 if decodes else 3))
    shape = [(1, length) for length in decodes] + [(new, before + new) for new, before in others if new]
    window = draw(st.none() | st.integers(1, 100))
    view = View(window, draw(st.integers(0, 40)) if window else 0)
    rule = ScoreRule(0.125, view, draw(st.sampled_from([None, 2.0])))
    kv_heads, group = draw(st.integers(1, 2)), draw(st.sampled_from([1, 2, 3, 5]))
    return shape or [(1, 1)], Heads(kv_heads * group, kv_heads, draw(st.sampled_from([32, 48]))), rule, len(decodes)


def _ragged(case, kv_dtype, block_size, options, seed):
    shape, heads, rule, decodes = case
    decodes = decodes or int(shape == [(1, 1)])
    dtype = kv_dtype if kv_dtype == torch.float16 else torch.float32
    check(
        shape, heads, rule, decodes=decodes, dtype=dtype, kv_dtype=kv_dtype, block_size=block_size, seed=seed, **options
    )


_OPTIONS = st.fixed_dictionaries({"programs": st.integers(1, 40), "use_far": st.booleans(), "invariant": st.booleans()})
_TYPES = st.sampled_from([torch.float32, torch.float16, torch.int8, torch.float8_e4m3fn])


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(_cases(), _TYPES, st.sampled_from(BLOCK_SIZES), _OPTIONS, st.integers(0, 99))
def test_any_ragged_batch(case, kv_dtype, block_size, options, seed):
    _ragged(case, kv_dtype, block_size, options, seed)


@pytest.mark.kernels
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(_cases(), _TYPES, st.sampled_from(BLOCK_SIZES), _OPTIONS, st.integers(0, 99))
def test_many_ragged_batches(case, kv_dtype, block_size, options, seed):
    _ragged(case, kv_dtype, block_size, options, seed)


@pytest.mark.kernels
@pytest.mark.parametrize("dim", [64, 80, 96, 128, 160, 192, 256])
@pytest.mark.parametrize("group", [1, 2, 3, 4, 6, 8, 16])
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_every_shape(group, dim, block_size):
    shape = [(1, 150), (1, 17), (7, 30), (33, 70)]
    check(shape, Heads(group, 1, dim), decodes=2, programs=4, block_size=block_size)
    rule = ScoreRule(0.125, View(40, 5), 30.0)
    check(shape, Heads(group, 1, dim), rule, decodes=2, programs=4, block_size=block_size, kv_dtype=torch.int8)


@pytest.mark.kernels
@pytest.mark.parametrize("rule", [ScoreRule(0.125, view, cap) for view in VIEWS for cap in (None, 4.0)], ids=str)
@pytest.mark.parametrize("kv_dtype", [torch.float16, torch.int8, torch.float8_e4m3fn], ids=str)
def test_every_view_and_type(rule, kv_dtype):
    shape = [(1, length) for length in LENGTHS] + [(length, length) for length in LENGTHS[:12]] + [(33, 65), (16, 80)]
    check(shape, rule=rule, decodes=len(LENGTHS), programs=12, dtype=torch.float16, kv_dtype=kv_dtype)


@pytest.mark.kernels
@pytest.mark.parametrize("rows", [16, 32, 64, 128])
@pytest.mark.parametrize("tile", [16, 32, 64, 128])
def test_every_shape_of_a_program(rows, tile):
    """Also tiles larger than a block, and blocks larger than a tile."""
    for block_size, rule in ((16, RULE), (128, ScoreRule(0.125, View(33, 5)))):
        batch = make_batch([(5, 5), (60, 150), (1, 129)], Heads(3, 1, 64), rule, block_size=block_size)
        out = torch.full_like(batch.q, float("nan"))
        shape = MixedShape(rows, tile, warps=4, stages=2)
        attend_mixed(out, batch.q, None, batch.kv, batch.requests, rule, tokens=66, shape=shape)
        assert worst(out, exact_attention(batch, rule, batch.kept)) <= TOLERANCE
