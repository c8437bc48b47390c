"""KL to fp32 a token, over a text: ``python -m benchmarks.common.divergence DTYPE MODEL TEXT``.

Both sides are teacher-forced over the same tokens, the reference in PyTorch at fp32. Prints
``{"tokens": n, "kl": mean KL(fp32 || DTYPE) in nats}``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.common.executor import Loaded, load_executor, make_step, own_blocks

WINDOW = 512
CHUNK = 128
MOST_TOKENS = 2048


def main(dtype: str, model: str, text: str) -> None:
    from gpuruntime.loading.tokenizer import ChatTokenizer

    tokens = ChatTokenizer(Path(model)).tokenizer.encode(Path(text).read_text("utf-8")).ids[:MOST_TOKENS]
    sides = [load_executor(Path(model), each, kv_tokens=WINDOW + 16, max_model_len=1024) for each in ("fp32", dtype)]
    total, count = 0.0, 0
    for start in range(0, len(tokens), WINDOW):
        window = tokens[start : start + WINDOW]
        for exact, other in zip(_logits(sides[0], window), _logits(sides[1], window), strict=True):
            total += _kl(exact, other)
            count += len(exact)
    print(json.dumps({"tokens": count, "kl": total / count}))


def _logits(side: Loaded, tokens: list[int]) -> Iterator[Tensor]:
    """The logits after each token, a chunk at a time."""
    table = own_blocks(0, WINDOW)
    for start in range(0, len(tokens), CHUNK):
        chunk = tokens[start : start + CHUNK]
        step = make_step([(chunk, start, table)], list(range(len(chunk))))
        yield side.executor.logits(step).clone()


def _kl(exact: Tensor, other: Tensor) -> float:
    """KL(exact || other) summed over the rows, in float64."""
    p, q = (torch.log_softmax(logits.double(), dim=-1) for logits in (exact, other))
    return float((p.exp() * (p - q)).sum())


if __name__ == "__main__":
    main(*sys.argv[1:4])
