"""The header of a GGUF file: metadata and the table of tensors, without a byte of tensor data.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian). Long arrays, such
as the tokenizer's, are skipped and only counted unless asked for: this is what keeps reading under a tenth of a second.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_KEPT_ITEMS = 256

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

# Tensor types: name, elements a block, bytes a block (ggml.h, ggml-common.h).
TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}


class GgufError(ValueError):
    """The file is no readable GGUF; one sentence says why."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """``shape`` as the file has it, the contiguous axis first; ``offset`` counts from the beginning of the file."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    nbytes: int
    offset: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """``metadata`` keeps scalars, strings and arrays, long ones only if asked; ``lengths`` has every array's length."""

    metadata: dict[str, Any]
    lengths: dict[str, int]
    tensors: tuple[GgufTensor, ...]
    file_bytes: int


def read_gguf_header(path: Path, *, arrays: bool = False) -> GgufHeader:
    """With ``arrays`` also the long ones. Raises ``GgufError`` for a file that is no GGUF, is cut short or corrupt."""
    size = path.stat().st_size
    if size < 24:
        raise GgufError(f"{path.name} is no GGUF file: {size} bytes are too few for a header")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        if data[:4] != MAGIC:
            raise GgufError(f"{path.name} is no GGUF file: it does not begin with GGUF")
        try:
            return _Reader(path.name, data, size, None if arrays else MAX_KEPT_ITEMS).header()
        except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as error:
            raise GgufError(f"{path.name} is cut short or corrupt inside its header") from error


class _Reader:
    def __init__(self, name: str, data: mmap.mmap, size: int, kept_items: int | None) -> None:
        self._name = name
        self._kept_items = kept_items
        self._data = data
        self._size = size
        self._at = 4

    def header(self) -> GgufHeader:
        version = self._scalar("I")
        if version not in VERSIONS:
            raise GgufError(f"{self._name} has GGUF version {version}; supported: 2 and 3, little-endian")
        tensor_count, pair_count = self._scalar("Q"), self._scalar("Q")
        metadata: dict[str, Any] = {}
        lengths: dict[str, int] = {}
        for _ in range(pair_count):
            key = self._string()
            kind = self._scalar("I")
            if kind == _ARRAY:
                items, lengths[key] = self._array()
                if items is not None:
                    metadata[key] = items
            else:
                metadata[key] = self._value(kind)
        tensors = self._tensors(tensor_count, int(metadata.get("general.alignment", 32)))
        return GgufHeader(metadata, lengths, tensors, self._size)

    def _tensors(self, count: int, alignment: int) -> tuple[GgufTensor, ...]:
        tensors, end = [], 0
        for _ in range(count):
            name = self._string()
            shape = tuple(self._scalar("Q") for _ in range(self._scalar("I")))
            kind, offset = self._scalar("I"), self._scalar("Q")
            if kind not in TENSOR_TYPES:
                raise GgufError(f"{self._name}: tensor {name} has the unknown type number {kind}")
            type_name, block, block_bytes = TENSOR_TYPES[kind]
            nbytes = math.prod(shape) // block * block_bytes
            tensors.append(GgufTensor(name, shape, type_name, nbytes, offset))
            end = max(end, offset + nbytes)
        start = math.ceil(self._at / max(1, alignment)) * alignment
        if start + end > self._size:
            raise GgufError(f"{self._name} is cut short: its tensors need {start + end} bytes, it has {self._size}")
        return tuple(replace(tensor, offset=start + tensor.offset) for tensor in tensors)

    def _scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._data, self._at)
        self._at += struct.calcsize("<" + code)
        return value

    def _string(self) -> str:
        length = self._scalar("Q")
        if self._at + length > self._size:
            raise GgufError(f"{self._name} is cut short or corrupt inside its header")
        text = self._data[self._at : self._at + length]
        self._at += length
        return text.decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind not in _SCALARS:
            raise GgufError(f"{self._name}: the unknown value type {kind} in its header")
        return self._scalar(_SCALARS[kind])

    def _array(self) -> tuple[list[Any] | None, int]:
        kind, length = self._scalar("I"), self._scalar("Q")
        if kind != _ARRAY and (self._kept_items is None or length <= self._kept_items):
            return self._items(kind, length), length
        if kind in _SCALARS:
            self._at += length * struct.calcsize("<" + _SCALARS[kind])
        elif kind == _STRING:
            self._skip_strings(length)
        else:
            raise GgufError(f"{self._name}: an array of arrays in its header is not supported")
        if self._at > self._size:
            raise GgufError(f"{self._name} is cut short or corrupt inside its header")
        return None, length

    def _items(self, kind: int, length: int) -> list[Any]:
        if kind not in _SCALARS:
            return [self._value(kind) for _ in range(length)]
        layout = struct.Struct("<" + _SCALARS[kind])
        if self._at + length * layout.size > self._size:
            raise GgufError(f"{self._name} is cut short or corrupt inside its header")
        data = self._data[self._at : self._at + length * layout.size]
        self._at += len(data)
        return [value for (value,) in layout.iter_unpack(data)]

    def _skip_strings(self, count: int) -> None:
        unpack, data, at = struct.Struct("<Q").unpack_from, self._data, self._at
        for _ in range(count):
            at += 8 + unpack(data, at)[0]
        self._at = at


def is_gguf(path: Path) -> bool:
    """By its first bytes, whatever its name."""
    with path.open("rb") as file:
        return os.path.getsize(path) >= 4 and file.read(4) == MAGIC
