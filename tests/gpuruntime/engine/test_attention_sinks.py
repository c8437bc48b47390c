"""Attention sinks with a rolling window against the paper's own scheme in float64 (arXiv:2309.17453).

The oracle keeps K unrotated, takes the first and the last tokens of its cache and rotates each by its place there. The
executor keeps K rotated by its place in the text; both must give the same logits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.torch_executor import TorchExecutor
from gpuruntime.models.config import ModelConfig, load_model_config
from gpuruntime.models.rope import inverse_frequencies
from helpers.engine import greedy, make_engine
from helpers.families import Recorder, chunked_logits, error, reference_logits, save_random_model

Array = NDArray[np.float64]
PROMPT = [1, *[(7 * i * i + 3 * i + 5) % 200 + 3 for i in range(71)]]
YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 8.0, "original_max_position_embeddings": 64}


class Streaming:
    """A Llama or Qwen 3 in float64, one token at a time."""

    def __init__(self, model: Any, config: ModelConfig, sinks: int, window: int) -> None:
        self.weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
        self.config, self.sinks, self.window = config, sinks, window
        self.frequencies = inverse_frequencies(config.rope, config.head_dim, 1).double().numpy()
        self.caches: list[tuple[list[Array], list[Array]]] = [([], []) for _ in range(config.num_layers)]

    def logits(self, tokens: list[int]) -> torch.Tensor:
        return torch.from_numpy(np.stack([self.next(token) for token in tokens]))

    def next(self, token: int) -> Array:
        x = self.weights["model.embed_tokens.weight"][token]
        for index in range(self.config.num_layers):
            at = f"model.layers.{index}"
            x = x + self.attention(self.norm(x, f"{at}.input_layernorm"), f"{at}.self_attn", index)
            normed = self.norm(x, f"{at}.post_attention_layernorm")
            gate, up = (self.weights[f"{at}.mlp.{name}_proj.weight"] @ normed for name in ("gate", "up"))
            x = x + self.weights[f"{at}.mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up)
        result: Array = self.weights["lm_head.weight"] @ self.norm(x, "model.norm")
        return result

    def norm(self, x: Array, name: str) -> Array:
        scale = np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.config.rms_norm_eps)
        result: Array = x / scale * self.weights[f"{name}.weight"]
        return result

    def attention(self, x: Array, at: str, index: int) -> Array:
        config = self.config
        q, k, v = (
            (self.weights[f"{at}.{name}_proj.weight"] @ x).reshape(-1, config.head_dim) for name in ("q", "k", "v")
        )
        if config.qk_norm:
            q, k = self.norm(q, f"{at}.q_norm"), self.norm(k, f"{at}.k_norm")
        keys, values = self.caches[index]
        keys.append(k)
        values.append(v)
        if len(keys) > self.sinks + self.window:
            del keys[self.sinks], values[self.sinks]
        rotated = np.stack([self.rotate(key, place) for place, key in enumerate(keys)])
        q = self.rotate(q, len(keys) - 1)
        heads = []
        for head in range(config.num_heads):
            shared = head // (config.num_heads // config.num_kv_heads)
            scores = rotated[:, shared] @ q[head] * config.head_dim**-0.5
            weights = np.exp(scores - scores.max())
            heads.append(weights / weights.sum() @ np.stack(values)[:, shared])
        result: Array = self.weights[f"{at}.o_proj.weight"] @ np.concatenate(heads)
        return result

    def rotate(self, x: Array, place: int) -> Array:
        angles = place * self.frequencies
        cos, sin = np.cos(angles), np.sin(angles)
        first, second = np.split(x, 2, axis=-1)
        turned = np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)
        result: Array = turned * self.config.rope.attention_factor
        return result


def make_executor(path: Path, sinks: int, window: int) -> TorchExecutor:
    config = EngineConfig(path, dtype="fp32", kv_bytes=1 << 20, attention_sinks=sinks, attention_window=window)
    config.validate()
    return TorchExecutor(config, load_model_config(path), 512)


@pytest.mark.parametrize(
    ("family", "changes", "sinks", "window"),
    [
        ("llama", {}, 4, 20),
        ("llama", {"num_key_value_heads": 1}, 16, 16),
        ("llama", {"num_key_value_heads": 6}, 20, 1),
        ("llama", {"rope_parameters": YARN}, 1, 33),
        ("qwen3", {}, 3, 13),
    ],
)
def test_logits_equal_a_rolling_cache(
    tmp_path: Path, family: str, changes: dict[str, Any], sinks: int, window: int
) -> None:
    model = save_random_model(tmp_path, family, **changes)
    executor = make_executor(tmp_path, sinks, window)
    expected = Streaming(model, load_model_config(tmp_path), sinks, window).logits(PROMPT)
    for chunks in ([72], [16, 16, 21, 19], [1, 31, 20, 1, 19], [20] + [1] * 52):
        found = chunked_logits(executor, PROMPT, chunks, blocks=[9, 2, 7, 4, 11])
        assert error(found, expected) < 1e-4, chunks


def test_a_context_that_fits_is_full_attention(tmp_path: Path) -> None:
    model = save_random_model(tmp_path, "llama")
    found = chunked_logits(make_executor(tmp_path, 8, 64), PROMPT, [40, 32], blocks=[9, 2, 7, 4, 11])
    assert error(found, reference_logits(model, PROMPT)) < 1e-4


def test_chunks_prefix_hits_and_preemption_change_nothing(tmp_path: Path) -> None:
    model = save_random_model(tmp_path, "llama")
    config = load_model_config(tmp_path)
    prompts = [PROMPT[:53], [*PROMPT[:40], *range(90, 103)], list(range(150, 120, -1))]
    recorder = Recorder(make_executor(tmp_path, 4, 20))
    engine = make_engine(tmp_path, blocks=10, max_tokens=24, executor=recorder)
    keys = [engine.add(prompts[0], greedy(40))]
    for _ in range(4):
        engine.step()
    keys += [engine.add(prompt, greedy(40)) for prompt in prompts[1:]]
    engine.drain()
    assert engine.core.scheduler.preemptions > 0
    timings = engine.ends[keys[1]].timings
    assert timings is not None
    assert timings.cached_tokens == 32
    logits = []
    for key, prompt in zip(keys, prompts, strict=True):
        text = engine.texts[key]
        logits.append(Streaming(model, config, 4, 20).logits([*prompt, *text[:-1]]))
        assert logits[-1][len(prompt) - 1 :].argmax(dim=-1).tolist() == text
    for position, row in recorder.rows:
        assert min(error(row, each[position]) for each in logits if position < len(each)) < 1e-4
