"""Weights from safetensors files by memory map, one file or shards with an index; nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gpuruntime.models.config import read_json

_CPU = torch.device("cpu")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_ALL = slice(None)


class Part(NamedTuple):
    """``rows`` of a tensor that is ``shape`` as a whole."""

    shape: tuple[int, ...]
    rows: slice = _ALL


class WeightSource:
    """Named tensors of one model, read on demand and converted to ``dtype`` on ``device``.

    What it returns is a copy: a tensor that shares the map would keep the whole file in memory. Of a tensor that is
    dealt out to several ranks, only the part that is asked for is read.

    Raises ``ValueError`` naming the file or tensor for what is missing, truncated, or of another shape or type.
    """

    def __init__(self, model_dir: Path, dtype: torch.dtype, device: torch.device = _CPU) -> None:
        self._dtype = dtype
        self._device = device
        self._dir = model_dir
        self._files: dict[str, Any] = {}
        self._where: dict[str, str] = {}
        for name in _file_names(model_dir):
            handle = self._open(name)
            for key in handle.keys():  # noqa: SIM118 - a safetensors handle is no mapping
                self._where[key] = name

    @property
    def dtype(self) -> torch.dtype:
        return self._dtype

    def has(self, name: str) -> bool:
        return name in self._where

    def get(self, name: str, shape: tuple[int, ...], rows: slice = _ALL, columns: slice = _ALL) -> Tensor:
        """``rows`` and ``columns`` of the tensor ``name`` in the source's dtype; ``shape`` is the whole tensor's."""
        part = (rows, columns)[: len(shape)]
        return self._mapped(name, shape, part).to(self._device, self._dtype, copy=True).contiguous()

    def stack(self, parts: Mapping[str, Part]) -> Tensor:
        """The named tensors' rows below one another."""
        found = [self._mapped(name, part.shape, (part.rows,)) for name, part in parts.items()]
        return torch.cat([tensor.to(self._device, self._dtype) for tensor in found])

    def _mapped(self, name: str, shape: tuple[int, ...], part: tuple[slice, ...]) -> Tensor:
        if name not in self._where:
            raise ValueError(f"{self._dir}: tensor {name} is missing")
        stored = self._files[self._where[name]].get_slice(name)
        found = list(stored.get_shape())
        if found != list(shape):
            raise ValueError(f"{self._dir}: tensor {name} has shape {found}, config.json implies {list(shape)}")
        tensor: Tensor = stored[part]
        if tensor.dtype not in _FLOATS:
            raise ValueError(f"{self._dir}: tensor {name} has type {tensor.dtype}; supported: fp32, fp16, bf16")
        return tensor

    def _open(self, name: str) -> Any:
        path = self._dir / name
        try:
            handle = safe_open(str(path), framework="pt")
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path}: truncated or corrupt safetensors file: {error}") from error
        self._files[name] = handle
        return handle


def _file_names(model_dir: Path) -> list[str]:
    index = model_dir / "model.safetensors.index.json"
    if index.is_file():
        named = read_json(index).get("weight_map")
        if not isinstance(named, dict) or not named or not all(isinstance(name, str) for name in named.values()):
            raise ValueError(f"{index}: weight_map does not name a file for each tensor")
        names = sorted(set(named.values()))
        for name in names:
            if Path(name).name != name or not (model_dir / name).is_file():
                raise ValueError(f"{index}: names the shard {name!r}, which is not in {model_dir}")
        return names
    if (model_dir / "model.safetensors").is_file():
        return ["model.safetensors"]
    raise ValueError(f"{model_dir}: no model.safetensors and no model.safetensors.index.json")
