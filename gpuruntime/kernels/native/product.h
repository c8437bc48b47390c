// Products of activations with two packed column tiles: bf16 by bf16, or 16-bit integers by int8.
#pragma once

#include <algorithm>

#include "memory.h"
#include "tile.h"

constexpr int kPair = 32;  // columns of two tiles

constexpr int kStepBytes = 2048;   // of two column tiles, one tile deep, whatever their type

inline int round_up(int n, int to) { return (n + to - 1) / to * to; }

// Rows of 16-bit integers with a scale each, as two planes of bytes: value = scale * (256 high + low). int8 weights meet
// activations of 16 bits: rounding those to 8 bits costs ten times the accuracy that rounding the weights does.
struct Planes {
    Buffer<int8_t> high;
    Buffer<uint8_t> low;
    Buffer<float> scale;
    size_t stride = 0;

    void fit(int rows, int columns) {
        stride = round_up(columns, 64) + 64;
        if (high.size() < rows * stride) high.resize(rows * stride), low.resize(rows * stride);
        if (scale.size() < size_t(rows)) scale.resize(rows);
    }

    // Row r from the vectors at(0), at(16), ...; one value that is not finite makes its scale so.
    template <class At>
    void put(int r, int columns, At at) {
        IVec most = {};
        for (int i = 0; i < columns; i += 16) most = larger_magnitude(most, at(i));
        const float top = magnitude(most), inverse = top > 0 ? 32767.0f / top : 0.0f;
        scale[r] = top / 32767.0f;
        for (int i = 0; i < columns; i += 16) {
            const Vec v = at(i) * inverse;
            const IVec whole = __builtin_convertvector(v + (v < 0 ? splat(-0.5f) : splat(0.5f)), IVec);
            shorten(&high[r * stride + i], whole >> 8);
            shorten(reinterpret_cast<int8_t*>(&low[r * stride + i]), whole & 255);
        }
    }
};

// Lines to ask memory for beside each step of a product, from `at` on.
struct Fetch {
    const char* at;
    int lines;
    void step() {
        prefetch(at, lines * 64);
        at += lines * 64;
    }
};

// What block `index` of `blocks` of rows asks for while it is multiplied by `steps` steps of weights at b. A core's misses of its own
// are too few to keep memory busy, and tile loads slow down by half beside as many orders as they have lines: so the only block asks
// for what comes 8 KiB later, and each of several for its part of the weights that come after these.
inline Fetch fetch_beside(const char* b, int steps, int index, int blocks) {
    constexpr int kLines = kStepBytes / 64, kAhead = 8192;
    if (blocks == 1) return {b + kAhead, kLines};
    const int lines = (kLines + blocks - 1) / blocks;
    return {b + size_t(steps) * kStepBytes + size_t(index) * steps * lines * 64, lines};
}

// c[16 rows][32] of row stride ldc = rows of planes from `row` on times two column tiles of int8 over `steps` tiles.
inline void multiply(float* c, size_t ldc, const Planes& a, int row, const int8_t* b, int steps, int rows, bool amx,
                     Fetch fetch) {
    constexpr size_t kBytes = kStepBytes / 2, kStep = kStepBytes;
    const int8_t* high = &a.high[row * a.stride];
    const uint8_t* low = &a.low[row * a.stride];
    alignas(64) int32_t sums[4][kTile][16];   // high and low bytes with the first column tile, then with the second
#ifdef BERTH_AMX
    if (amx) {
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
        for (int k = 0; k < steps; ++k, b += kStep) {
            fetch.step();
            _tile_loadd(4, high + k * 64, a.stride);
            _tile_loadd(5, low + k * 64, a.stride);
            _tile_loadd(6, b, 64);
            _tile_loadd(7, b + kBytes, 64);
            _tile_dpbssd(0, 4, 6);
            _tile_dpbusd(1, 5, 6);
            _tile_dpbssd(2, 4, 7);
            _tile_dpbusd(3, 5, 7);
        }
        _tile_stored(0, sums[0], 64);
        _tile_stored(1, sums[1], 64);
        _tile_stored(2, sums[2], 64);
        _tile_stored(3, sums[3], 64);
    } else
#endif
    {
        for (int r = 0; r < rows; ++r)
            for (int tile = 0; tile < 2; ++tile) {
                IVec high_sums = {}, low_sums = {};
                for (int k = 0; k < steps; ++k)
                    portable_product(&high_sums, &low_sums, high + r * a.stride + k * 64, low + r * a.stride + k * 64,
                                     b + k * kStep + tile * kBytes, 16);
                memcpy(sums[2 * tile][r], &high_sums, sizeof high_sums);
                memcpy(sums[2 * tile + 1][r], &low_sums, sizeof low_sums);
            }
    }
    for (int r = 0; r < rows; ++r)
        for (int tile = 0; tile < 2; ++tile) {
            IVec high_sums, low_sums;
            memcpy(&high_sums, sums[2 * tile][r], sizeof high_sums);
            memcpy(&low_sums, sums[2 * tile + 1][r], sizeof low_sums);
            const Vec total = __builtin_convertvector(high_sums, Vec) * 256.0f + __builtin_convertvector(low_sums, Vec);
            store(c + r * ldc + tile * kTile, total * a.scale[row + r]);
        }
}

