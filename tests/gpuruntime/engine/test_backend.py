"""The engine behind its interface: streams on an event loop, aborts, refusals, crashes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from gpuruntime.backend import BadPrompt, Delta, EngineFailed, Prompt, SamplingParams
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.core import EngineCore
from helpers.engine import save_random_llama
from helpers.model import REPOSITORY, smollm2_dir, smollm2_gguf  # noqa: F401 - fixtures
from helpers.patience import soon

CONTEXT = 128
COLD_START = """
import asyncio, sys
from pathlib import Path
from gpuruntime.backend import SamplingParams
from gpuruntime.engine.backend import NativeBackend
from gpuruntime.engine.config import EngineConfig
assert "torch" not in sys.modules

async def main():
    backend = NativeBackend(EngineConfig(Path(sys.argv[1])))
    info = await backend.start()
    prompt = await backend.prepare([{"role": "user", "content": "What is the capital of France?"}], b"")
    text = ""
    async for delta in backend.generate("a", prompt, SamplingParams(max_tokens=20, temperature=0)):
        text += delta.text
    await backend.stop()
    assert "transformers" not in sys.modules
    print(text)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model over a byte tokenizer: texts are noise, tokens map to bytes."""
    target = tmp_path_factory.mktemp("bytes")
    save_random_llama(target, vocab_size=258, max_position_embeddings=CONTEXT, eos_token_id=257, pad_token_id=256)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|start|>", "<|end|>"])
    tokenizer.save(str(target / "tokenizer.json"))
    (target / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    (target / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    (target / "generation_config.json").write_text('{"temperature": 0.2, "top_p": 0.9, "eos_token_id": 257}')
    return target


@asynccontextmanager
async def running(model_dir: Path, **settings: Any) -> AsyncIterator[NativeBackend]:
    backend = NativeBackend(EngineConfig(model_dir, dtype="fp32", kv_bytes=1 << 20, threads=1, **settings))
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()


def params(count: int, **changes: Any) -> SamplingParams:
    return SamplingParams(**{"max_tokens": count, "temperature": 0.0, "ignore_eos": True, **changes})


async def ask(backend: NativeBackend, text: str, sampling: SamplingParams) -> list[Delta]:
    prompt = await backend.prepare([{"role": "user", "content": text}], b"")
    return [delta async for delta in backend.generate("r", prompt, sampling)]


async def settled(backend: NativeBackend) -> None:
    """Waits until the engine holds nothing."""

    def idle() -> bool:
        stats = backend.stats()
        held = (stats.kv_blocks_total or 0) - (stats.kv_blocks_free or 0) - (stats.kv_blocks_cached or 0)
        return (stats.running, stats.waiting, held) == (0, 0, 0)

    await soon(idle)


async def test_a_stream_counts_its_tokens_and_ends_with_timings(model_dir: Path) -> None:
    async with running(model_dir) as backend:
        deltas = await ask(backend, "hello", params(12))
        assert [delta.completion_tokens for delta in deltas] == list(range(1, 13))
        assert all(delta.new_tokens == 1 and delta.prompt_tokens == 5 for delta in deltas)
        assert [delta.finish_reason for delta in deltas] == [None] * 11 + ["length"]
        timings = deltas[-1].timings
        assert timings is not None
        assert (timings.preemptions, timings.cached_tokens, timings.new_prompt_tokens) == (0, 0, 5)
        assert all((value or 0) >= 0 for value in (timings.queue_ms, timings.prefill_ms, timings.decode_ms))
        assert all(delta.timings is None for delta in deltas[:-1])
        backend.audit()


async def test_info_and_the_models_own_sampling(model_dir: Path) -> None:
    backend = NativeBackend(EngineConfig(model_dir, dtype="fp32", kv_bytes=1 << 20, model_name="m"))
    info = await backend.start()
    await backend.stop()
    assert (info.model, info.max_model_len, info.dtype, info.eos_token_ids) == ("m", CONTEXT, "fp32", (257,))
    token_bytes = 2 * 2 * 2 * 16 * 4
    assert info.kv_capacity_tokens == (1 << 20) // (token_bytes * 16) * 16
    assert backend.default_sampling() == {"temperature": 0.2, "top_p": 0.9}
    assert not backend.alive()


async def test_many_at_once_get_what_they_get_alone(model_dir: Path) -> None:
    async with running(model_dir, max_num_seqs=8, max_num_batched_tokens=32) as backend:
        texts = [f"prompt number {index} " * (index % 4 + 1) for index in range(12)]
        wanted = [params(20) if index % 2 else params(20, temperature=0.9, seed=index) for index in range(12)]
        alone = [await ask(backend, text, one) for text, one in zip(texts, wanted, strict=True)]
        together = await asyncio.gather(*(ask(backend, text, one) for text, one in zip(texts, wanted, strict=True)))
        assert ["".join(d.text for d in deltas) for deltas in together] == [
            "".join(d.text for d in deltas) for deltas in alone
        ]
        await settled(backend)
        backend.audit()


async def test_a_stop_string_ends_the_text_before_it(model_dir: Path) -> None:
    async with running(model_dir) as backend:
        plain = await ask(backend, "some text", params(60))
        text = "".join(delta.text for delta in plain)
        stop = text[len(text) // 2 : len(text) // 2 + 3]
        deltas = await ask(backend, "some text", params(60, stop=(stop,)))
        assert "".join(delta.text for delta in deltas) == text[: text.index(stop)]
        assert deltas[-1].finish_reason == "stop"
        assert deltas[-1].timings is not None
        shown = [delta.completion_tokens for delta in deltas]
        assert shown == sorted(shown)
        assert shown[-1] == sum(delta.new_tokens for delta in deltas) < 60
        await settled(backend)


@pytest.mark.parametrize("after", [0, 1, 5])
async def test_closing_the_iterator_frees_everything(model_dir: Path, after: int) -> None:
    async with running(model_dir) as backend:
        prompt = await backend.prepare([{"role": "user", "content": "x" * 50}], b"")
        stream = backend.generate("r", prompt, params(70))
        for _ in range(after):
            await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        await settled(backend)
        assert backend.stats().completion_tokens_total < 70
        backend.audit()


@pytest.mark.parametrize("after", [1, 5])
async def test_an_abort_ends_the_stream_with_its_timings(model_dir: Path, after: int) -> None:
    async with running(model_dir) as backend:
        prompt = await backend.prepare([{"role": "user", "content": "x" * 50}], b"")
        stream = backend.generate("r", prompt, params(70))
        assert not backend.abort("another")
        deltas = [await anext(stream) for _ in range(after)]
        assert backend.abort("r")
        deltas += [delta async for delta in stream]
        assert deltas[-1].finish_reason == "abort"
        assert deltas[-1].completion_tokens == sum(delta.new_tokens for delta in deltas) < 70
        timings = deltas[-1].timings
        assert timings is not None
        assert (timings.cached_tokens, timings.new_prompt_tokens, timings.preemptions) == (0, 50, 0)
        assert (timings.prefill_ms or 0) > 0
        assert not backend.abort("r")
        await settled(backend)
        backend.audit()


async def test_an_id_used_twice_aborts_nobody(model_dir: Path) -> None:
    async with running(model_dir) as backend:
        prompt = await backend.prepare([{"role": "user", "content": "x"}], b"")
        streams = [backend.generate("same", prompt, params(30)) for _ in range(2)]
        firsts = [await anext(stream) for stream in streams]
        assert not backend.abort("same")
        for stream, first in zip(streams, firsts, strict=True):
            assert [first, *[delta async for delta in stream]][-1].finish_reason == "length"


async def test_a_cancelled_reader_frees_everything(model_dir: Path) -> None:
    async with running(model_dir) as backend:
        readers = [asyncio.create_task(ask(backend, f"{index}" * 20, params(100))) for index in range(6)]
        await asyncio.sleep(0.05)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        await settled(backend)
        backend.audit()


async def test_what_cannot_fit_is_refused_at_once_with_the_numbers(model_dir: Path) -> None:
    async with running(model_dir) as backend:
        with pytest.raises(BadPrompt, match="128 tokens; this model's context is 128") as caught:
            await backend.prepare([{"role": "user", "content": "x" * 128}], b"")
        assert (caught.value.param, caught.value.code) == ("messages", "context_length_exceeded")
        prompt = await backend.prepare([{"role": "user", "content": "x" * 100}], b"")
        with pytest.raises(BadPrompt, match="100 tokens and max_tokens is 29, together 129") as caught:
            backend.generate("r", prompt, params(29))
        assert (caught.value.param, caught.value.code) == ("max_tokens", "context_length_exceeded")
        deltas = [delta async for delta in backend.generate("r", prompt, params(28))]
        assert deltas[-1].completion_tokens == 28


async def test_less_kv_memory_than_the_context_limits_a_request(model_dir: Path) -> None:
    backend = NativeBackend(EngineConfig(model_dir, dtype="fp32", kv_bytes=4 * 16 * 512))
    info = await backend.start()
    try:
        assert info.kv_capacity_tokens == 64
        with pytest.raises(BadPrompt, match="context is 64 tokens"):
            backend.generate("r", Prompt((), tuple(range(60)), b""), params(5))
    finally:
        await backend.stop()


async def test_a_crash_of_the_step_fails_all_requests(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(model_dir) as backend:
        readers = [asyncio.create_task(ask(backend, f"{index}", params(120))) for index in range(3)]
        await asyncio.sleep(0.02)

        def broken(self: EngineCore) -> list:
            raise ArithmeticError("cosmic ray")

        monkeypatch.setattr(EngineCore, "step", broken)
        results = await asyncio.gather(*readers, return_exceptions=True)
        assert all(isinstance(result, EngineFailed) and "cosmic ray" in str(result) for result in results)
        assert not backend.alive()
        with pytest.raises(EngineFailed):
            await ask(backend, "after", params(1))


async def test_stop_fails_what_runs_and_may_be_called_twice(model_dir: Path) -> None:
    async with running(model_dir) as backend:
        reader = asyncio.create_task(ask(backend, "x", params(120)))
        await asyncio.sleep(0.02)
        await backend.stop()
        await backend.stop()
        with pytest.raises(EngineFailed, match="stopped"):
            await reader


async def test_a_model_that_does_not_load_says_why(tmp_path: Path, model_dir: Path) -> None:
    with pytest.raises(ValueError, match=r"no config\.json"):
        await NativeBackend(EngineConfig(tmp_path)).start()
    for name in ("config.json", "tokenizer.json", "chat_template.jinja"):
        (tmp_path / name).write_bytes((model_dir / name).read_bytes())
    backend = NativeBackend(EngineConfig(tmp_path))
    with pytest.raises(ValueError, match=r"no model\.safetensors"):
        await backend.start()
    assert not backend.alive()
    (tmp_path / "model.safetensors").write_bytes((model_dir / "model.safetensors").read_bytes())
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a valid tokenizer"):
        await backend.start()
    assert not backend.alive()


def test_settings_report_every_error_at_once(model_dir: Path) -> None:
    config = EngineConfig(
        model_dir, max_num_seqs=0, kv_bytes=-1, threads=10_000, max_model_len=1, max_num_batched_tokens=-1
    )
    with pytest.raises(ValueError, match="max_num_seqs") as caught:
        config.validate()
    for name in ("kv_bytes -1", "threads 10000", "max_model_len 1", "max_num_batched_tokens -1"):
        assert name in str(caught.value)


async def test_a_context_beyond_the_models_own_is_refused(model_dir: Path) -> None:
    with pytest.raises(ValueError, match="made for 128 tokens"):
        await NativeBackend(EngineConfig(model_dir, max_model_len=129)).start()


async def test_ideal_time_is_reported_once_the_device_was_measured(model_dir: Path, tmp_path: Path) -> None:
    rates = {"flops_per_s": 1e12, "bytes_per_s": 1e10}
    async with running(model_dir, cache_dir=tmp_path) as backend:
        await soon(lambda: any(tmp_path.glob("rates-*.json")))
    stored = next(iter(tmp_path.glob("rates-*.json")))  # noqa: ASYNC240 - a file of a hundred bytes
    assert set(json.loads(stored.read_text())) == set(rates)
    stored.write_text(json.dumps(rates))

    async with running(model_dir, cache_dir=tmp_path) as backend:
        await asyncio.sleep(0.5)
        timings = (await ask(backend, "x" * 40, params(5)))[-1].timings
        assert timings is not None
        assert timings.ideal_s is not None
        # Nothing was wasted, so what ran is what was delivered; contexts of single steps are averaged.
        assert timings.executed_ideal_s == pytest.approx(timings.ideal_s, rel=0.01)
        assert backend.stats().ideal_s_total == pytest.approx(timings.executed_ideal_s)
        again = (await ask(backend, "x" * 40, params(5)))[-1].timings
        assert again is not None
        assert (again.cached_tokens, again.new_prompt_tokens) == (32, 8)
        assert (again.ideal_s or 0) < timings.ideal_s


def test_a_cold_start_answers_without_transformers(smollm2_dir: Path) -> None:  # noqa: F811
    command = [sys.executable, "-c", COLD_START, str(smollm2_dir)]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "The capital of France is Paris."
