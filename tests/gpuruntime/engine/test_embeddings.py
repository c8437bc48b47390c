"""Embeddings: the states that transformers computes, however the prompt was cut, cached or given up on the way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gpuruntime.backend import BadPrompt, SamplingParams
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.llm import LLM
from gpuruntime.loading.pooling import model_pooling
from gpuruntime.models.config import load_model_config
from helpers.ahead import Delayed
from helpers.engine import Engine, greedy, greedy_reference, make_engine, save_byte_model
from helpers.families import one_row, save_random_model
from helpers.native import native, save_native_model

PROMPT = [1, *[(7 * i * i + 3 * i + 5) % 200 + 3 for i in range(52)]]
# The second shares two blocks with the first, the third nothing.
PROMPTS = [PROMPT, [*PROMPT[:40], *range(90, 103)], list(range(150, 120, -1)), [77]]
WINDOW = {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
TEXT = [5, 9, 5, 9, 30, 31]


def expected(model: Any, tokens: Sequence[int], pooling: Literal["last", "mean"]) -> NDArray[np.float64]:
    """transformers' states behind the last norm, pooled and brought to length 1 in float64."""
    with torch.inference_mode():
        states = model.model(torch.tensor([list(tokens)]), use_cache=False).last_hidden_state[0].double().numpy()
    pooled = states[-1] if pooling == "last" else states.mean(axis=0)
    return np.asarray(pooled / np.linalg.norm(pooled))


def embedding(engine: Engine, key: int) -> NDArray[np.float32]:
    ended = engine.ends[key]
    assert (ended.finish_reason, ended.tokens) == ("stop", ())
    return np.frombuffer(ended.embedding, dtype="<f4")


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize(
    ("family", "changes"),
    [("llama", {}), ("mistral", {"sliding_window": 20}), ("qwen3", WINDOW), ("qwen3_moe", EXPERTS), ("gemma3", {})],
)
def test_embeddings_beside_texts_are_those_of_transformers(
    tmp_path: Path, family: str, changes: dict[str, Any], pooling: Literal["last", "mean"]
) -> None:
    reference = save_random_model(tmp_path, family, **changes)
    executor = make_engine(tmp_path, blocks=32).executor
    # Nine blocks, of which the text takes five, for prompts of four each: they are cut, cached and given up.
    engine = make_engine(tmp_path, blocks=9, max_tokens=24, executor=executor)
    text = engine.add(TEXT, greedy(70))
    for _ in range(3):
        engine.step()
    keys = [engine.add(prompt, SamplingParams(0, pooling=pooling)) for prompt in [*PROMPTS, PROMPT]]
    engine.drain()
    for key, prompt in zip(keys, [*PROMPTS, PROMPT], strict=True):
        np.testing.assert_allclose(embedding(engine, key), expected(reference, prompt, pooling), atol=1e-4)
    ended = greedy_reference(reference, TEXT, 70)
    assert engine.texts[text] == ended
    assert (engine.ends[keys[4]].timings.cached_tokens > 0) == (pooling == "last")  # type: ignore[union-attr]


def test_a_prompt_that_gave_its_blocks_up_is_pooled_once(tmp_path: Path) -> None:
    reference = save_random_model(tmp_path, "llama")
    executor = make_engine(tmp_path, blocks=32).executor
    engine = make_engine(tmp_path, blocks=5, max_tokens=8, executor=executor)
    text = engine.add(TEXT, greedy(60))
    for _ in range(8):
        engine.step()
    keys = [engine.add(prompt, SamplingParams(0, pooling="mean")) for prompt in PROMPTS]
    engine.drain()
    assert engine.core.scheduler.preemptions > 0
    assert len(engine.texts[text]) == 60
    for key, prompt in zip(keys, PROMPTS, strict=True):
        np.testing.assert_allclose(embedding(engine, key), expected(reference, prompt, "mean"), atol=1e-4)