// Activations in the order in which products read them: [rows / 16][depth / 32] tiles of [16 rows][32]. What a product makes of
// 16 columns then lands close together; in plain rows each would be half a line far from the last.
struct Activations {
    Buffer<bf16> tiles;
    size_t across = 0;   // elements from 16 rows to the next

    void fit(int rows, int columns) {
        across = size_t(round_up(columns, kDepth)) * kTile + kTileElements;
        const size_t size = round_up(rows, kPair) / kTile * across;
        if (tiles.size() < size) tiles.resize(size);
    }
    bf16* at(int row, int column) {
        return &tiles[row / kTile * across + column / kDepth * kTileElements + row % kTile * kDepth + column % kDepth];
    }
};

// Steps of depth that go over all rows before the next ones: 32 rows of a and the pair of columns, 2 KiB a step each, then
// stay in a first-level cache of 48 KiB. Without it both stream from the second level at a third of the tiles' speed.
constexpr int kStepsClose = 10;

// c[32 or 16 rows][32] of row stride ldc = tiles of a (`across` to the lower 16 rows) times two column tiles over `steps` tiles
// of depth; with `more` it is added to what c holds, in the order of one run over all steps.
inline void multiply(float* c, size_t ldc, const bf16* a, size_t across, const bf16* b, int steps, int rows, bool amx, Fetch fetch,
                     bool more) {
    constexpr size_t kStep = 2 * kTileElements;
    const bool two = rows > kTile;
    float* lower = c + kTile * ldc;
#ifdef BERTH_AMX
    if (amx) {
        if (more) {
            _tile_loadd(0, c, ldc * 4); _tile_loadd(1, c + kTile, ldc * 4);
            if (two) { _tile_loadd(2, lower, ldc * 4); _tile_loadd(3, lower + kTile, ldc * 4); }
        } else {
            _tile_zero(0); _tile_zero(1);
            if (two) { _tile_zero(2); _tile_zero(3); }
        }
        for (int k = 0; k < steps; ++k, a += kTileElements, b += kStep) {
            fetch.step();
            _tile_loadd(4, a, 64);
            _tile_loadd(6, b, 64);
            _tile_loadd(7, b + kTileElements, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            if (two) {
                _tile_loadd(5, a + across, 64);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
        _tile_stored(0, c, ldc * 4);
        _tile_stored(1, c + kTile, ldc * 4);
        if (two) { _tile_stored(2, lower, ldc * 4); _tile_stored(3, lower + kTile, ldc * 4); }
        return;
    }
#endif
    for (int row = 0; row < rows && !more; ++row) store(c + row * ldc, Vec{}), store(c + row * ldc + kTile, Vec{});
    for (int k = 0; k < steps; ++k, a += kTileElements, b += kStep)
        for (int half = 0; half <= two; ++half)
            for (int tile = 0; tile < 2; ++tile)
                portable_product(c + half * kTile * ldc + tile * kTile, ldc, a + half * across, kDepth, b + tile * kTileElements, 32,
                                 half ? rows - kTile : std::min(rows, kTile), kTile);
}
