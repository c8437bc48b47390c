"""Headers of real and spoiled model files; the gguf and safetensors libraries are the oracles."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from gpuruntime import modelinfo
from gpuruntime.gguf_header import TENSOR_TYPES, read_gguf_header
from gpuruntime.modelinfo import ModelFileError, memory_needs, read_model, supports
from gpuruntime.models.registry import ARCHITECTURES
from helpers.model import smollm2_dir, smollm2_gguf

__all__ = ["smollm2_dir", "smollm2_gguf"]

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "vocab_size": 100,
    "max_position_embeddings": 256,
}


def directory(path: Path, tensors: dict[str, np.ndarray[Any, Any]] | None = None, **over: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({**CONFIG, **over}))
    save_file(tensors or {"w": np.ones((4, 8), np.float32)}, path / "model.safetensors")
    return path


def small_gguf(path: Path, **over: Any) -> Path:
    writer = gguf.GGUFWriter(path, over.pop("architecture", "llama"))
    writer.add_block_count(2)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_context_length(256)
    writer.add_token_list([f"token{n}" for n in range(400)])
    writer.add_array("some.floats", [0.5] * 300)
    writer.add_bool("some.flag", True)
    for key, value in over.items():
        writer.add_string(key.replace("__", "."), value)
    writer.add_tensor("token_embd.weight", np.ones((400, 32), np.float32))
    writer.add_tensor("blk.0.attn_q.weight", np.ones((32, 32), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_real_directory_is_read_from_its_header(smollm2_dir: Path) -> None:
    info = read_model(smollm2_dir)
    with safe_open(smollm2_dir / "model.safetensors", "np") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    assert info.parameter_count == sum(math.prod(shape) for shape in shapes)
    assert (info.architecture, info.n_layers, info.n_heads, info.n_kv_heads) == ("LlamaForCausalLM", 30, 9, 3)
    assert (info.head_dim, info.hidden_size, info.vocab_size, info.context_length) == (64, 576, 49152, 8192)
    assert info.tied_embeddings
    assert {file.name: file.bytes for file in info.files}["model.safetensors"] == (
        smollm2_dir / "model.safetensors"
    ).stat().st_size
    assert supports(info) == []


def test_the_real_gguf_agrees_with_the_gguf_library(smollm2_gguf: Path) -> None:
    info = read_model(smollm2_gguf)
    assert (info.format, info.quantization, info.vocab_size, info.n_layers) == ("gguf", "Q4_1", 49152, 30)
    assert supports(info) == []
    reader = gguf.GGUFReader(smollm2_gguf)
    expected = {t.name: (tuple(map(int, t.shape)), t.tensor_type.name, int(t.n_bytes)) for t in reader.tensors}
    header = read_gguf_header(smollm2_gguf)
    assert {t.name: (t.shape, t.type_name, t.nbytes) for t in header.tensors} == expected


def test_both_forms_of_one_model_describe_the_same_model(smollm2_dir: Path, smollm2_gguf: Path) -> None:
    same = ("architecture", "n_layers", "n_heads", "n_kv_heads", "head_dim", "hidden_size", "intermediate_size")
    same += ("vocab_size", "context_length", "parameter_count", "rope_scaling")
    one, other = read_model(smollm2_dir), read_model(smollm2_gguf)
    assert {name: getattr(one, name) for name in same} == {name: getattr(other, name) for name in same}


def test_the_table_of_tensor_types_is_ggmls() -> None:
    known = {t.value: (t.name, *gguf.GGML_QUANT_SIZES[t]) for t in gguf.GGMLQuantizationType}
    assert {number: known[number] for number in TENSOR_TYPES} == TENSOR_TYPES


def test_every_type_we_accept_can_be_converted() -> None:
    convertible = {t.name for t in gguf.quants._type_traits} | {"F32", "F16"}
    assert set(modelinfo.SUPPORTED_GGUF) <= convertible


def test_the_catalog_accepts_what_the_engine_has_a_class_for() -> None:
    assert set(modelinfo.SUPPORTED_ARCHITECTURES) == set(ARCHITECTURES)


@pytest.mark.parametrize(
    ("over", "reason"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "architecture MambaForCausalLM"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization awq"),
        ({"rope_scaling": {"type": "su"}}, "rope scaling su"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "rope scaling longrope"),
        ({"num_key_value_heads": 3}, "no multiple of 3"),
    ],
)
def test_what_the_engine_cannot_run_is_named(tmp_path: Path, over: dict[str, Any], reason: str) -> None:
    (only,) = supports(read_model(directory(tmp_path / "m", **over)))
    assert reason in only


def test_tensor_types_are_checked(tmp_path: Path) -> None:
    info = read_model(directory(tmp_path / "m", {"w": np.ones((4, 8), np.int8)}))
    assert "tensors of type I8" in supports(info)[0]
    small = small_gguf(tmp_path / "a.gguf", llama__rope__scaling__type="longrope")
    supported = "default, linear, dynamic, yarn, llama3"
    assert supports(read_model(small)) == [f"rope scaling longrope is not supported; supported: {supported}"]
    other = small_gguf(tmp_path / "b.gguf", architecture="rwkv7")
    assert "architecture rwkv7" in supports(read_model(other))[0]


def test_shards_are_added_up_and_a_missing_one_is_named(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    save_file({"a": np.ones((2, 3), np.float32)}, folder / "one.safetensors")
    save_file({"b": np.ones((5,), np.float16)}, folder / "two.safetensors")
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    info = read_model(folder)
    assert (info.parameter_count, info.tensor_bytes) == (11, 34)
    (folder / "two.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"two\.safetensors"):
        read_model(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    with pytest.raises(ModelFileError, match="missing"):
        read_model(folder)


@pytest.mark.parametrize("key", ["num_hidden_layers", "vocab_size", "hidden_size", "max_position_embeddings"])
@pytest.mark.parametrize("value", [None, "many", 0, -3, True, 1.5])
def test_a_senseless_size_is_named(tmp_path: Path, key: str, value: object) -> None:
    with pytest.raises(ModelFileError, match=key):
        read_model(directory(tmp_path / "m", **{key: value}))


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "short").write_bytes(b"GGUF\x03")
    (tmp_path / "empty").mkdir()
    for name in ("text", "short", "empty", "absent"):
        with pytest.raises(ModelFileError):
            read_model(tmp_path / name)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.floats(0, 0.999))
def test_a_truncated_gguf_is_always_refused(tmp_path: Path, cut: float) -> None:
    whole = tmp_path / "whole.gguf"
    data = (whole if whole.exists() else small_gguf(whole)).read_bytes()
    short = tmp_path / "short.gguf"
    short.write_bytes(data[: int(cut * len(data))])
    with pytest.raises(ModelFileError):
        read_model(short)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_corrupt_header_never_escapes_as_another_error(tmp_path: Path, data: st.DataObject) -> None:
    """Flip bytes anywhere in both formats: the answer is a model or a ModelFileError."""
    whole = tmp_path / "whole.gguf"
    folder = tmp_path / "m"
    gguf_bytes = bytearray((whole if whole.exists() else small_gguf(whole)).read_bytes())
    safe_bytes = bytearray((directory(folder) / "model.safetensors").read_bytes())
    for target, raw in ((tmp_path / "bad.gguf", gguf_bytes), (folder / "model.safetensors", safe_bytes)):
        for _ in range(data.draw(st.integers(1, 4))):
            raw[data.draw(st.integers(0, min(len(raw), 12_000) - 1))] = data.draw(st.integers(0, 255))
        target.write_bytes(raw)
        with contextlib.suppress(ModelFileError):
            read_model(target if target.suffix == ".gguf" else folder)


TABLE = 49152 * 576  # SmolLM2's, which is its head as well


@pytest.mark.parametrize(
    ("dtype", "kv_dtype", "weights", "head_bytes"),
    [
        ("bf16", "auto", 134_515_008 * 2 + TABLE * 2, 128),
        ("fp32", "auto", 134_515_008 * 4, 256),
        # A scale for each row: q, k, v, o, gate, up, down of 30 layers, and the head.
        ("int8", "auto", 134_515_008 + TABLE * 2 + 4 * (30 * (576 + 2 * 192 + 576 + 2 * 1536 + 576) + 49152), 128),
        ("bf16", "int8", 134_515_008 * 2 + TABLE * 2, 68),
        ("fp8", "fp8", 134_515_008 + TABLE * 2 + 4 * (30 * (576 + 2 * 192 + 576 + 2 * 1536 + 576) + 49152), 68),
    ],
)
def test_memory_needs_add_up_from_first_principles(
    smollm2_dir: Path, dtype: str, kv_dtype: str, weights: int, head_bytes: int
) -> None:
    needs = memory_needs(read_model(smollm2_dir), dtype, 2048, 8, kv_bytes=100 << 20, kv_dtype=kv_dtype)
    assert needs.weights_bytes == pytest.approx(weights, rel=0.005)
    per_token = 30 * 3 * 2 * head_bytes
    assert needs.kv_bytes_per_token == per_token
    assert needs.kv_capacity_tokens == (100 << 20) // (per_token * 16) * 16
    assert needs.total_bytes == needs.weights_bytes + (100 << 20) + needs.workspace_bytes


@pytest.mark.parametrize("dtype", ["bf16", "int8", "fp32"])
@pytest.mark.parametrize("tied", [True, False])
def test_predicted_weights_are_what_the_engine_holds(tmp_path: Path, dtype: Any, tied: bool) -> None:
    """Sizes as of a small real model, on whatever executor this machine has."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from gpuruntime.engine.config import EngineConfig
    from gpuruntime.engine.executors import make_executor
    from gpuruntime.models.config import load_model_config

    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "vocab_size": 4096}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4, "tie_word_embeddings": tied}
    LlamaForCausalLM(LlamaConfig(**sizes, **heads)).bfloat16().save_pretrained(tmp_path)
    executor = make_executor(EngineConfig(tmp_path, dtype=dtype, kv_bytes=1 << 20), load_model_config(tmp_path), 512)
    predicted = memory_needs(read_model(tmp_path), dtype, 512, 8, 1 << 20).weights_bytes
    assert executor.weights_bytes == pytest.approx(predicted, rel=0.05)


def test_impossible_settings_name_value_and_limit(smollm2_dir: Path) -> None:
    info = read_model(smollm2_dir)
    with pytest.raises(ValueError, match=r"9000.*8192"):
        memory_needs(info, max_model_len=9000)
    with pytest.raises(ValueError, match="kv_bytes 1000"):
        memory_needs(info, kv_bytes=1000)
    with pytest.raises(ValueError, match="int3"):
        memory_needs(info, "int3")


def test_reading_headers_needs_no_torch() -> None:
    code = "import sys, gpuruntime.modelinfo; print([m for m in ('torch', 'transformers', 'gguf') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"[]"
