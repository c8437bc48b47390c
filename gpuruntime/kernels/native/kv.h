// Where K and V of a token lie.
#pragma once

#include <cmath>

#include "tile.h"

constexpr int kBlock = 16;        // tokens of a KV block
constexpr int kGroup = kBlock * 16;   // elements of V of 16 dimensions

// One layer's K and V of one block and KV head: K as [head_dim / 2 pairs][16 tokens][2], then V as [head_dim / 16 groups]
// [8 token pairs][16][2], each read from its first byte to its last. In int8 each run of 32 is [even 16 | odd 16] and the tokens' scales follow: 16 of K, 16 of V.
struct KvLayout {
    int head_dim, bits;
    size_t half() const { return size_t(kBlock) * head_dim * bits / 8; }
    size_t bytes() const { return 2 * half() + (bits == 8 ? 2 * kBlock * sizeof(float) : 0); }

    // Element i of a token: where its pair of elements (of K) or of tokens (of V) keeps it.
    void write_key(uint8_t* block, int slot, const float* v) const {
        if (bits == 8) {
            int8_t* to = reinterpret_cast<int8_t*>(block);
            write_int8(block, slot, v, [&](int i) -> int8_t& { return to[i / 2 * 32 + i % 2 * 16 + slot]; });
            return;
        }
        for (int i = 0; i < head_dim; i += 16) {
            alignas(64) bf16 h[16];
            store_bf16(h, load(v + i));
            for (int j = 0; j < 16; j += 2) memcpy(block + ((i + j) / 2 * kBlock + slot) * 4, h + j, 4);
        }
    }

    void write_value(uint8_t* block, int slot, const float* v) const {
        if (bits == 8) {
            int8_t* to = reinterpret_cast<int8_t*>(block + half());
            write_int8(block, kBlock + slot, v, [&](int i) -> int8_t& {
                return to[i / kTile * kGroup + slot / 2 * 32 + slot % 2 * 16 + i % kTile];
            });
            return;
        }
        for (int i = 0; i < head_dim; i += 16) {
            alignas(64) bf16 h[16];
            store_bf16(h, load(v + i));
            uint8_t* pairs = block + half() + (i * kBlock + slot / 2 * 32) * 2;
            UVec both;
            memcpy(&both, pairs, sizeof both);
            both = slot % 2 ? (both & 0xffff) | extend(h) << 16 : (both & 0xffff0000) | extend(h);
            memcpy(pairs, &both, sizeof both);
        }
    }

private:
    template <class Place>
    void write_int8(uint8_t* block, int scale_slot, const float* v, Place place) const {
        IVec most = {};
        for (int i = 0; i < head_dim; i += 16) most = larger_magnitude(most, load(v + i));
        const float scale = magnitude(most) / 127.0f, inverse = scale > 0 ? 1.0f / scale : 0.0f;
        reinterpret_cast<float*>(block + 2 * half())[scale_slot] = scale;
        for (int i = 0; i < head_dim; ++i) place(i) = static_cast<int8_t>(std::lrint(v[i] * inverse));
    }
};
