// Vectors of 16 floats and products of bf16 tiles.
//
// One tile product is C[16][16] += A[16][32] B[32][16], where B holds pairs of rows: [16 pairs][16 columns][2]. AMX does
// it in one instruction (Intel SDM, TDPBF16PS): from zero it sums the even and the odd elements apart, in order, and
// adds both to C. `portable_product` does the same additions in the same order, so both give the same bits, and each row
// of C depends on its own row of A alone: what else is in a batch changes nothing.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__AMX_BF16__) && defined(__AMX_TILE__)
#define BERTH_AMX 1
#endif

#define INLINE inline __attribute__((always_inline))

using bf16 = uint16_t;
typedef float Vec __attribute__((vector_size(64)));
typedef int32_t IVec __attribute__((vector_size(64)));
typedef uint32_t UVec __attribute__((vector_size(64)));
typedef uint16_t Half __attribute__((vector_size(32)));
typedef int8_t Byte __attribute__((vector_size(16)));

constexpr int kTile = 16;                       // rows and columns of C
constexpr int kDepth = 32;                      // elements of A's row in one product
constexpr int kTileElements = kTile * kDepth;   // of B

INLINE Vec splat(float x) { return Vec{} + x; }
INLINE Vec load(const float* p) { Vec v; memcpy(&v, p, sizeof v); return v; }
INLINE void store(float* p, Vec v) { memcpy(p, &v, sizeof v); }

// 16 values of 16 or 8 bits to 32 and back. gcc 12 takes the general forms apart element by element.
#ifdef __AVX512F__
INLINE UVec extend(const uint16_t* p) { return (UVec)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)); }
INLINE IVec extend(const int8_t* p) { return (IVec)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)); }
INLINE void shorten(uint16_t* p, UVec v) { _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16((__m512i)v)); }
INLINE void shorten(int8_t* p, IVec v) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8((__m512i)v)); }
#else
INLINE UVec extend(const uint16_t* p) { Half h; memcpy(&h, p, sizeof h); return __builtin_convertvector(h, UVec); }
INLINE IVec extend(const int8_t* p) { Byte b; memcpy(&b, p, sizeof b); return __builtin_convertvector(b, IVec); }
INLINE void shorten(uint16_t* p, UVec v) { Half h = __builtin_convertvector(v, Half); memcpy(p, &h, sizeof h); }
INLINE void shorten(int8_t* p, IVec v) { Byte b = __builtin_convertvector(v, Byte); memcpy(p, &b, sizeof b); }
#endif

