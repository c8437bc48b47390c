"""Which backend serves what: the refusals by name, what "auto" takes, and the table of docs/engine.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.engine.capabilities import BACKENDS, FEATURES, Asked, Machine, choose, refusals, table
from gpuruntime.engine.config import EngineConfig
from gpuruntime.modelinfo import SUPPORTED_ARCHITECTURES
from gpuruntime.models.config import ModelConfig, RopeConfig

DOCS = Path(__file__).parents[3] / "docs" / "engine.md"
ABSENT = Path("absent")
NO_GPU, INTERPRETER, A100, H100 = Machine(), Machine(interpreted=True), Machine(80), Machine(90)
MODEL = ModelConfig(
    architecture="LlamaForCausalLM",
    vocab_size=1000,
    hidden_size=576,
    intermediate_size=1536,
    num_layers=2,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    rms_norm_eps=1e-5,
    max_position=2048,
    tied_head=True,
    attention_bias=False,
    output_bias=False,
    mlp_bias=False,
    qk_norm=False,
    activation="silu",
    attention_scale=0.125,
    embedding_scale=1.0,
    norm_offset=0.0,
    sliding_windows=(None, None),
    rope=RopeConfig(),
)
SINKS = {"attention_sinks": 4, "attention_window": 16}


def asked(machine: Machine = NO_GPU, model: dict[str, Any] | None = None, **settings: Any) -> Asked:
    return Asked(EngineConfig(ABSENT, **settings), replace(MODEL, **(model or {})), machine)


@pytest.mark.parametrize(
    ("start", "backend", "features"),
    [
        (asked(), "cpu", []),
        (asked(), "torch", []),
        (asked(), "triton", ["device", "dtype bf16 on"]),
        (asked(INTERPRETER), "triton", ["dtype bf16 on"]),
        (asked(INTERPRETER, dtype="fp32"), "triton", []),
        (asked(INTERPRETER, dtype="fp8", kv_dtype="fp8"), "triton", []),
        (asked(Machine(75)), "triton", ["device", "dtype bf16 on"]),
        (asked(A100), "triton", []),
        (asked(A100, kv_dtype="fp8"), "triton", ["fp8 on"]),
        (asked(Machine(89), dtype="fp8"), "triton", []),
        (asked(H100, kv_bytes=0), "triton", []),
        (asked(INTERPRETER, dtype="fp32", kv_bytes=0), "triton", ["kv_bytes measured on"]),
        (asked(H100, kv_bytes=0), "torch", ["kv_bytes measured on"]),
        (asked(dtype="int8", kv_dtype="int8"), "cpu", []),
        (asked(dtype="fp32"), "cpu", ["dtype"]),
        (asked(dtype="fp8"), "torch", ["dtype", "fp8 on"]),
        (asked(model={"hidden_size": 48}), "cpu", ["hidden_size"]),
        (asked(model={"intermediate_size": 80}), "cpu", ["intermediate_size"]),
        (asked(model={"head_dim": 16}), "cpu", ["head_dim"]),
        (asked(model={"head_dim": 1056}), "cpu", ["head_dim"]),
        (asked(model={"head_dim": 1056}), "torch", []),
        (asked(H100, {"head_dim": 272}), "triton", ["head_dim"]),
        (asked(H100, {"head_dim": 40}), "triton", ["head_dim"]),
        (asked(H100, {"hidden_size": 32800}), "triton", ["hidden_size"]),
        (asked(model={"architecture": "Gemma3ForCausalLM"}), "cpu", ["architecture"]),
        (asked(model={"architecture": "Gemma3ForCausalLM"}), "torch", []),
        (asked(H100, {"architecture": "Qwen3MoeForCausalLM"}), "triton", []),
        (asked(**SINKS), "cpu", ["attention_sinks"]),
        (asked(H100, **SINKS), "triton", []),
        (
            asked(H100, {"sliding_windows": (None, 16)}, **SINKS),
            "triton",
            ["attention_window beside sliding windows of the model's own"],
        ),
        (asked(tensor_parallel=2), "cpu", ["tensor_parallel"]),
        (asked(tensor_parallel=2), "torch", []),
        (asked(H100, tensor_parallel=2), "triton", []),
    ],
)
def test_a_backend_refuses_what_it_does_not_cover(start: Asked, backend: str, features: list[str]) -> None:
    assert [refusal.feature for refusal in refusals(start, backend)] == features


@pytest.mark.parametrize(
    ("start", "backend", "better"),
    [
        (asked(), "cpu", []),
        (asked(INTERPRETER), "cpu", []),
        (asked(dtype="fp32"), "torch", ["cpu"]),
        (asked(H100), "triton", []),
        (asked(H100, dtype="fp32"), "triton", []),
        (asked(Machine(75)), "cpu", ["triton"]),
        (asked(Machine(75), dtype="fp32"), "torch", ["triton", "cpu"]),
        (asked(H100, dtype="fp32", backend="torch"), "torch", []),
        (asked(INTERPRETER, dtype="fp32", backend="triton"), "triton", []),
    ],
)
def test_the_best_backend_that_covers_all_is_taken(start: Asked, backend: str, better: list[str]) -> None:
    choice = choose(start)
    assert choice.backend == backend
    assert list(dict.fromkeys(refusal.backend for refusal in choice.passed_over)) == better


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (
            asked(backend="cpu", dtype="fp32"),
            "backend cpu does not cover dtype fp32 (it covers: bf16, int8); torch and triton would",
        ),
        (
            asked(backend="triton", dtype="fp32"),
            "backend triton does not cover device no GPU (it covers: GPUs from sm_80, the interpreter); "
            "cpu and torch would",
        ),
        (
            asked(A100, backend="triton", kv_dtype="fp8"),
            "backend triton does not cover fp8 on sm_80 (it covers: GPUs from sm_89, the interpreter); "
            "no backend would",
        ),
        (
            asked(backend="torch", model={"sliding_windows": (16, 16)}, **SINKS),
            "backend torch does not cover attention_window beside sliding windows of the model's own; no backend would",
        ),
    ],
)
def test_a_refusal_names_backend_and_feature_and_who_would(start: Asked, message: str) -> None:
    with pytest.raises(ValueError, match="backend") as refused:
        choose(start)
    assert str(refused.value) == message


def test_where_nobody_would_every_backend_says_why() -> None:
    with pytest.raises(ValueError, match=r"backend cpu does not cover .*backend torch does not cover"):
        choose(asked(dtype="fp8"))


@given(
    machine=st.builds(Machine, st.sampled_from([None, 75, 80, 86, 89, 90, 100, 120]), st.booleans()),
    architecture=st.sampled_from(SUPPORTED_ARCHITECTURES),
    head_dim=st.integers(1, 40).map(lambda size: 8 * size),
    backend=st.sampled_from(["auto", *BACKENDS]),
    dtype=st.sampled_from(["bf16", "fp32", "int8", "fp8"]),
    kv_dtype=st.sampled_from(["auto", "int8", "fp8"]),
    tensor_parallel=st.sampled_from([1, 2]),
)
def test_nothing_starts_on_a_backend_that_refuses_it(
    machine: Machine, architecture: str, head_dim: int, **settings: Any
) -> None:
    start = asked(machine, {"architecture": architecture, "head_dim": head_dim}, **settings)
    named = settings["backend"]
    able = [name for name in BACKENDS if not refusals(start, name)]
    try:
        chosen = choose(start).backend
    except ValueError:
        # In the interpreter kernels are proven, not served: nobody gets it unless by name.
        assert named not in able
        assert named != "auto" or able in ([], ["triton"])
        return
    assert chosen in able
    assert named in ("auto", chosen)


def test_every_feature_says_something_of_every_backend() -> None:
    assert all(len(feature.rules) == len(BACKENDS) for feature in FEATURES)
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)


def test_the_documentation_shows_the_table() -> None:
    assert table() in DOCS.read_text("utf-8")
