// Causal attention of up to 16 rows (tokens x query heads of one KV head) over the blocks of one request.
//
// All scores first, then one softmax a row, then P V: no running maximum, so a row's result does not depend on which
// rows or blocks share its pass. Blocks outside a row's view weigh exactly zero.
#pragma once

#include <vector>

#include "kv.h"
#include "memory.h"

// Elements from one row of scores to the next: whole groups of four blocks, and some more so that 16 rows lie in different
// sets of the first cache.
constexpr size_t row_stride(int num_blocks) { return size_t((num_blocks + 3) / 4 * 4 + 1) * kBlock; }

struct AttentionScratch {
    Buffer<float> scores;      // [16][stride]; a row's weights, in bf16, take the place of its scores
    Buffer<bf16> widened;      // int8 blocks as bf16
    std::vector<const uint8_t*> blocks, next;
    alignas(64) float out[kTile * 64];

    void fit(int num_blocks, int head_dim) {
        const size_t stride = row_stride(num_blocks);
        if (scores.size() < kTile * stride) scores.resize(kTile * stride);
        if (widened.size() < size_t(4 * kBlock * head_dim)) widened.resize(4 * kBlock * head_dim);
    }
};

struct Attention {
    const KvLayout& layout;
    bool amx;
    const bf16* q;              // [16 or more rows][head_dim]
    AttentionScratch& scratch;
    int rows;                   // in use
    int first[kTile], last[kTile];   // the tokens each row sees, relative to the first block: [first, last)
    int num_blocks;
    float scale;
    const uint8_t* const* next;   // blocks of the task after this one
    int num_next;

    // The first lines of what is read some blocks later: the processor follows a run that has begun by itself, and does so
    // faster than it takes orders for each line (13.4 against 9.6 GB/s a core, measured).
    static void start(const uint8_t* run) { prefetch(run, 256); }
    void start_after_keys(int b) const {
        if (b < num_blocks) start(scratch.blocks[b]);
        else if (b < 2 * num_blocks) start(scratch.blocks[b - num_blocks] + layout.half());
    }
    void start_after_values(int b) const {
        if (b < num_blocks) start(scratch.blocks[b] + layout.half());
        else if (b - num_blocks < num_next) start(next[b - num_blocks]);
    }

    size_t stride() const { return row_stride(num_blocks); }
    const float* key_scales(int b) const { return reinterpret_cast<const float*>(scratch.blocks[b] + 2 * layout.half()); }
    const float* value_scales(int b) const { return key_scales(b) + kBlock; }

    const bf16* keys(int b, int slot) {
        if (layout.bits == 16) return reinterpret_cast<const bf16*>(scratch.blocks[b]);
        bf16* to = scratch.widened.data() + slot * kBlock * layout.head_dim;
        widen_pairs(to, 32, reinterpret_cast<const int8_t*>(scratch.blocks[b]), 32, layout.head_dim / 2);
        return to;
    }

    const bf16* values(int b, int slot) {
        const uint8_t* from = scratch.blocks[b] + layout.half();
        if (layout.bits == 16) return reinterpret_cast<const bf16*>(from);
        bf16* to = scratch.widened.data() + slot * kBlock * layout.head_dim;
        widen_pairs(to, 32, reinterpret_cast<const int8_t*>(from), 32, kBlock / 2 * layout.head_dim / kTile);
        return to;
    }

    void score() {
        const size_t stride = this->stride();
        const int depth_tiles = layout.head_dim / kDepth;
        for (int b = 0; b < num_blocks; b += 4) {
            const bf16* k[4];
            for (int j = 0; j < 4; ++j) {
                const int at = b + j < num_blocks ? b + j : num_blocks - 1;
                start_after_keys(b + 4 + j);
                k[j] = keys(at, j);
            }
            float* to = scratch.scores.data() + size_t(b) * kBlock;
#ifdef BERTH_AMX
            if (amx) {
                _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
                for (int d = 0; d < depth_tiles; ++d) {
                    _tile_loadd(4, q + d * kDepth, layout.head_dim * 2);
                    _tile_loadd(5, k[0] + d * kTileElements, 64); _tile_dpbf16ps(0, 4, 5);
                    _tile_loadd(5, k[1] + d * kTileElements, 64); _tile_dpbf16ps(1, 4, 5);
                    _tile_loadd(5, k[2] + d * kTileElements, 64); _tile_dpbf16ps(2, 4, 5);
                    _tile_loadd(5, k[3] + d * kTileElements, 64); _tile_dpbf16ps(3, 4, 5);
                }
                _tile_stored(0, to, stride * 4);
                _tile_stored(1, to + 16, stride * 4);
                _tile_stored(2, to + 32, stride * 4);
                _tile_stored(3, to + 48, stride * 4);
                continue;
            }
#endif
            for (int j = 0; j < 4; ++j) {
                for (int r = 0; r < rows; ++r) store(to + r * stride + j * kBlock, Vec{});
                for (int d = 0; d < depth_tiles; ++d)
                    portable_product(to + j * kBlock, stride, q + d * kDepth, layout.head_dim, k[j] + d * kTileElements,
                                     32, rows, kTile);
            }
        }
    }

