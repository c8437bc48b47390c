"""The process of a rank beside the engine's own: does what rank 0 does, with its part of the model.

    python -m gpuruntime.parallel.rank FD        started by ``parallel.ranks``; FD is a socket to rank 0

It waits for rank 0 in a read and not in a collective, which would give up on an idle engine. The read ends with rank 0,
and so does the process, also in the middle of a step.
"""

from __future__ import annotations

import logging
import os
import sys
from multiprocessing.connection import Connection

import torch

from gpuruntime.engine.executor import Executor
from gpuruntime.engine.loader import return_free_memory
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.parallel.message import Call, Join, Kind, Load, Loaded, Refused, Started, unpack
from gpuruntime.parallel.process_group import ProcessGroup
from gpuruntime.parallel.shard import Shard
from gpuruntime.process import leave_the_end_to_parent

log = logging.getLogger("gpuruntime.parallel")


def rank_device(shard: Shard, *, on_gpus: bool) -> torch.device:
    """Which this process computes on from now on. Raises ``ValueError`` where there are fewer GPUs than ranks."""
    if not on_gpus:
        return torch.device("cpu")
    if torch.cuda.device_count() < shard.size:
        raise ValueError(f"tensor_parallel {shard.size}: this process sees {torch.cuda.device_count()} GPUs")
    torch.cuda.set_device(shard.rank)
    return torch.device("cuda", shard.rank)


def load_part(load: Load, group: ProcessGroup) -> Executor:
    """This rank's part of the model. Raises ``ValueError`` for files or settings."""
    if load.config.backend == "triton":
        from gpuruntime.engine.triton_executor import TritonExecutor

        return TritonExecutor(load.config, load.model, load.max_len, group)
    return TorchExecutor(load.config, load.model, load.max_len, group)


def main(argv: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s: %(message)s")
    leave_the_end_to_parent()
    rank0 = Connection(int(argv[1]))
    try:
        rank0.send(Started())
        join: Join = rank0.recv()
        group = ProcessGroup(join.shard, join.meeting, rank_device(join.shard, on_gpus=join.on_gpus))
        return _serve(rank0, group)
    except (EOFError, ConnectionError):
        return 0
    except Exception:
        log.exception("rank in process %d failed", os.getpid())
        return 1


def _serve(rank0: Connection, group: ProcessGroup) -> int:
    """Runs until rank 0 leaves."""
    executor: Executor | None = None
    while True:
        message: Load | bytes = rank0.recv()
        if isinstance(message, bytes):
            if executor is not None:
                _run(executor, unpack(message))
            continue
        executor = None  # one model at a time
        try:
            executor = load_part(message, group)
        except Exception as error:
            rank0.send(Refused(f"{type(error).__name__}: {error}"))
            return 1
        return_free_memory()
        rank0.send(Loaded(executor.num_blocks, executor.weights_bytes))


def _run(executor: Executor, call: Call) -> None:
    executor.set_threads(call.threads)
    if call.kind == Kind.LOGITS:
        executor.logits(call.batch)
    elif call.kind == Kind.STATES:
        executor.states(call.batch)
    else:
        executor.launch(call.batch, call.draws)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
