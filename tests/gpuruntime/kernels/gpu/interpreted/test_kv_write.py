"""Norm, rotation and KV write against float64 complex numbers; what no slot names stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gpuruntime.kernels.backend import HeadNorms
from gpuruntime.kernels.gpu.kv_write import LIMITS, KvPool, kv_write, kv_write_reference

BLOCKS, EPS = 5, 1e-6


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def angles(head_dim, positions=64):
    return np.outer(np.arange(positions), 10000.0 ** (-np.arange(head_dim // 2) / (head_dim // 2)))


def tables(head_dim):
    return tuple(torch.from_numpy(part(angles(head_dim))).float() for part in (np.cos, np.sin))


def pool(dtype, heads, head_dim, block_size):
    """All NaN (int8: a mark), so that a write elsewhere or a missing one shows."""
    values = torch.full((BLOCKS, block_size, 2, heads, head_dim), 99 if dtype == torch.int8 else float("nan"))
    scales = torch.full((BLOCKS, block_size, 2, heads), float("nan")) if dtype in LIMITS else None
    return KvPool(values.to(dtype), scales)


def oracle(qkv, positions, kv_heads, norms):
    """q, and K and V as ``[T, 2, kv_heads, head_dim]``, in float64: a rotation is a product of complex numbers."""
    x = qkv.double().numpy().copy()
    rows, head_dim = x.shape[1:]
    turn = np.exp(1j * angles(head_dim))[positions.numpy()]
    for head in range(rows - kv_heads):
        if norms is not None:
            weight = (norms.q if head < rows - 2 * kv_heads else norms.k).double().numpy()
            x[:, head] *= weight / np.sqrt((x[:, head] ** 2).mean(axis=1, keepdims=True) + EPS)
        turned = (x[:, head, : head_dim // 2] + 1j * x[:, head, head_dim // 2 :]) * turn
        x[:, head] = np.concatenate((turned.real, turned.imag), axis=1)
    heads = rows - 2 * kv_heads
    return x[:, :heads], np.stack((x[:, heads:-kv_heads], x[:, -kv_heads:]), axis=1)


def close(found, expected, tolerance):
    assert np.isfinite(found).all()
    assert np.linalg.norm(found - expected) <= tolerance * np.linalg.norm(expected)


def check(dtype, pool_dtype, *, heads, kv_heads, head_dim, block_size=16, tokens=5, normed=False):
    qkv = random(tokens, heads + 2 * kv_heads, head_dim, dtype=dtype)
    positions = torch.arange(tokens) * 7 % 64
    slots = torch.randperm(BLOCKS * block_size, generator=torch.Generator().manual_seed(1))[:tokens]
    norms = HeadNorms(random(head_dim, seed=2), random(head_dim, seed=3), EPS) if normed else None
    kv = pool(pool_dtype, kv_heads, head_dim, block_size)
    q = kv_write(qkv, positions, slots, tables(head_dim), kv, norms)
    expected_q, expected_kv = oracle(qkv, positions, kv_heads, norms)
    assert q.dtype == dtype
    close(q.double().numpy(), expected_q, 1e-3)
    stored = kv.values.double().flatten(0, 1)
    if kv.scales is not None:
        stored *= kv.scales.double().flatten(0, 1).unsqueeze(-1)
    close(stored[slots].numpy(), expected_kv, 1e-3 if kv.scales is None else 5e-2)
    untouched = torch.ones(BLOCKS * block_size, dtype=torch.bool)
    untouched[slots] = False
    assert bool(stored[untouched].isnan().all())
    reference = pool(pool_dtype, kv_heads, head_dim, block_size)
    torch.testing.assert_close(kv_write_reference(qkv, positions, slots, tables(head_dim), reference, norms), q)
    if pool_dtype == torch.float8_e4m3fn:
        off = (
            kv.values[~kv.values.float().isnan()].float() - reference.values[~kv.values.float().isnan()].float()
        ).abs()
        assert float((off > 0).double().mean()) < 0.01  # a scale's last bit may move a value that all but ties
    if kv.scales is not None and reference.scales is not None:
        torch.testing.assert_close(reference.scales, kv.scales, equal_nan=True, rtol=1e-6, atol=0)


@pytest.mark.parametrize("pool_dtype", [torch.float32, torch.float16, torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("normed", [False, True])
def test_fills_every_type_of_pool(pool_dtype, normed):
    check(torch.float32, pool_dtype, heads=6, kv_heads=2, head_dim=64, normed=normed)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (9, 3), (14, 2)])
def test_takes_any_number_of_heads(heads, kv_heads):
    check(torch.float16, torch.float16, heads=heads, kv_heads=kv_heads, head_dim=64)


@pytest.mark.parametrize("head_dim", [2, 80, 96, 128, 256])
def test_takes_any_even_head_size(head_dim):
    check(torch.float32, torch.int8, heads=3, kv_heads=1, head_dim=head_dim, tokens=2, normed=True)


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("pool_dtype", [torch.float32, torch.float16, torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (32, 8)])
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize(("block_size", "tokens"), [(16, 1), (64, 5), (128, 2)])
def test_all_shapes(dtype, pool_dtype, heads, kv_heads, head_dim, block_size, tokens):
    shape = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "block_size": block_size, "tokens": tokens}
    check(dtype, pool_dtype, **shape, normed=head_dim % 3 == 2)


@pytest.mark.parametrize("pool_dtype", list(LIMITS))
def test_a_head_of_zeros_has_the_scale_zero(pool_dtype):
    kv = pool(pool_dtype, 1, 64, 16)
    kv_write(torch.zeros(1, 3, 64), torch.tensor([3]), torch.tensor([17]), tables(64), kv)
    assert kv.scales is not None
    assert torch.equal(kv.values[1, 1].float(), torch.zeros(2, 1, 64))
    assert torch.equal(kv.scales[1, 1], torch.zeros(2, 1))


def test_the_largest_value_of_a_head_uses_the_whole_range():
    kv = pool(torch.int8, 1, 64, 16)
    qkv = torch.zeros(1, 3, 64)
    qkv[0, 2, 5], qkv[0, 2, 40] = -3.0, 1.5
    kv_write(qkv, torch.tensor([0]), torch.tensor([0]), tables(64), kv)
    assert kv.values[0, 0, 1, 0, 5] == -127
    assert kv.values[0, 0, 1, 0, 40] == 64  # 63.5, to even


def test_a_negative_slot_writes_nothing_but_q():
    kv = pool(torch.float32, 1, 64, 16)
    q = kv_write(random(2, 3, 64), torch.tensor([0, 1]), torch.tensor([-1, 4]), tables(64), kv)
    assert bool(q.isfinite().all())
    assert int(kv.values.isfinite().all(dim=-1).sum()) == 2


def test_what_does_not_fit_is_refused():
    positions = slots = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(ValueError, match="do not fit"):
        kv_write(torch.ones(1, 3, 32), positions, slots, tables(32), pool(torch.float32, 1, 64, 16))
    with pytest.raises(ValueError, match="angles"):
        kv_write(torch.ones(1, 3, 64), positions, slots, tables(32), pool(torch.float32, 1, 64, 16))
    bare = KvPool(pool(torch.int8, 1, 64, 16).values)
    with pytest.raises(ValueError, match="has scales"):
        kv_write(torch.ones(1, 3, 64), positions, slots, tables(64), bare)
