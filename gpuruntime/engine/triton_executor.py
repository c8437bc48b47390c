"""Every family on the Triton kernels: on a GPU, or in Triton's interpreter, which proves them on a CPU.

A launch reads the picks of the one before where the device left them, so that the host need not know a token to ask
for the next one. Steps of decodes alone are captured as graphs at the start (``engine.graphs``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gpuruntime.engine.config import BLOCK_TOKENS, EngineConfig
from gpuruntime.engine.executor import Draws, StepBatch
from gpuruntime.engine.graphs import CudaCapture, DecodeGraphs, eagerly
from gpuruntime.engine.step_tensors import StepTensors, arrange, to_device
from gpuruntime.engine.torch_executor import layer_views
from gpuruntime.engine.triton_attention import TritonAttention
from gpuruntime.kernels.gpu.backend import TritonBackend, Weights
from gpuruntime.kernels.gpu.kv_write import LIMITS, KvPool
from gpuruntime.kernels.gpu.sampling import NOT_FINITE, sample
from gpuruntime.kernels.rates import CudaProbe, Probe, TorchProbe
from gpuruntime.loading.weights import WeightSource
from gpuruntime.models.batch import ForwardBatch
from gpuruntime.models.config import ModelConfig
from gpuruntime.models.layers import Build
from gpuruntime.models.registry import build_model
from gpuruntime.parallel.group import Alone, Group
from gpuruntime.parallel.shard import rank_config

_WEIGHTS: dict[str, Weights] = {"bf16": "plain", "fp32": "plain", "int8": "int8", "fp8": "fp8"}
_KV_DTYPES = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}
_SCALE_BYTES = 4
# Tokens of steps for which Triton compiles apart: few and many of a request, multiples of 16 and others, and each width
# of the products with quantized weights.
_WARM_UP = (3, 17, 32, 40, 64)
# Of the device's memory: what the allocator cannot hand out for its pieces' sizes, and the driver's own for graphs.
_SPARE = 0.04


class TritonExecutor:
    """Implements ``engine.executor.Executor``. ``max_len``: the longest context in tokens.

    In a ``group`` it is one rank of the model, with its part of the weights and of ``kv_bytes``; every rank has to be
    called with the same batches. source: of the weights; None: ``config.model_path``. Raises ``ValueError`` where not
    even one KV block fits.
    """

    runs_ahead = draws = True

    def __init__(
        self,
        config: EngineConfig,
        model_config: ModelConfig,
        max_len: int,
        group: Group | None = None,
        *,
        source: WeightSource | None = None,
    ) -> None:
        group = group or Alone()
        self._config, self._max_len = config, max_len
        self._own = rank_config(model_config, group.shard.size)
        self._device = serving_device()
        on_gpu = self._device.type == "cuda"
        # The interpreter cannot compute in bf16.
        self._dtype = torch.bfloat16 if on_gpu and config.dtype != "fp32" else torch.float32
        backend = TritonBackend(self._dtype, self._device, _WEIGHTS[config.dtype])
        source = source or WeightSource(config.model_path, self._dtype, self._device)
        self._model = build_model(Build(model_config, source, backend, group))
        self.weights_bytes = self._model.nbytes
        self._last = torch.zeros(
            max(config.max_num_batched_tokens, config.max_num_seqs), dtype=torch.int64, device=self._device
        )
        kv_bytes = config.kv_bytes // group.shard.size or self._free_bytes()
        block_bytes = BLOCK_TOKENS * self._token_bytes()
        self.num_blocks = kv_bytes // block_bytes
        if self.num_blocks < 1:
            raise ValueError(f"kv_bytes {kv_bytes}: one block of {BLOCK_TOKENS} tokens takes {block_bytes}")
        self._attention = self._make_attention(self.num_blocks)
        if on_gpu:
            self._warm_up()
        # A router's choice is read on the host, which a graph cannot.
        self._graphs = None if model_config.experts is not None else self._make_graphs()

    @property
    def name(self) -> str:
        on_gpu = self._device.type == "cuda"
        return f"Triton ({torch.cuda.get_device_name() if on_gpu else 'interpreter'})"

    def probe(self) -> Probe:
        if self._device.type == "cuda":
            return CudaProbe(self._dtype)
        return TorchProbe(self._dtype, self._config.resolved_threads)

    @staticmethod
    def set_threads(count: int) -> None:
        torch.set_num_threads(count)

    def logits(self, batch: StepBatch) -> Tensor:
        with torch.inference_mode():
            return self._logits(to_device(arrange(batch, None), self._device)).cpu()

    def states(self, batch: StepBatch) -> Tensor:
        with torch.inference_mode():
            return self._model.states(self._forward_batch(to_device(arrange(batch, None), self._device))).float().cpu()

    def launch(self, batch: StepBatch, draws: Draws | None = None) -> DevicePicks:
        step = arrange(batch, draws)
        with torch.inference_mode():
            if self._graphs is not None and self._graphs.covers(step):
                picks = self._graphs.run(step)
            else:
                picks = self._picks(to_device(step, self._device))
            self._last[: len(picks)] = picks
            return DevicePicks.of(picks)

    def _picks(self, step: StepTensors) -> Tensor:
        logits = self._logits(step)
        return sample(logits, step.parameters)

    def _logits(self, step: StepTensors) -> Tensor:
        return self._model.forward(self._forward_batch(step))

    def _forward_batch(self, step: StepTensors) -> ForwardBatch:
        ids = step.token_ids.long()
        earlier = self._last.index_select(0, (-1 - ids).clamp_(0, len(self._last) - 1))
        # A step whose logits were not finite has no pick; the one behind it computes nothing that anybody keeps.
        tokens = torch.where(ids < 0, earlier, ids).clamp_min_(0)
        attention = self._attention.step(step.positions, step.slots, step.requests, step.decodes)
        return ForwardBatch(tokens, step.sample_rows, attention)

    def _pool_dtype(self) -> torch.dtype:
        return _KV_DTYPES.get(self._config.kv_dtype, self._dtype)

    def _token_bytes(self) -> int:
        dtype = self._pool_dtype()
        return self._own.kv_bytes_per_token(dtype.itemsize, _SCALE_BYTES if dtype in LIMITS else 0)

    def _make_attention(self, num_blocks: int) -> TritonAttention:
        model, dtype = self._own, self._pool_dtype()
        shape = (num_blocks, BLOCK_TOKENS, 2, model.num_kv_heads, model.head_dim)
        pools = [
            KvPool(
                torch.zeros(shape, dtype=dtype, device=self._device),
                torch.zeros(shape[:-1], device=self._device) if dtype in LIMITS else None,
            )
            for _ in range(model.num_layers)
        ]
        return TritonAttention(model, layer_views(self._config, model), pools, self._max_len)

    def _make_graphs(self) -> DecodeGraphs:
        with torch.inference_mode():
            return DecodeGraphs(
                self._picks,
                CudaCapture() if self._device.type == "cuda" else eagerly,
                largest=self._config.max_num_seqs,
                width=-(-self._max_len // BLOCK_TOKENS),
                device=self._device,
            )

    def _free_bytes(self) -> int:
        """What a GPU has left for K and V; of a MIG slice or under an MPS limit the driver tells the slice's own.

        The largest step runs once over one block, and its activations are left free twice: for steps with prompts,
        and for the graphs, whose memory stays theirs.
        """
        if self._device.type != "cuda":
            return 0
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        self._attention = self._make_attention(1)
        self._warm_up()
        peak = torch.cuda.max_memory_allocated() - before
        del self._attention
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        return max(0, free - 2 * peak - int(_SPARE * total))

    def _warm_up(self) -> None:
        """Steps of several sizes, the largest too, over block 0 alone: kernels are compiled before a request waits."""
        largest = self._config.max_num_batched_tokens
        with torch.inference_mode():
            for tokens in (*(size for size in _WARM_UP if size < largest), largest):
                self._picks(to_device(arrange(self._idle_step(tokens), None), self._device))
        torch.cuda.synchronize()

    def _idle_step(self, tokens: int) -> StepBatch:
        """As few prompts as hold ``tokens``, all of them over block 0."""
        begins = np.append(np.arange(0, tokens, self._max_len), tokens).astype(np.int32)
        rows, width = len(begins) - 1, -(-min(tokens, self._max_len) // BLOCK_TOKENS)
        return StepBatch(
            token_ids=np.zeros(tokens, dtype=np.int32),
            begins=begins,
            positions=np.zeros(rows, dtype=np.int32),
            tables=np.zeros((rows, width), dtype=np.int32),
            logits_rows=np.arange(min(tokens, self._config.max_num_seqs), dtype=np.int32),
        )


@dataclass(frozen=True, slots=True)
class DevicePicks:
    """Implements ``engine.executor.Picks``. found: int64 ``[R]`` on the host once ``ready`` has come."""

    found: Tensor
    ready: torch.cuda.Event | None

    @classmethod
    def of(cls, picks: Tensor) -> DevicePicks:
        if not picks.is_cuda:
            return cls(picks.clone(), None)
        found = torch.empty(picks.shape, dtype=picks.dtype, pin_memory=True)
        found.copy_(picks, non_blocking=True)
        ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
        ready.record()
        return cls(found, ready)

    def tokens(self) -> list[int]:
        if self.ready is not None:
            self.ready.synchronize()
        tokens: list[int] = self.found.tolist()
        if NOT_FINITE in tokens:
            raise FloatingPointError("the model produced logits that are not finite")
        return tokens


def serving_device() -> torch.device:
    """The process's GPU, which may be a slice of one; without one the CPU, where only the interpreter runs."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
