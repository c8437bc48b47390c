// The two constants of the roofline, measured with the instructions that a step uses.
#pragma once

#include <chrono>

#include "memory.h"
#include "product.h"
#include "team.h"

inline double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// FLOP/s of products of 32 x 1024 by 1024 x 32 on `threads` cores, from memory close to each; some milliseconds.
inline double product_rate(int threads, bool int8, bool amx) {
    constexpr int kDeep = 1024, kRounds = 200;
    Team team(threads);
    const auto work = [&](int) {
        Planes planes;
        planes.fit(kPair, kDeep);
        Buffer<bf16> a(size_t(kPair) * kDeep), b(size_t(kPair) * kDeep);
        float c[kPair * kPair];
#ifdef BERTH_AMX
        if (amx) shape_for_products(kTile);
#endif
        for (int round = 0; round < kRounds; ++round) {
            if (!int8) {
                multiply(c, kPair, a.data(), size_t(kDeep) * kTile, b.data(), kDeep / kDepth, kPair, amx, {}, false);
                continue;
            }
            const auto* tiles = reinterpret_cast<const int8_t*>(b.data());
            for (int row = 0; row < kPair; row += kTile)
                multiply(c + row * kPair, kPair, planes, row, tiles, kDeep / (2 * kDepth), kTile, amx, {});
        }
#ifdef BERTH_AMX
        if (amx) _tile_release();
#endif
    };
    team.run(threads, work);   // once to warm up
    const auto start = std::chrono::steady_clock::now();
    team.run(threads, work);
    return 2.0 * kPair * kPair * kDeep * kRounds * threads / seconds_since(start);
}

// Bytes/s of reading `bytes` at `data` once: each of `threads` cores its share, in four streams side by side.
inline double read_rate(const uint8_t* data, size_t bytes, int threads) {
    Team team(threads);
    std::atomic<uint32_t> kept{0};
    const std::function<void(int)> work = [&](int member) {
        const size_t stream = bytes / threads / 4 / 64 * 64;
        const uint8_t* first = data + member * 4 * stream;
        UVec sums[4] = {};
        for (size_t at = 0; at < stream; at += 64)
            for (int i = 0; i < 4; ++i) {
                UVec line;
                memcpy(&line, first + i * stream + at, sizeof line);
                sums[i] += line;
            }
        const UVec total = sums[0] + sums[1] + sums[2] + sums[3];
        kept += total[0];   // so that the reads are not optimised away
    };
    const auto start = std::chrono::steady_clock::now();
    team.run(threads, work);
    return double(bytes) / seconds_since(start);
}
