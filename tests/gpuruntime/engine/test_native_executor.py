"""The C++ step behind the engine: texts under pressure, what it refuses, and what serves in its place."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from gpuruntime.backend import SamplingParams
from gpuruntime.engine import executors
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executors import make_executor
from gpuruntime.engine.native_executor import NativeExecutor
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.kernels.native import library
from gpuruntime.kernels.native.build import NoCompiler
from gpuruntime.models.config import ModelConfig, load_model_config
from helpers.engine import greedy, make_engine
from helpers.families import save_random_model
from helpers.native import Row, change_weights, make_batch, native, save_native_model

PROMPTS = tuple(tuple((i * i * (k + 3) + 11 * k) % 200 + 3 for i in range(5 + 13 * k)) for k in range(6))
SHARED = (*PROMPTS[4][:32], 9, 8, 7)
ALL = (*PROMPTS, SHARED)
LENGTH = 24
NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    save_native_model(path)
    return path


def params(index: int) -> SamplingParams:
    if index % 2:
        return SamplingParams(LENGTH, temperature=0.8, top_p=0.9, seed=index)
    return greedy(LENGTH)


@pytest.mark.parametrize(("dtype", "kv_dtype"), [("bf16", "auto"), ("int8", "auto"), ("int8", "int8")])
def test_texts_do_not_depend_on_company_chunks_cache_or_preemption(model_dir: Path, dtype: str, kv_dtype: str) -> None:
    executor = native(model_dir, dtype=dtype, kv_dtype=kv_dtype)
    alone = []
    for index, prompt in enumerate(ALL):
        engine = make_engine(model_dir, executor=executor, cache=False, max_tokens=512)
        key = engine.add(prompt, params(index))
        engine.drain()
        alone.append(engine.texts[key])
    preempted = cached = 0
    for blocks, max_tokens in ((64, 64), (8, 128), (10, 7)):
        engine = make_engine(model_dir, executor=executor, blocks=blocks, max_seqs=6, max_tokens=max_tokens)
        for order in (range(len(ALL)), reversed(range(len(ALL)))):
            keys = {engine.add(ALL[index], params(index)): index for index in order}
            engine.drain()
            assert {index: engine.texts[key] for key, index in keys.items()} == dict(enumerate(alone))
        preempted += engine.core.stats().preemptions_total
        cached += engine.core.stats().cached_tokens_total
    assert preempted > 0
    assert cached > 0


@pytest.mark.parametrize("value", [NAN, INFINITY, -INFINITY])
@pytest.mark.parametrize(
    "name",
    ["lm_head", "model.norm", "model.embed_tokens"]
    + [f"model.layers.0.{part}" for part in ("input_layernorm", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj")]
    + [f"model.layers.1.self_attn.{part}_proj" for part in "qkv"],
)
@pytest.mark.parametrize("kv_dtype", ["auto", "int8"])
def test_one_weight_that_is_not_finite_is_found(tmp_path: Path, name: str, value: float, kv_dtype: str) -> None:
    """A single element, so that it meets few others on its way to the logits."""
    save_native_model(tmp_path)
    weight = load_file(tmp_path / "model.safetensors")[f"{name}.weight"]
    token = 40
    weight.view(-1)[token * weight.shape[-1] if "embed" in name else 0] = value
    change_weights(tmp_path, **{f"{name}.weight".replace(".", "__"): weight})
    executor = native(tmp_path, kv_dtype=kv_dtype)
    batch = make_batch([Row([5, 6, token], 0, 3, [0])])
    for tiles in (True, False):
        executor.use_amx(tiles)
        with pytest.raises(FloatingPointError, match="not finite"):
            executor.launch(batch).tokens()
        assert not torch.isfinite(executor.logits(batch)).all()


def test_int8_refuses_weights_that_are_not_finite(tmp_path: Path) -> None:
    save_native_model(tmp_path)
    weight = load_file(tmp_path / "model.safetensors")["model.layers.1.mlp.up_proj.weight"]
    weight[3, 4] = NAN
    change_weights(tmp_path, model__layers__1__mlp__up_proj__weight=weight)
    with pytest.raises(ValueError, match="finite"):
        native(tmp_path, dtype="int8")


@pytest.mark.parametrize("kv_dtype", ["auto", "int8"])
def test_int8_finds_what_overflows_on_the_way(tmp_path: Path, kv_dtype: str) -> None:
    """Finite weights whose products are not: K and V, and SwiGLU's output, reach their 8 or 16 bits infinite."""
    for name in ("model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.k_proj", "model.layers.0.mlp.up_proj"):
        save_native_model(tmp_path)
        weight = load_file(tmp_path / "model.safetensors")[f"{name}.weight"]
        weight[0] = 3e38
        weight[0, ::2] = -3e38
        change_weights(tmp_path, **{f"{name}.weight".replace(".", "__"): weight})
        with pytest.raises(FloatingPointError, match="not finite"):
            native(tmp_path, kv_dtype=kv_dtype).launch(make_batch([Row([5, 6, 7], 0, 3, [0])])).tokens()


