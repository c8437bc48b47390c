// What Python hands over: plain structures of pointers and sizes, mirrored in kernels/native/library.py.
#pragma once

#include <cstdint>

#include "tile.h"

extern "C" {

// y = x W^T. Packed as [N / 32][K / 32][2 column tiles] of tiles [16 pairs][16][2] in bf16, or [N / 32][K / 64][2 column
// tiles] of tiles [16 quads][16][4] in int8 with one scale a column; N and K are padded with zeros.
struct Matrix {
    const void* tiles;
    const float* scale;   // [N] where the tiles are int8, else null
    const float* bias;    // [N] or null
    int32_t columns;      // N
    int32_t depth;        // K
};

struct Layer {
    const float* input_norm;   // [hidden]
    const float* post_norm;    // [hidden]
    const float* q_norm;       // [head_dim] or null
    const float* k_norm;       // [head_dim] or null
    Matrix qkv;                // columns: key heads, query heads, value heads
    Matrix out;
    Matrix gate_up;            // columns: 16 of gate, 16 of up, 16 of gate, ...
    Matrix down;
    int32_t window;            // tokens a token sees, itself included; 0: all
    int32_t unused;
};

struct Model {
    const Layer* layers;
    const bf16* embedding;     // [vocab][hidden]
    const float* final_norm;   // [hidden]
    const float* cosines;      // [max_len][head_dim / 2]
    const float* sines;
    uint8_t* kv;               // [layers][blocks][kv_heads] KV blocks
    Matrix head;
    int64_t num_blocks;
    int32_t num_layers, hidden, middle, heads, kv_heads, head_dim, vocab;
    int32_t kv_bits;           // 16 or 8
    float eps;
    float attention_scale;     // of q k^T
};

// One step; see engine/executor.py: StepBatch. One of `logits` [R][vocab], `states` [R][hidden] and
// `picks` [R] is filled.
struct Batch {
    const int32_t* token_ids;
    const int32_t* begins;
    const int32_t* positions;
    const int32_t* tables;
    const int32_t* logits_rows;
    float* logits;
    float* states;             // what the head would read
    int32_t* picks;
    int32_t tokens, rows, width, wanted;
};

}  // extern "C"
