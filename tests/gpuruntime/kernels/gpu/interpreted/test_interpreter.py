"""The ground that the other tests here stand on."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _product(a, b, out, SIZE: tl.constexpr, DOT_DTYPE: tl.constexpr):
    rows = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    left = tl.load(a + rows).to(DOT_DTYPE)
    right = tl.load(b + rows).to(DOT_DTYPE)
    tl.store(out + rows, tl.dot(left, right))


def test_a_kernel_runs_without_a_gpu():
    a, b = torch.randn(2, 16, 16, generator=torch.Generator().manual_seed(0))
    out = torch.empty(16, 16)
    _product[(1,)](a, b, out, 16, tl.float32)
    torch.testing.assert_close(out, (a.double() @ b.double()).float())
