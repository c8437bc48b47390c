"""The packed layouts, unpacked as ``model.h`` draws them, and the memory they lie in."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpuruntime.kernels.native import library
from gpuruntime.kernels.native.memory import HUGE_PAGE, Arena, huge_memory, make_resident
from gpuruntime.kernels.native.pack import PackedMatrix, interleave, pack
from gpuruntime.kernels.quantize import quantize_rows


def unpacked(packed: PackedMatrix, together: int) -> NDArray[Any]:
    """``W [N, K]`` read element by element: tile ``t`` of depth ``d`` holds ``[16][16 columns][together]``."""
    flat = packed.tiles.reshape(-1).view(torch.int16 if together == 2 else torch.int8).numpy()
    depth = 16 * together
    columns, steps = -(-packed.columns // 32), -(-packed.depth // depth)
    assert flat.size == columns * steps * 2 * 16 * depth
    n, k = np.meshgrid(np.arange(columns * 32), np.arange(steps * depth), indexing="ij")
    tile = (n // 32 * steps + k // depth) * 2 + n % 32 // 16
    place = ((tile * 16 + k % depth // together) * 16 + n % 16) * together + k % together
    found = flat[place]
    assert not found[packed.columns :].any()
    assert not found[:, packed.depth :].any()
    return found[: packed.columns, : packed.depth]


def vector(address: int, count: int) -> NDArray[np.float32]:
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (count,))


@given(n=st.integers(1, 130), k=st.integers(1, 5).map(lambda count: 32 * count), seed=st.integers(0, 99))
def test_bf16_lies_as_drawn(n: int, k: int, seed: int) -> None:
    weight = torch.randn(n, k, generator=torch.Generator().manual_seed(seed))
    packed = pack(Arena(), weight)
    assert np.array_equal(unpacked(packed, 2), weight.bfloat16().view(torch.int16).numpy())
    assert (packed.scale, packed.bias) == (None, None)
    assert (packed.columns, packed.depth) == (n, k)


@given(n=st.integers(1, 130), k=st.integers(1, 5).map(lambda count: 32 * count), seed=st.integers(0, 99))
def test_int8_lies_as_drawn_with_scales_and_bias(n: int, k: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    weight, bias = torch.randn(n, k, generator=random), torch.randn(n, generator=random)
    packed = pack(Arena(), weight, bias, int8=True)
    struct = packed.struct
    scales = vector(struct.scale, -(-n // 32) * 32)
    assert np.array_equal(vector(struct.bias, n), bias.numpy())
    assert not scales[n:].any()
    values = unpacked(packed, 4)
    expected = quantize_rows(weight)
    assert np.array_equal(values, expected.values.numpy())
    assert np.array_equal(scales[:n], expected.scales.numpy())
    # A clipped row errs by more than half a step at its few largest values alone.
    wrong = np.abs(values * scales[:n, None] - weight.numpy())
    assert (wrong.mean(1) < 0.5 * scales[:n]).all()
    assert packed.nbytes == packed.tiles.nbytes + 2 * scales.nbytes


def test_gate_and_up_take_turns_of_16_rows() -> None:
    gate, up = torch.arange(48.0), -torch.arange(48.0) - 1
    mixed = interleave(gate, up).tolist()
    assert mixed == [
        sign * value - (sign < 0)
        for start in (0, 16, 32)
        for sign in (1, -1)
        for value in range(start, start + 16)
    ]  # fmt: skip
    rows = interleave(gate.unsqueeze(1).expand(-1, 3), up.unsqueeze(1).expand(-1, 3))
    assert torch.equal(rows[:, 1], torch.tensor(mixed))


@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=20))
def test_pieces_of_an_arena_are_aligned_zeros_of_their_own(sizes: list[int]) -> None:
    arena = Arena()
    pieces = [arena.take(size) for size in sizes]
    for index, piece in enumerate(pieces):
        assert piece.ctypes.data % 64 == 0
        assert not piece.any()
        piece[:] = index + 1
    assert all((piece == index + 1).all() and len(piece) == sizes[index] for index, piece in enumerate(pieces))


@pytest.mark.parametrize("nbytes", [0, 1, HUGE_PAGE + 1, 40 << 20])
def test_huge_memory_starts_at_a_huge_page(nbytes: int) -> None:
    memory = huge_memory(nbytes)
    assert len(memory) == nbytes
    assert memory.ctypes.data % HUGE_PAGE == 0
    assert len(Arena().take(nbytes)) == nbytes


def pages_here(memory: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which pages of 4 KiB the process has (mincore)."""
    found = np.zeros(-(-len(memory) // 4096), dtype=np.uint8)
    libc = ctypes.CDLL(None)
    where, size = ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(len(memory))
    assert libc.mincore(where, size, ctypes.c_void_p(found.ctypes.data)) == 0
    return found & 1 == 1


def test_memory_becomes_resident_while_it_is_written_and_keeps_what_was_written() -> None:
    memory = huge_memory(48 << 20)
    memory[:100] = 7
    assert not pages_here(memory)[HUGE_PAGE // 4096 :].any()
    asking = make_resident(memory)
    memory[-100:] = 9
    asking.join()
    assert pages_here(memory).all()
    assert (memory[:100] == 7).all()
    assert (memory[-100:] == 9).all()
    assert not memory[100:-100].any()


@pytest.mark.parametrize(("bits", "expected"), [(16, 2 * 16 * 96 * 2), (8, 2 * 16 * (96 + 4))])
def test_bytes_of_a_kv_block(bits: int, expected: int) -> None:
    assert library.library().berth_kv_block_bytes(96, bits) == expected
