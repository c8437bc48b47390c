"""Collectives between processes of one machine: NCCL between GPUs, gloo on the CPU."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

from gpuruntime.parallel.shard import Shard

# A rank that ends breaks its neighbours' calls at once; this bounds the wait for one that hangs.
COLLECTIVE_S = 120.0
_LOOPBACK = "127.0.0.1"


class ProcessGroup:
    """Implements ``parallel.group.Group``; a group of its own, beside whatever the process does with torch.distributed.

    The ranks meet over ``meeting``, a file that does not exist yet in a directory that is private to this user: unlike
    a port, nobody else can reach it. Collectives raise ``RuntimeError`` when a rank has ended or does not answer.
    """

    def __init__(self, shard: Shard, meeting: Path, device: torch.device, *, timeout_s: float = COLLECTIVE_S) -> None:
        """Returns when every rank has come; ``RuntimeError`` when one has not after ``timeout_s``."""
        if not dist.is_available():
            raise RuntimeError("tensor parallel: this build of PyTorch has no torch.distributed")
        self.shard = shard
        timeout = timedelta(seconds=timeout_s)
        store = dist.FileStore(str(meeting), shard.size)
        store.set_timeout(timeout)
        try:
            make = _nccl if device.type == "cuda" else _gloo
            self._group = make(store, shard, timeout)
        except RuntimeError as error:
            raise RuntimeError(
                f"rank {shard.rank} of {shard.size} did not meet the others in {timeout_s:g} s: {error}"
            ) from error

    def sum(self, x: Tensor) -> Tensor:
        self._group.allreduce([x]).wait()
        return x

    def concatenate(self, x: Tensor, columns: int) -> Tensor:
        size = self.shard.size
        parts = [Shard(rank, size).part(columns) for rank in range(size)]
        counts = [part.stop - part.start for part in parts]
        # Collectives take equal parts only.
        own = pad(x, (0, max(counts) - x.shape[1])).contiguous()
        gathered = [torch.empty_like(own) for _ in range(size)]
        self._group.allgather([gathered], [own]).wait()
        return torch.cat([found[:, :count] for found, count in zip(gathered, counts, strict=True)], dim=1)

    def abort(self) -> None:
        """From another thread: ends a collective that waits for a rank which is no more."""
        self._group.abort()


def _gloo(store: dist.Store, shard: Shard, timeout: timedelta) -> Any:
    gloo: Any = dist.ProcessGroupGloo  # its types do not say which options it takes
    options = gloo._Options()
    # By default gloo listens on the address of the machine's name.
    options._devices = [gloo.create_device(hostname=_LOOPBACK)]
    options._timeout = timeout
    return gloo(store, shard.rank, shard.size, options)


def _nccl(store: dist.Store, shard: Shard, timeout: timedelta) -> Any:
    nccl: Any = dist.ProcessGroupNCCL
    options = nccl.Options()
    options._timeout = timeout
    return nccl(store, shard.rank, shard.size, options)