def test_the_sampler_finds_logits_that_are_not_finite(tmp_path: Path) -> None:
    save_native_model(tmp_path)
    weight = load_file(tmp_path / "model.safetensors")["model.layers.1.self_attn.q_proj.weight"]
    weight[0, 0] = NAN
    change_weights(tmp_path, model__layers__1__self_attn__q_proj__weight=weight)
    engine = make_engine(tmp_path, executor=native(tmp_path))
    engine.add(PROMPTS[1], SamplingParams(4, temperature=0.8, seed=1))
    with pytest.raises(FloatingPointError, match="not finite"):
        engine.drain()


@pytest.mark.parametrize(
    ("kv_dtype", "block"), [("auto", 2 * 2 * 2 * 16 * 32 * 2), ("int8", 2 * 2 * 2 * 16 * (32 + 4))]
)
def test_kv_memory_is_counted_in_whole_blocks(model_dir: Path, kv_dtype: str, block: int) -> None:
    """Two layers of two heads of 32 values, K and V."""
    with pytest.raises(ValueError, match=f"kv_bytes {block - 1}: one block of 16 tokens takes {block}$"):
        native(model_dir, kv_dtype=kv_dtype, kv_bytes=block - 1)
    assert native(model_dir, kv_dtype=kv_dtype, kv_bytes=3 * block - 1).num_blocks == 2


def test_what_it_says_of_itself(model_dir: Path) -> None:
    executor = native(model_dir)
    names = {executor.name}
    executor.use_amx(False)
    assert executor.name == "native (vectors)"
    executor.use_amx(True)
    names.add(executor.name)
    assert len(names) == 1
    before = executor.seconds()
    executor.launch(make_batch([Row(PROMPTS[3], 0, 44, [0, 1, 2])])).tokens()
    after = executor.seconds()
    assert list(after) == list(library.PHASES)
    assert all(after[phase] > before[phase] for phase in after)
    matrices = sum(
        tensor.numel() for name, tensor in load_file(model_dir / "model.safetensors").items() if "proj" in name
    )
    padded_head = 224 * 96  # the vocabulary of 211 in pairs of tiles
    tables, norms = 211 * 96, 5 * 96
    assert executor.weights_bytes == 2 * (matrices + padded_head + tables) + 4 * norms


# --- What serves ------------------------------------------------------------------------------------------------


def serve(
    caplog: pytest.LogCaptureFixture, config: EngineConfig, model: ModelConfig
) -> tuple[TorchExecutor | NativeExecutor, list[str]]:
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="gpuruntime.engine"):
        executor = make_executor(config, model, 256)
    assert isinstance(executor, TorchExecutor | NativeExecutor)
    return executor, [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_step_serves_what_it_covers_without_a_word(model_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = EngineConfig(model_dir, kv_bytes=1 << 20, threads=1)
    executor, warnings = serve(caplog, config, load_model_config(model_dir))
    assert (type(executor), warnings) == (NativeExecutor, [])


def test_pytorch_serves_what_it_does_not_cover_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_random_model(tmp_path, "llama")
    config = EngineConfig(tmp_path, kv_bytes=1 << 20, threads=1)
    executor, warnings = serve(caplog, config, load_model_config(tmp_path))
    assert isinstance(executor, TorchExecutor)
    assert len(warnings) == 1
    assert "backend cpu does not cover hidden_size 48 (it covers: multiples of 32)" in warnings[0]


def test_pytorch_serves_without_a_compiler_and_says_so_once(
    model_dir: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise NoCompiler("there is no C++ compiler (g++ or $CXX) to build it with")

    config = EngineConfig(model_dir, kv_bytes=1 << 20, threads=1)
    expected = native(model_dir).launch(make_batch([Row(PROMPTS[2], 0, 31, [0, 1])])).tokens()
    monkeypatch.setattr(library, "library", missing)
    executor, warnings = serve(caplog, config, load_model_config(model_dir))
    assert isinstance(executor, TorchExecutor)
    assert len(warnings) == 1
    assert "there is no C++ compiler" in warnings[0]
    assert executor.launch(make_batch([Row(PROMPTS[2], 0, 31, [0, 1])])).tokens() == expected


def test_without_a_compiler_the_step_cannot_be_asked_for(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NoCompiler("there is no C++ compiler (g++ or $CXX) to build it with")

    monkeypatch.setattr(library, "library", missing)
    config = EngineConfig(model_dir, backend="cpu", kv_bytes=1 << 20, threads=1)
    with pytest.raises(ValueError, match=r"backend cpu: there is no C\+\+ compiler .*; torch would serve this model"):
        make_executor(config, load_model_config(model_dir), 256)


def test_a_bad_file_is_an_error_and_no_reason_for_pytorch(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "TorchExecutor", None)
    config = EngineConfig(model_dir, kv_bytes=1 << 20, threads=1)
    with pytest.raises(ValueError, match="has shape"):
        make_executor(config, replace(load_model_config(model_dir), hidden_size=64), 256)