def test_a_device_that_runs_ahead_embeds_the_same(tmp_path: Path) -> None:
    reference = save_random_model(tmp_path, "llama")
    engine = make_engine(tmp_path, blocks=32, max_tokens=24, executor=Delayed(make_engine(tmp_path).executor))  # type: ignore[arg-type]
    text = engine.add(TEXT, greedy(30))
    for _ in range(3):
        engine.step()
    keys = [engine.add(prompt, SamplingParams(0, pooling="last")) for prompt in PROMPTS]
    engine.drain()
    assert engine.texts[text] == greedy_reference(reference, TEXT, 30)
    for key, prompt in zip(keys, PROMPTS, strict=True):
        np.testing.assert_allclose(embedding(engine, key), expected(reference, prompt, "last"), atol=1e-4)


@pytest.mark.parametrize("dtype", ["bf16", "int8"])
def test_the_native_steps_states_are_those_of_pytorch(tmp_path: Path, dtype: Literal["bf16", "int8"]) -> None:
    save_native_model(tmp_path)
    reference: Executor = TorchExecutor(
        EngineConfig(tmp_path, dtype="fp32", kv_bytes=1 << 20), load_model_config(tmp_path), 512
    )
    batch = one_row(PROMPT, 0, len(PROMPT), [3, 1, 7, 5])
    found, wanted = native(tmp_path, dtype=dtype).states(batch), reference.states(batch)
    assert found.shape == wanted.shape == (len(PROMPT), load_model_config(tmp_path).hidden_size)
    assert float(torch.nn.functional.cosine_similarity(found, wanted).min()) > (0.999 if dtype == "bf16" else 0.995)


def test_without_a_server(tmp_path: Path) -> None:
    save_byte_model(tmp_path)
    with LLM(tmp_path, dtype="fp32", kv_bytes=1 << 20, threads=1) as llm:
        ids = llm.generate("abc", greedy(1))[0].prompt_token_ids
        several = llm.embed(["abc", ids, "x" * 128])
        assert several.shape == (3, 48)
        np.testing.assert_allclose(np.linalg.norm(several, axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(several[0], several[1], atol=1e-6)
        with pytest.raises(BadPrompt, match=r"the prompt has 129 tokens; this model's context is 128 tokens$"):
            llm.embed("x" * 129)


POOLED = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}
TRANSFORMER = {"type": "sentence_transformers.models.Transformer", "path": ""}
NORMALIZED = {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}
DENSE = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}
LAST, MEAN = {"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, {"pooling_mode_mean_tokens": True}


@pytest.mark.parametrize(
    ("config", "modules", "recipe", "pooling"),
    [
        ({}, None, None, "last"),
        ({}, [TRANSFORMER, POOLED, NORMALIZED], LAST, "last"),
        ({}, [TRANSFORMER, POOLED], MEAN, "mean"),
        ({}, [TRANSFORMER, POOLED, DENSE], MEAN, None),
        ({}, [TRANSFORMER, POOLED], {"pooling_mode_cls_token": True}, None),
        ({}, [TRANSFORMER, POOLED], {**MEAN, "pooling_mode_max_tokens": True}, None),
        ({}, [TRANSFORMER], None, None),
        ({"use_bidirectional_attention": True}, [TRANSFORMER, POOLED], MEAN, None),
    ],
)
def test_how_a_model_pools_stands_beside_its_weights(
    tmp_path: Path, config: Any, modules: Any, recipe: Any, pooling: Any
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    if modules is not None:
        (tmp_path / "modules.json").write_text(json.dumps(modules))
    if recipe is not None:
        (tmp_path / "1_Pooling").mkdir()
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(recipe))
    assert model_pooling(tmp_path) == pooling


def test_a_recipe_that_cannot_be_read_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "modules.json").write_text('{"type": "Pooling"}')
    with pytest.raises(ValueError, match=r"modules\.json"):
        model_pooling(tmp_path)