    // Scores of row r to weights whose sum is returned; V's scales of int8 are folded into the weights.
    float soften(int r) {
        float* scores = scratch.scores.data() + r * stride();
        bf16* weights = reinterpret_cast<bf16*>(scores);
        const int begin = first[r] / kBlock, end = (last[r] + kBlock - 1) / kBlock;   // the blocks it sees some of
        const bool plain = layout.bits == 16;
        for (int b = begin; b < end && !plain; ++b) store(scores + b * kBlock, load(scores + b * kBlock) * load(key_scales(b)));
        for (int b : {begin, end - 1}) hide(scores + b * kBlock, first[r] - b * kBlock, last[r] - b * kBlock);
        Vec most = splat(-INFINITY);
        for (int b = begin; b < end; ++b) most = larger(most, load(scores + b * kBlock));
        const float factor = scale * kLog2E, top = maximum(most) * factor;
        Vec total = {};
        for (int b = begin; b < end; ++b) {
            Vec p = power_of_two(load(scores + b * kBlock) * factor - top);
            total += p;
            if (!plain) p = p * load(value_scales(b));
            store_bf16(weights + b * kBlock, p);
        }
        memset(weights, 0, begin * kBlock * sizeof *weights);
        memset(weights + end * kBlock, 0, (num_blocks - end) * kBlock * sizeof *weights);
        return sum(total);
    }

    // Scores of one block outside [from, to) to minus infinity.
    static void hide(float* s, int from, int to) {
        const IVec token = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        store(s, (token >= from) & (token < to) ? load(s) : splat(-INFINITY));
    }

    // out[16][16 * groups] = P V for the head's dimensions from 16 * group on; 2 or 4 groups.
    template <int groups>
    void mix(int group) {
        const size_t stride = this->stride();
        const bf16* weights = reinterpret_cast<const bf16*>(scratch.scores.data());
#ifdef BERTH_AMX
        if (amx) {
            _tile_zero(0); _tile_zero(1);
            if (groups == 4) { _tile_zero(2); _tile_zero(3); }
            for (int b = 0; b < num_blocks; ++b) {
                start_after_values(b + 3);
                const bf16* v = values(b, b & 3) + group * kGroup;
                _tile_loadd(6, weights + b * kBlock, stride * 4);
                _tile_loadd(7, v, 64); _tile_dpbf16ps(0, 6, 7);
                _tile_loadd(7, v + kGroup, 64); _tile_dpbf16ps(1, 6, 7);
                if (groups == 4) {
                    _tile_loadd(7, v + 2 * kGroup, 64); _tile_dpbf16ps(2, 6, 7);
                    _tile_loadd(7, v + 3 * kGroup, 64); _tile_dpbf16ps(3, 6, 7);
                }
            }
            _tile_stored(0, scratch.out, 256);
            _tile_stored(1, scratch.out + 16, 256);
            if (groups == 4) { _tile_stored(2, scratch.out + 32, 256); _tile_stored(3, scratch.out + 48, 256); }
            return;
        }
#endif
        memset(scratch.out, 0, sizeof scratch.out);
        for (int b = 0; b < num_blocks; ++b) {
            const bf16* v = values(b, b & 3) + group * kGroup;
            for (int g = 0; g < groups; ++g)
                portable_product(scratch.out + g * kTile, 64, weights + b * kBlock, 2 * stride, v + g * kGroup,
                                 32, rows, kBlock / 2);
        }
    }

    // Element i of row r is put to at(r, i), 16 side by side.
    template <class At>
    void run(At at) {
#ifdef BERTH_AMX
        if (amx) shape_for_attention(rows);
#endif
        score();
        float totals[kTile];
        for (int r = 0; r < rows; ++r) totals[r] = soften(r);
        const int groups = layout.head_dim / kTile;
        for (int group = 0; group < groups; group += 4) {
            const int here = groups - group < 4 ? 2 : 4;
            here == 4 ? mix<4>(group) : mix<2>(group);
            for (int r = 0; r < rows; ++r)
                for (int g = 0; g < here; ++g)
                    store_bf16(at(r, (group + g) * kTile), load(scratch.out + r * 64 + g * kTile) / totals[r]);
        }
    }
};