INLINE Vec widen(const bf16* p) { return (Vec)(extend(p) << 16); }
INLINE Vec widen(const int8_t* p) { return __builtin_convertvector(extend(p), Vec); }
// Round to nearest, ties to even. The instruction takes denormals as zero, as a step's products do in any case.
INLINE void store_bf16(bf16* p, Vec v) {
#ifdef __AVX512BF16__
    const __m256bh rounded = _mm512_cvtneps_pbh((__m512)v);
    memcpy(p, &rounded, sizeof rounded);
#else
    UVec u = (UVec)v;
    u += 0x7fff + ((u >> 16) & 1);
    shorten(p, u >> 16);
#endif
}
#ifdef __AVX512F__
INLINE Vec larger(Vec a, Vec b) { return (Vec)_mm512_max_ps((__m512)a, (__m512)b); }
#else
INLINE Vec larger(Vec a, Vec b) { return a > b ? a : b; }
#endif
// Running |largest| by bits, which order like the values and put infinity and NaN on top, so that neither gets lost.
INLINE IVec larger_magnitude(IVec most, Vec v) {
    const IVec bits = (IVec)v & 0x7fffffff;
    return bits > most ? bits : most;
}
// The lanes of v moved down by 8, 4, 2 and 1 in turn meet those below.
template <class Join>
INLINE float fold(Vec v, Join join) {
    v = join(v, __builtin_shuffle(v, IVec{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
    v = join(v, __builtin_shuffle(v, IVec{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
    v = join(v, __builtin_shuffle(v, IVec{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
    v = join(v, __builtin_shuffle(v, IVec{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14}));
    return v[0];
}
INLINE float sum(Vec v) { return fold(v, [](Vec a, Vec b) { return a + b; }); }
INLINE float maximum(Vec v) { return fold(v, larger); }

// The float whose bits are the largest of 16 that ``larger_magnitude`` kept.
INLINE float magnitude(IVec bits) {
    int32_t most = bits[0];
    for (int i = 1; i < 16; ++i) most = bits[i] > most ? bits[i] : most;
    float value;
    memcpy(&value, &most, sizeof value);
    return value;
}

// 2^x for x <= 0, and 0 below -126: 2^n times a polynomial of the rest (degree 4, minimax on [-0.5, 0.5], relative error below
// 3e-6: what it makes becomes bf16). NaN stays.
INLINE Vec power_of_two(Vec x) {
    constexpr float kToWhole = 12582912.0f;   // 1.5 * 2^23: a sum with it is rounded to a whole number, kept in its last bits
    x = larger(splat(-127.0f), x);
    const Vec n = x + kToWhole;
    const Vec f = x - (n - kToWhole);
    Vec p = f * 9.5701e-3f + 5.591786e-2f;
    p = p * f + 0.24024745f;
    p = p * f + 0.69312181f;
    p = p * f + 0.99999926f;
    return x < -126.0f ? Vec{} : (Vec)((IVec)p + ((IVec)n << 23));
}
constexpr float kLog2E = 1.44269504f;
// e^x for x <= 0.
INLINE Vec exponential(Vec x) { return power_of_two(x * kLog2E); }

// 1 / d for d in [1, 2]: the polynomial of degree 2 whose error, at most 1/99, is least (1 - d p(d) is a Chebyshev polynomial),
// then two of Newton's steps. A division takes as long as all of a sigmoid's other instructions.
INLINE Vec inverse_of_1_to_2(Vec d) {
    Vec p = (d * (32.0f / 99) - 144.0f / 99) * d + 210.0f / 99;
    p = p * (2.0f - d * p);
    return p * (2.0f - d * p);
}

// C[rows][16] (row stride ldc) += A[rows][2 * pairs] B[pairs][16][2] (row stride ldb elements).
INLINE void portable_product(float* c, size_t ldc, const bf16* a, size_t lda, const bf16* b, size_t ldb, int rows, int pairs) {
    for (int row = 0; row < rows; ++row) {
        Vec even = {}, odd = {};
        for (int pair = 0; pair < pairs; ++pair) {
            UVec both;
            memcpy(&both, b + pair * ldb, sizeof both);
            uint32_t x;
            memcpy(&x, a + row * lda + 2 * pair, sizeof x);
            const uint32_t low = x << 16, high = x & 0xffff0000u;
            float first, second;
            memcpy(&first, &low, 4);
            memcpy(&second, &high, 4);
            even += first * (Vec)(both << 16);
            odd += second * (Vec)(both & 0xffff0000u);
        }
        store(c + row * ldc, load(c + row * ldc) + (even + odd));
    }
}

// As portable_product, of 16-bit integers (high and low bytes apart) with int8: exact, so in any order.
// high, low: [rows][4 * quads], signed and unsigned; b: [quads][16][4]; c += 256 high b + low b, as floats.
INLINE void portable_product(IVec* high_sums, IVec* low_sums, const int8_t* high, const uint8_t* low, const int8_t* b, int quads) {
    for (int quad = 0; quad < quads; ++quad) {
        IVec four;
        memcpy(&four, b + quad * 64, sizeof four);
        for (int i = 0; i < 4; ++i) {
            const IVec w = four << (24 - 8 * i) >> 24;
            *high_sums += w * int32_t(high[quad * 4 + i]);
            *low_sums += w * int32_t(low[quad * 4 + i]);
        }
    }
}

// int8 rows of pairs, [pairs][even 16 | odd 16], to bf16 pairs [pairs][16][2]. Every int8 is a bf16 exactly: the lower
// half of its float is zero, so the even floats move down and the odd ones are or-ed above them.
INLINE void widen_pairs(bf16* to, size_t ldt, const int8_t* from, size_t ldf, int pairs) {
    for (int pair = 0; pair < pairs; ++pair) {
        const UVec both = ((UVec)widen(from + pair * ldf) >> 16) | (UVec)widen(from + pair * ldf + 16);
        memcpy(to + pair * ldt, &both, sizeof both);
    }
}

// Into the second cache: what comes early must not push out what is in use.
INLINE void prefetch(const void* p, int bytes) {
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(p) + i, 0, 2);
}

#ifdef BERTH_AMX
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};

    constexpr TileShapes() {
        for (int i = 0; i < 8; ++i) row_bytes[i] = 64, rows[i] = 16;
    }
    constexpr TileShapes with(int tile, int tile_rows, int bytes) const {
        TileShapes changed = *this;
        changed.rows[tile] = static_cast<uint8_t>(tile_rows);
        changed.row_bytes[tile] = static_cast<uint16_t>(bytes);
        return changed;
    }
};

// Shapes must be in memory as a whole: gcc takes only the first bytes of what _tile_loadconfig is given as read.
//
// Tiles 0-3 are C. Of products 4 and 5 are A, 6 and 7 B. Of attention 4 are queries, 5 keys, 6 weights of 16 tokens (32
// bytes a row), 7 values of one block. C and A have as many rows as are in use: an instruction takes its time by rows.
struct ShapeTable {
    TileShapes products[kTile + 1], attention[kTile + 1];

    ShapeTable() {
        for (int r = 1; r <= kTile; ++r) {
            for (int c = 0; c < 6; ++c) products[r] = products[r].with(c, r, 64);
            for (int c = 0; c < 5; ++c) attention[r] = attention[r].with(c, r, 64);
            attention[r] = attention[r].with(6, r, 32).with(7, 8, 64);
        }
    }
};
inline const ShapeTable kShapes;

inline void shape_for_products(int rows) { _tile_loadconfig(&kShapes.products[rows < kTile ? rows : kTile]); }
inline void shape_for_attention(int rows) { _tile_loadconfig(&kShapes.attention[rows]); }

// Asks the kernel, once a process, for the tile registers' state (Linux, arch_prctl ARCH_REQ_XCOMP_PERM, feature 18).
inline bool amx_granted() {
    static const bool granted = syscall(SYS_arch_prctl, 0x1023, 18) == 0;
    return granted;
}
#endif
