"""Paged attention against float64: every kind of batch, of view, of shape and of type."""

from __future__ import annotations

import pytest
import torch
from helpers.paged import Heads, exact_attention, make_batch, worst

from gpuruntime.kernels.gpu.attention import attention, attention_reference, plan_attention
from gpuruntime.kernels.gpu.attention_batch import ScoreRule
from gpuruntime.kernels.paged_attention import View

TOLERANCE, QUANTIZED_TOLERANCE = 1e-3, 5e-2
HEADS = Heads(4, 2, 64)
RULE = ScoreRule(0.125)


def check(shape, heads=HEADS, rule=RULE, *, decodes=0, use_far=False, invariant=False, programs=None, **options):
    batch = make_batch(shape, heads, rule, **options)
    plan = plan_attention(batch.requests, rule, batch.kv, decodes=decodes, invariant=invariant, programs=programs)
    far = batch.far if use_far else None
    for compute in (attention, attention_reference):
        found = compute(batch.q, batch.kv, plan, far=far)
        assert found.dtype == batch.q.dtype
        assert worst(found, exact_attention(batch, rule, batch.kept, use_far=use_far)) <= TOLERANCE
        assert worst(found, exact_attention(batch, rule, batch.exact, use_far=use_far)) <= QUANTIZED_TOLERANCE
    return found


def test_a_batch_of_everything():
    check([(1, 1), (1, 70), (1, 33), (5, 5), (17, 40), (1, 16), (3, 65)], decodes=3)
