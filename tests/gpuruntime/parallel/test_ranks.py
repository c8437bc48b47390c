"""Several processes run a model as one does; when one of them ends, the engine says which."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from gpuruntime.backend import EngineFailed, SamplingParams
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.llm import LLM
from gpuruntime.models.config import load_model_config
from gpuruntime.parallel.executor import ShardedExecutor
from gpuruntime.parallel.message import Load
from gpuruntime.parallel.process_group import ProcessGroup
from gpuruntime.parallel.ranks import RankLost, Ranks
from gpuruntime.parallel.shard import Shard
from gpuruntime.process import is_process, process_start_time
from helpers.engine import Engine, greedy, make_engine, save_byte_model
from helpers.families import chunked_logits, error, one_row, reference_logits, save_random_model
from helpers.patience import eventually, soon

PROMPT = [1, *[(7 * i * i + 3 * i + 5) % 200 + 3 for i in range(52)]]
BLOCKS = [9, 2, 7, 4]
HEADS = {"num_attention_heads": 8, "num_key_value_heads": 2}
FAMILIES = [
    ("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    ("qwen2", {}),
    ("qwen3", {"tie_word_embeddings": True, "vocab_size": 210}),
    (
        "gemma3",
        {"num_hidden_layers": 3, "layer_types": ["sliding_attention"] * 2 + ["full_attention"], "sliding_window": 20},
    ),
    ("qwen3_moe", {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}),
]
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def groups() -> Iterator[dict[int, Ranks]]:
    """Two ranks and four, whose last ones share a K and V head: one start for every model of this module."""
    made = {size: Ranks(size) for size in (2, 4)}
    yield made
    for ranks in made.values():
        ranks.close()


def settings(path: Path, **changes: Any) -> EngineConfig:
    config = EngineConfig(path, **{"dtype": "fp32", "kv_bytes": 1 << 20, **changes})
    config.validate()
    return config


def alone(path: Path, **changes: Any) -> TorchExecutor:
    return TorchExecutor(settings(path, **changes), load_model_config(path), 512)


def shared(path: Path, ranks: Ranks | None = None, size: int = 2, **changes: Any) -> ShardedExecutor:
    return ShardedExecutor(settings(path, tensor_parallel=size, **changes), load_model_config(path), 512, ranks)


def answers(path: Path, executor: Any) -> dict[int, list[int]]:
    """What an engine of few blocks makes of prompts that share a beginning, greedy and sampled."""
    engine: Engine = make_engine(path, blocks=10, max_tokens=40, executor=executor)
    for prompt, count in ((PROMPT[:50], 40), (PROMPT[20:43], 30), (PROMPT[:50], 25)):
        engine.add(prompt, greedy(count))
    engine.add(PROMPT[10:43], SamplingParams(30, seed=7))
    engine.drain()
    assert engine.core.stats().preemptions_total > 0
    return engine.texts


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(("family", "changes"), FAMILIES)
def test_ranks_compute_what_one_process_computes(
    tmp_path: Path, groups: dict[int, Ranks], family: str, changes: dict[str, Any], size: int
) -> None:
    reference = save_random_model(tmp_path, family, **HEADS, **changes)
    one, several = alone(tmp_path), shared(tmp_path, groups[size], size)
    found = chunked_logits(several, PROMPT, [20, 1, 32], BLOCKS)
    assert error(found, chunked_logits(one, PROMPT, [53], BLOCKS)) < TOLERANCE
    assert error(found, reference_logits(reference, PROMPT)) < TOLERANCE
    batch = one_row(PROMPT, 0, 53, BLOCKS)
    assert error(several.states(batch), one.states(batch)) < TOLERANCE
    # With fewer K and V heads than ranks each is held twice, so that half as many blocks fit.
    assert several.num_blocks == one.num_blocks * 2 // size
    assert answers(tmp_path, several) == answers(tmp_path, one)


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "bf16"},
        {"dtype": "int8", "kv_dtype": "int8"},
        {"dtype": "bf16", "attention_sinks": 4, "attention_window": 24},
    ],
)
def test_rounded_weights_and_kv_stay_as_close_as_in_one_process(
    tmp_path: Path, groups: dict[int, Ranks], changes: dict[str, Any]
) -> None:
    save_random_model(tmp_path, "llama", **HEADS, initializer_range=0.08)
    sinks = {name: value for name, value in changes.items() if name.startswith("attention")}
    exact = chunked_logits(alone(tmp_path, **sinks), PROMPT, [53], BLOCKS).softmax(-1)

    def divergence(executor: Any) -> float:
        found = chunked_logits(executor, PROMPT, [20, 33], BLOCKS).log_softmax(-1)
        return float(torch.nn.functional.kl_div(found, exact, reduction="batchmean"))

    several = divergence(shared(tmp_path, groups[2], **changes))
    assert several < max(1e-4, 2 * divergence(alone(tmp_path, **changes)))


def test_threads_are_shared_and_what_cannot_be_dealt_out_starts_no_process(tmp_path: Path) -> None:
    save_random_model(tmp_path, "llama")
    with pytest.raises(ValueError, match=r"tensor_parallel 4: num_attention_heads 6 is no multiple of it$"):
        shared(tmp_path, size=4)
    with pytest.raises(ValueError, match="tensor_parallel 0: must be at least 1"):
        settings(tmp_path, tensor_parallel=0)
    with pytest.raises(ValueError, match='tensor_parallel 2: speculation "draft" runs on one rank only'):
        settings(tmp_path, tensor_parallel=2, speculation="draft", draft_model_path=tmp_path)


def test_more_ranks_than_gpus_start_no_process() -> None:
    seen = torch.cuda.device_count()
    with pytest.raises(ValueError, match=rf"tensor_parallel {seen + 2}: this process sees {seen} GPUs"):
        Ranks(seen + 2, on_gpus=True)


def test_a_rank_that_cannot_load_says_why_and_ends(tmp_path: Path) -> None:
    save_random_model(tmp_path, "llama", **HEADS)
    ranks = Ranks(2)
    ranks.tell(Load(settings(tmp_path), replace(load_model_config(tmp_path), vocab_size=212), 512))
    with pytest.raises(
        ValueError, match=r"rank 1: ValueError: .* tensor model\.embed_tokens\.weight has shape \[211, 48\]"
    ):
        ranks.loaded()
    eventually(lambda: ranks._members[0].process.poll() == 1)
    ranks.close()


def test_a_rank_that_is_missing_is_named_in_time(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"rank 0 of 2 did not meet the others in 0\.2 s"):
        ProcessGroup(Shard(0, 2), tmp_path / "meeting", torch.device("cpu"), timeout_s=0.2)


def test_a_rank_that_hangs_is_given_up(tmp_path: Path) -> None:
    def join(rank: int) -> ProcessGroup:
        return ProcessGroup(Shard(rank, 2), tmp_path / "meeting", torch.device("cpu"), timeout_s=2)

    with ThreadPoolExecutor() as threads:
        busy, _hanging = threads.map(join, range(2))
    with pytest.raises(RuntimeError, match=r"[Tt]imed out"):
        busy.sum(torch.ones(3))


@pytest.mark.parametrize("idle", [True, False])
def test_a_killed_rank_ends_the_step_and_is_named(tmp_path: Path, idle: bool) -> None:
    save_random_model(tmp_path, "llama", **HEADS)
    executor = shared(tmp_path)
    batch = one_row(PROMPT, 0, 53, BLOCKS)
    executor.launch(batch)
    executor.check()
    pid = executor._ranks._members[0].process.pid
    for sent_to_the_whole_group in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, sent_to_the_whole_group)
    executor.launch(batch)
    executor.check()
    named = rf"rank 1 \(pid {pid}\) was ended by SIGKILL"
    if idle:
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RankLost, match=named):
            eventually(executor.check)
    else:
        os.kill(pid, signal.SIGSTOP)  # so that rank 0 waits for it in the middle of the step
        threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(RankLost, match=named):
        executor.launch(batch)
    with pytest.raises(RankLost):
        executor.logits(batch)


def test_a_model_on_ranks_gives_the_same_text_and_leaves_no_process(tmp_path: Path) -> None:
    save_byte_model(tmp_path, **HEADS)
    params, before = SamplingParams(12, temperature=0), psutil.Process().children()
    texts = []
    for size in (1, 2):
        with LLM(tmp_path, dtype="fp32", tensor_parallel=size, speculation="ngram") as llm:
            texts.append([output.token_ids for output in llm.generate(["the sky is", "the sea"], params)])
            assert len(psutil.Process().children()) == len(before) + size - 1
        assert psutil.Process().children() == before
    assert texts[0] == texts[1]


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
async def test_a_killed_rank_fails_the_engine(tmp_path: Path, process: bool) -> None:
    save_byte_model(tmp_path, **HEADS)
    before = psutil.Process().children(recursive=True)
    backend = NativeBackend(settings(tmp_path, tensor_parallel=2, max_num_seqs=4, engine_process=process))
    await backend.start()
    prompt = await backend.prepare([{"role": "user", "content": "a question"}], b"")
    deltas = [
        delta async for delta in backend.generate("one", prompt, SamplingParams(5, temperature=0, ignore_eos=True))
    ]
    assert sum(len(delta.token_ids) for delta in deltas) == 5
    started = [child for child in psutil.Process().children(recursive=True) if child not in before]
    rank = next(child.pid for child in started if "gpuruntime.parallel.rank" in child.cmdline())
    os.kill(rank, signal.SIGKILL)
    await soon(lambda: not backend.alive(), "the engine notices while it is idle")
    with pytest.raises(EngineFailed, match=rf"rank 1 \(pid {rank}\) was ended by SIGKILL"):
        backend.generate("two", prompt, SamplingParams(5))
    await backend.stop()


ORPHANS = """
import sys, time
from gpuruntime.parallel.ranks import Ranks
ranks = Ranks(2)
print(ranks._members[0].process.pid, flush=True)
time.sleep(600)
"""


def test_the_ranks_end_with_rank_0() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE) as rank0:
        assert rank0.stdout is not None
        pid = int(rank0.stdout.readline())
        began = process_start_time(pid)
        assert began is not None
        rank0.kill()
    eventually(lambda: not is_process(pid, began), "the other rank ends")
