"""Attention over paged K and V beside what else attends: PyTorch's own, FlashAttention, FlashInfer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.common.gpu_clock import Bench, Rates, Row, attempt
from gpuruntime.kernels.gpu.attention import attention, plan_attention
from gpuruntime.kernels.gpu.attention_batch import Requests, ScoreRule
from gpuruntime.kernels.gpu.kv_write import KvPool

BLOCK = 16
_FUSED = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION)


class Heads:
    """Llama 3 8B's: 32 of queries, 8 of K and V, 128 wide; in a dry run a few narrow ones."""

    def __init__(self, bench: Bench) -> None:
        self.queries, self.kv, self.dim = (4, 2, 16) if bench.dry else (32, 8, 128)

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.dim)


def decode(bench: Bench, rates: Rates) -> Iterator[Row]:
    """One new token each: what costs is to read K and V once."""
    heads = Heads(bench)
    batches, contexts = ((2, 3), (33, 64)) if bench.dry else ((1, 16, 64, 256), (1024, 4096, 32768))
    for batch in batches:
        for context in contexts:
            case = f"batch {batch}, context {context}"
            nbytes = 2 * batch * context * heads.kv * heads.dim * bench.dtype.itemsize
            # The peers read K and V of their own, one after the other.
            if bench.has_time(f"decode {case}") and bench.has_memory(2 * nbytes, f"decode {case}"):
                # A call of its own, so that what it held is free before the next is asked to fit.
                ours, peers = _decode_case(bench, heads, batch, context)
                shape = {"batch": batch, "context": context}
                yield Row("decode", case, ours, nbytes / rates.bytes_s, "bandwidth", peers, shape)


def _decode_case(bench: Bench, heads: Heads, batch: int, context: int) -> tuple[float, dict[str, float | str]]:
    """Seconds of ours and of each peer."""
    q = bench.random(batch, heads.queries, heads.dim)
    pool, requests = paged(bench, heads, [context] * batch, [1] * batch)
    plan = plan_attention(requests, ScoreRule(heads.scale), pool, decodes=batch)
    return bench.seconds(partial(attention, q, pool, plan), cold=True), {
        "torch": attempt(partial(_sdpa_decode, bench, heads, q, context)),
        "flash_attn": attempt(partial(_flash_decode, bench, heads, q, context)),
        "flashinfer": attempt(partial(_flashinfer_decode, bench, heads, q, pool, requests)),
    }


def prefill(bench: Bench, rates: Rates) -> Iterator[Row]:
    """One prompt as a whole, causal: what costs is to multiply."""
    heads = Heads(bench)
    for tokens in (24, 40) if bench.dry else (512, 2048, 8192, 16384):
        case = f"{tokens} tokens"
        if not bench.has_time(f"prefill {case}"):
            continue
        q = bench.random(tokens, heads.queries, heads.dim)
        pool, requests = paged(bench, heads, [tokens], [tokens])
        plan = plan_attention(requests, ScoreRule(heads.scale), pool, decodes=0)
        seconds = bench.seconds(partial(attention, q, pool, plan))
        flops = 2 * tokens * tokens * heads.queries * heads.dim  # half of the square, two products
        peers = {
            "flash": attempt(partial(_sdpa_prefill, bench, heads, q, _FUSED[:1])),
            "cudnn": attempt(partial(_sdpa_prefill, bench, heads, q, _FUSED[1:])),
        }
        yield Row("prefill", case, seconds, flops / rates.flops, "matrix rate", peers, {"tokens": tokens})


def paged(bench: Bench, heads: Heads, lengths: list[int], new: list[int]) -> tuple[KvPool, Requests]:
    """Contexts of ``lengths`` whose last tokens, ``new`` of each, are the batch's; blocks lie in no order."""
    counts = [-(-length // BLOCK) for length in lengths]
    order = torch.randperm(sum(counts), device=bench.device, dtype=torch.int32)
    tables = torch.zeros(len(lengths), max(counts), dtype=torch.int32, device=bench.device)
    for row, blocks in enumerate(order.split(counts)):
        tables[row, : len(blocks)] = blocks
    begins = torch.tensor([0, *new], device=bench.device).cumsum(0).to(torch.int32)
    values = torch.empty((sum(counts), BLOCK, 2, heads.kv, heads.dim), dtype=bench.dtype, device=bench.device).normal_()
    return KvPool(values), Requests(begins, torch.tensor(lengths, dtype=torch.int32, device=bench.device), tables)


def _dense(bench: Bench, heads: Heads, batch: int, context: int) -> tuple[Tensor, Tensor]:
    shape = (2, batch, heads.kv, context, heads.dim)
    keys, values = torch.empty(shape, dtype=bench.dtype, device=bench.device).normal_()
    return keys, values


@contextmanager
def _backends(bench: Bench, wanted: tuple[SDPBackend, ...]) -> Iterator[None]:
    if bench.dry:  # the CPU has its own
        yield
        return
    with sdpa_kernel(list(wanted)):
        yield


def _sdpa_decode(bench: Bench, heads: Heads, q: Tensor, context: int) -> float:
    keys, values = _dense(bench, heads, len(q), context)
    queries = q.unsqueeze(2)
    run = partial(scaled_dot_product_attention, queries, keys, values, scale=heads.scale, enable_gqa=True)
    with _backends(bench, _FUSED):
        return bench.seconds(run, cold=True)


def _sdpa_prefill(bench: Bench, heads: Heads, q: Tensor, wanted: tuple[SDPBackend, ...]) -> float:
    keys, values = _dense(bench, heads, 1, len(q))
    queries = q.transpose(0, 1).unsqueeze(0).contiguous()
    more = {"is_causal": True, "scale": heads.scale, "enable_gqa": True}
    with _backends(bench, wanted):
        return bench.seconds(partial(scaled_dot_product_attention, queries, keys, values, **more))


def _flash_decode(bench: Bench, heads: Heads, q: Tensor, context: int) -> float:
    from flash_attn import flash_attn_with_kvcache

    keys, values = (part.transpose(1, 2).contiguous() for part in _dense(bench, heads, len(q), context))
    queries = q.unsqueeze(1)
    return bench.seconds(partial(flash_attn_with_kvcache, queries, keys, values, softmax_scale=heads.scale), cold=True)


def _flashinfer_decode(bench: Bench, heads: Heads, q: Tensor, pool: KvPool, requests: Requests) -> float:
    """Over the very same blocks, whose K and V FlashInfer takes as two tensors."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    workspace = torch.empty(128 << 20, dtype=torch.uint8, device=bench.device)
    wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
    counts = (requests.lengths + BLOCK - 1) // BLOCK
    starts = torch.cat((counts.new_zeros(1), counts.cumsum(0))).to(torch.int32)
    indices = torch.cat([table[:count] for table, count in zip(requests.tables, counts.tolist(), strict=True)])
    last = (requests.lengths - 1) % BLOCK + 1
    wrapper.plan(starts, indices, last, heads.queries, heads.kv, heads.dim, BLOCK, q_data_type=q.dtype)
    keys, values = (pool.values[:, :, part].contiguous() for part in (0, 1))
    return bench.seconds(partial(wrapper.run, q, (keys, values)), cold=True)
