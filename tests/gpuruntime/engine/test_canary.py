"""64 requests of many tenants at once: every one gets its own text and nobody else's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gpuruntime.backend import Delta, Prompt, SamplingParams
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig
from gpuruntime.llm import LLM, Output
from helpers.engine import save_byte_model

COUNT, LENGTH = 64, 12


def request(index: int) -> tuple[tuple[int, ...], SamplingParams]:
    """Common beginnings of several lengths, then the request's own secret; every other one is sampled."""
    beginning = [(7 * i) % 200 for i in range(index % 5 * 16)]
    secret = [(index * 31 + 17 * i) % 256 for i in range(6)]
    temperature = 0.9 if index % 2 else 0.0
    params = SamplingParams(LENGTH, temperature=temperature, seed=index, ignore_eos=True, logprobs=0)
    return (*beginning, *secret), params


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_byte_model(tmp_path_factory.mktemp("canary"))


@pytest.fixture(scope="module")
def alone(model_dir: Path) -> list[Output]:
    """Each text, run by itself through the offline API."""
    with LLM(model_dir, dtype="fp32", threads=1, prefix_cache=False) as llm:
        outputs = [llm.generate([list(ids)], params)[0] for ids, params in map(request, range(COUNT))]
    assert len({tuple(output.token_ids) for output in outputs}) == COUNT
    return outputs


@pytest.mark.parametrize(("kv_bytes", "preempts"), [(2 << 20, False), (1 << 18, True)])
async def test_no_text_crosses(model_dir: Path, alone: list[Output], kv_bytes: int, preempts: bool) -> None:
    requests = [request(index) for index in range(COUNT)]
    settings = {"kv_bytes": kv_bytes, "max_num_seqs": 64, "max_num_batched_tokens": 128}
    backend = NativeBackend(EngineConfig(model_dir, dtype="fp32", threads=1, speculation="ngram", **settings))
    await backend.start()

    async def ask(index: int) -> list[Delta]:
        ids, params = requests[index]
        prompt = Prompt((), ids, b"tenant %d" % (index % 3))
        return [delta async for delta in backend.generate(f"r{index}", prompt, params)]

    try:
        for _ in range(2):  # the second time from the cache
            answers = await asyncio.gather(*(ask(index) for index in range(COUNT)))
            for deltas, output in zip(answers, alone, strict=True):
                assert [token for delta in deltas for token in delta.token_ids] == output.token_ids
                assert "".join(delta.text for delta in deltas) == output.text
                assert [one.token for delta in deltas for one in delta.logprobs] == output.token_ids
        assert (backend.stats().preemptions_total > 0) == preempts
        backend.audit()
    finally:
        await backend.stop()
