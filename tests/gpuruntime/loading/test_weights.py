"""Bad weight files end in one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpuruntime.loading.weights import WeightSource
from helpers.engine import make_engine, save_random_llama


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    save_random_llama(tmp_path)
    return tmp_path


def rewrite(model_dir: Path, **tensors: torch.Tensor | None) -> None:
    path = model_dir / "model.safetensors"
    stored = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    kept = {name: tensor for name, tensor in {**load_file(path), **stored}.items() if tensor is not None}
    save_file(kept, path)


def test_a_truncated_file(model_dir: Path) -> None:
    path = model_dir / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"model\.safetensors: truncated or corrupt"):
        make_engine(model_dir)


def test_a_missing_tensor(model_dir: Path) -> None:
    rewrite(model_dir, model__norm__weight=None)
    with pytest.raises(ValueError, match=r"tensor model\.norm\.weight is missing"):
        make_engine(model_dir)


def test_a_wrong_shape_names_both_shapes(model_dir: Path) -> None:
    rewrite(model_dir, model__norm__weight=torch.ones(7))
    with pytest.raises(ValueError, match=r"model\.norm\.weight has shape \[7\], config\.json implies \[48\]"):
        make_engine(model_dir)


def test_a_quantized_type(model_dir: Path) -> None:
    rewrite(model_dir, model__norm__weight=torch.ones(48, dtype=torch.int8))
    with pytest.raises(ValueError, match=r"int8; supported: fp32, fp16, bf16"):
        make_engine(model_dir)


def test_no_weights_and_an_index_that_points_outside(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no model\.safetensors"):
        WeightSource(tmp_path, torch.float32)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../secret.safetensors"}}')
    with pytest.raises(ValueError, match=r"names the shard '\.\./secret\.safetensors'"):
        WeightSource(tmp_path, torch.float32)


def test_an_index_without_a_map_or_with_a_tensor_its_shard_lacks(tmp_path: Path) -> None:
    save_random_llama(tmp_path, shards="60KB")
    index = tmp_path / "model.safetensors.index.json"
    named = json.loads(index.read_text())["weight_map"]
    assert len(set(named.values())) > 1
    first, other = sorted(set(named.values()))[:2]
    tensors = load_file(tmp_path / first)
    lost = sorted(tensors)[0]
    del tensors[lost]
    save_file(tensors, tmp_path / first)
    with pytest.raises(ValueError, match=f"tensor {lost} is missing"):
        make_engine(tmp_path)
    (tmp_path / other).unlink()
    with pytest.raises(ValueError, match=f"names the shard '{other}'"):
        WeightSource(tmp_path, torch.float32)
    for senseless in ('{"weight_map": [1]}', "{}", "[", '{"weight_map": {"a": 5}}'):
        index.write_text(senseless)
        with pytest.raises(ValueError, match=r"model\.safetensors\.index\.json"):
            WeightSource(tmp_path, torch.float32)
