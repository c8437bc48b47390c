// Products of activations with two packed column tiles: bf16 by bf16, or 16-bit integers by int8.
#pragma once

#include "memory.h"
#include "tile.h"

constexpr int kPair = 32;  // columns of two tiles

// The first rows to meet a matrix read it from memory, each core one run of addresses; so far ahead (bytes) of the
// tile loads, whose own misses are too few to keep memory busy.
constexpr int kAhead = 8192;

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

// c[16 rows][32] of row stride ldc = rows of planes from `row` on times two column tiles of int8 over `steps` tiles.
inline void multiply(float* c, size_t ldc, const Planes& a, int row, const int8_t* b, int steps, int rows, bool amx,
                     bool fetch) {
    constexpr size_t kBytes = 1024, kStep = 2 * kBytes;
    const int8_t* high = &a.high[row * a.stride];
    const uint8_t* low = &a.low[row * a.stride];
    alignas(64) int32_t sums[4][kTile][16];   // high and low bytes with the first column tile, then with the second
#ifdef BERTH_AMX
    if (amx) {
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
        for (int k = 0; k < steps; ++k, b += kStep) {
            if (fetch) prefetch(b + kAhead, kStep);
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

// Steps of depth that go over all rows before the next ones: 32 rows of a and the pair of columns, 2 KiB a step each, then
// stay in a first-level cache of 48 KiB. Without it both stream from the second level at a third of the tiles' speed.
constexpr int kStepsClose = 10;

// c[32 or 16 rows][32] of row stride ldc = a (row stride lda) times two column tiles over `steps` tiles of depth; with
// `more` it is added to what c holds, in the order of one run over all steps.
inline void multiply(float* c, size_t ldc, const bf16* a, size_t lda, const bf16* b, int steps, int rows, bool amx, bool fetch,
                     bool more) {
    constexpr size_t kStep = 2 * kTileElements;
#ifdef BERTH_AMX
    if (amx) {
        const bool two = rows > kTile;
        float* lower = c + kTile * ldc;
        if (more) {
            _tile_loadd(0, c, ldc * 4); _tile_loadd(1, c + kTile, ldc * 4);
            if (two) { _tile_loadd(2, lower, ldc * 4); _tile_loadd(3, lower + kTile, ldc * 4); }
        } else {
            _tile_zero(0); _tile_zero(1);
            if (two) { _tile_zero(2); _tile_zero(3); }
        }
        for (int k = 0; k < steps; ++k, b += kStep) {
            if (fetch) prefetch(b + kAhead / sizeof *b, kStep * sizeof *b);
            _tile_loadd(4, a + k * kDepth, lda * 2);
            _tile_loadd(6, b, 64);
            _tile_loadd(7, b + kTileElements, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            if (two) {
                _tile_loadd(5, a + kTile * lda + k * kDepth, lda * 2);
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
    for (int k = 0; k < steps; ++k, b += kStep) {
        portable_product(c, ldc, a + k * kDepth, lda, b, 32, rows, kTile);
        portable_product(c + kTile, ldc, a + k * kDepth, lda, b + kTileElements, 32, rows, kTile);
    }
}
