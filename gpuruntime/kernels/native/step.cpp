// One decoder step on a CPU in one call: embedding, every layer, the head and the greedy pick, for a mixed batch of decodes
// and prefill chunks. It covers the Llama block (RMSNorm, rotary positions, grouped queries, SwiGLU) with optional
// biases, query and key norms and sliding windows.
//
// The weights are read once a step, so at small batches the floor is their bytes over the memory's bandwidth. Every
// product is of bf16 tiles into fp32 (tile.h); the residual stream, norms, rotation and softmax are fp32. One unit of a
// product is some 32 columns over all rows, so its weights are read once and its result is finished where it was made:
// rotation and the KV write follow the query-key-value product, SwiGLU the gate and up product.
//
//   norm | qkv + rotation + KV write | attention | out + residual | norm | gate, up + SwiGLU | down + residual | ...
//        ^ each bar is a barrier of the team
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

#include "attention.h"
#include "model.h"
#include "probe.h"
#include "product.h"
#include "team.h"
#include "tile.h"

namespace {

enum Phase { kNorm, kQkv, kAttention, kOut, kGateUp, kDown, kHead, kPhases };

struct Scratch {
    Buffer<float> c;   // [rows, rounded up][columns of a unit]
    AttentionScratch attention;
};

// From so many rows a member on, members share rows out instead of columns: what one makes of a row then never moves to
// another core, which by then costs more than weights that every core reads.
constexpr int kManyRows = 192;

class Step {
public:
    Step(const Model& model, int threads)
        : model_(model), layers_(model.layers, model.layers + model.num_layers), team_(threads), scratch_(threads),
          layout_{model.head_dim, model.kv_bits} {
#ifdef BERTH_AMX
        amx_ = amx_granted();
#endif
    }

    bool amx() const { return amx_; }
    void use_amx([[maybe_unused]] bool wanted) {
#ifdef BERTH_AMX
        amx_ = wanted && amx_granted();
#endif
    }
    const double* seconds() const { return seconds_; }

    // False when logits are not finite.
    bool run(const Batch& batch, int threads) {
        batch_ = &batch;
        group_ = model_.heads / model_.kv_heads;
        fit();
        finite_ = true;
        mark_ = std::chrono::steady_clock::now();
        team_.run(threads, [this](int member) { work(member); });
        if (batch.picks) pick();
        return finite_;
    }

private:
    void fit() {
        const int tokens = batch_->tokens, padded = round_up(tokens, kPair), wanted = round_up(batch_->wanted, kPair);
        if (int8()) planes_.fit(std::max(padded, wanted), std::max({model_.hidden, model_.middle, model_.heads * model_.head_dim}));
        grow(residual_, size_t(padded) * model_.hidden);
        x_.fit(std::max(padded, wanted), model_.hidden);
        y_.fit(padded, std::max(model_.middle, model_.heads * model_.head_dim));
        grow(q_, (size_t(tokens) * model_.heads + kTile) * model_.head_dim);
        grow(row_of_, size_t(tokens));
        for (int row = 0; row < batch_->rows; ++row)
            for (int t = batch_->begins[row]; t < batch_->begins[row + 1]; ++t) row_of_[t] = row;
        list_tasks();
        grow(best_, size_t(team_most()) * wanted);
        for (auto& best : best_) best = {splat(-INFINITY), IVec{}};
        const int columns = std::max(round_up(model_.head_dim, kPair), kPair);
        for (auto& s : scratch_) grow(s.c, size_t(std::max(padded, wanted)) * columns);
    }

    template <class Vector>
    static void grow(Vector& v, size_t size) { if (v.size() < size) v.resize(size); }

    int team_most() const { return static_cast<int>(scratch_.size()); }

    int position(int token) const { return batch_->positions[row_of_[token]] + token - batch_->begins[row_of_[token]]; }

    void work(int member) {
        const unsigned control = flush_denormals();
        embed(member);
        for (int index = 0; index < model_.num_layers; ++index) {
            const Layer& layer = layers_[index];
            normalize(member, layer.input_norm, nullptr, batch_->tokens);
            meet(member, kNorm);
            qkv(member, layer, index);
            if (member == 0) next_task_.store(0, std::memory_order_relaxed);
            meet(member, kQkv);
            attend(member, layer, index);
            meet(member, kAttention);
            requantize(member, model_.heads * model_.head_dim);
            add(member, layer.out, y_);
            meet(member, kOut);
            normalize(member, layer.post_norm, nullptr, batch_->tokens);
            meet(member, kNorm);
            gate_up(member, layer);
            meet(member, kGateUp);
            requantize(member, model_.middle);
            add(member, layer.down, y_);
            meet(member, kDown);
        }
        if (batch_->wanted > 0 && batch_->states) {
            put_states(member);
            meet(member, kNorm);
        } else if (batch_->wanted > 0) {
            normalize(member, model_.final_norm, batch_->logits_rows, batch_->wanted);
            meet(member, kNorm);
            head(member);
            meet(member, kHead);
        }
#ifdef BERTH_AMX
        if (amx_) _tile_release();
#endif
        restore(control);
    }

    void meet(int member, Phase phase) {
        team_.barrier();
        if (member != 0) return;
        const auto now = std::chrono::steady_clock::now();
        seconds_[phase] += std::chrono::duration<double>(now - mark_).count();
        mark_ = now;
    }

    std::pair<int, int> share(int member, int units) const {
        const int n = team_.size();
        return {int(int64_t(units) * member / n), int(int64_t(units) * (member + 1) / n)};
    }

    bool by_rows(int rows) const { return rows >= kManyRows * team_.size(); }

    // The rows that a member embeds and normalizes; whole tiles where it multiplies the same ones.
    std::pair<int, int> own(int member, int rows) const {
        if (!by_rows(rows)) return share(member, rows);
        const auto [begin, end] = share(member, (rows + kTile - 1) / kTile);
        return {begin * kTile, std::min(end * kTile, rows)};
    }

    void embed(int member) {
        const auto [begin, end] = own(member, batch_->tokens);
        for (int t = begin; t < end; ++t) {
            const bf16* from = model_.embedding + size_t(batch_->token_ids[t]) * model_.hidden;
            for (int i = 0; i < model_.hidden; i += 16) store(&residual_[size_t(t) * model_.hidden + i], widen(from + i));
        }
        team_.barrier();
    }

    // RMSNorm of residual rows (all, or those listed) into x_ as bf16.
    void normalize(int member, const float* weight, const int32_t* listed, int count) {
        const auto [begin, end] = own(member, count);
        for (int row = begin; row < end; ++row) {
            const float* from = &residual_[size_t(listed ? listed[row] : row) * model_.hidden];
            const float factor = inverse_rms(from, model_.hidden);
            const auto at = [&](int i) { return load(from + i) * factor * load(weight + i); };
            if (int8()) {
                planes_.put(row, model_.hidden, at);
                continue;
            }
            for (int i = 0; i < model_.hidden; i += 16) store_bf16(x_.at(row, i), at(i));
        }
    }

    void put_states(int member) {
        const auto [begin, end] = own(member, batch_->wanted);
        for (int row = begin; row < end; ++row) {
            const float* from = &residual_[size_t(batch_->logits_rows[row]) * model_.hidden];
            const float factor = inverse_rms(from, model_.hidden);
            for (int i = 0; i < model_.hidden; i += 16)
                store(batch_->states + size_t(row) * model_.hidden + i, load(from + i) * factor * load(model_.final_norm + i));
        }
    }

    bool int8() const { return model_.head.scale != nullptr; }

    // The rows of y_ as planes, where the next product is of int8.
    void requantize(int member, int columns) {
        if (!int8()) return;
        const auto [begin, end] = own(member, batch_->tokens);
        for (int row = begin; row < end; ++row)
            planes_.put(row, columns, [&](int i) { return widen(y_.at(row, i)); });
        team_.barrier();
    }

    float inverse_rms(const float* x, int size) const {
        Vec squares = {};
        for (int i = 0; i < size; i += 16) squares += load(x + i) * load(x + i);
        return 1.0f / std::sqrt(sum(squares) / size + model_.eps);
    }

    // Products of the units' columns with all rows of a. done(unit, from, count, c) finishes rows [from, from + count) of one
    // unit while they are close, c [count][columns].
    template <class Done>
    void product(int member, const Matrix& w, Activations& a, int rows, int columns, Done done) {
        const int pairs = columns / kPair, depth = w.scale ? 2 * kDepth : kDepth, steps = round_up(w.depth, depth) / depth;
        const int passes = w.scale || rows <= kPair ? 1 : (steps + kStepsClose - 1) / kStepsClose;
        const size_t pair = size_t(steps) * kStepBytes;
        const int units = (w.columns + columns - 1) / columns;
        const auto [top, bottom] = by_rows(rows) ? own(member, rows) : std::pair{0, rows};
        const auto [begin, end] = by_rows(rows) ? std::pair{0, units} : share(member, units);
        const int blocks = (bottom - top + kPair - 1) / kPair;
        shape_products(bottom - top);
        for (int unit = begin; unit < end; ++unit)
            for (int p = 0; p < pairs; ++p)
                for (int pass = 0; pass < passes; ++pass)
                    for (int from = top; from < bottom; from += kPair) {
                        const int count = std::min(kPair, bottom - from);
                        float* c = scratch_[member].c.data() + size_t(from - top) * columns;
                        multiply_pair(c + p * kPair, columns, w, (size_t(unit) * pairs + p) * pair, a, from, count,
                                      steps * pass / passes, steps * (pass + 1) / passes, (from - top) / kPair, blocks);
                        if (p + 1 < pairs || pass + 1 < passes) continue;
                        if (w.scale || w.bias) finish(w, c, unit * columns, count, columns);
                        done(unit, from, count, c);
                    }
    }

    // Steps [begin, end) of rows [from, from + count) with the pair of columns at `at`, in block `index` of `blocks` of rows.
    void multiply_pair(float* c, int columns, const Matrix& w, size_t at, Activations& a, int from, int count, int begin, int end,
                       int index, int blocks) {
        const char* b = static_cast<const char*>(w.tiles) + at + size_t(begin) * kStepBytes;
        const Fetch fetch = fetch_beside(b, end - begin, index, blocks);
        if (!w.scale) {
            multiply(c, columns, a.at(from, begin * kDepth), a.across, reinterpret_cast<const bf16*>(b), end - begin, count, amx_, fetch,
                     begin > 0);
            return;
        }
        for (int row = 0; row < count; row += kTile)
            multiply(c + size_t(row) * columns, columns, planes_, from + row, reinterpret_cast<const int8_t*>(b), end - begin,
                     std::min(kTile, count - row), amx_, row == 0 ? fetch : Fetch{});
    }

    static void finish(const Matrix& w, float* c, int column, int rows, int columns) {
        for (int row = 0; row < rows; ++row)
            for (int i = 0; i < columns; i += 16) {
                Vec v = load(c + size_t(row) * columns + i);
                if (w.scale) v = v * load(w.scale + column + i);
                if (w.bias) v = v + load(w.bias + column + i);
                store(c + size_t(row) * columns + i, v);
            }
    }

    void qkv(int member, const Layer& layer, int index) {
        const int dim = model_.head_dim;
        product(member, layer.qkv, x_, batch_->tokens, dim, [&](int head, int from, int count, float* c) {
            const bool key = head < model_.kv_heads, query = !key && head < model_.kv_heads + model_.heads;
            const int at = key ? head : query ? head - model_.kv_heads : head - model_.kv_heads - model_.heads;
            const float* norm = query ? layer.q_norm : key ? layer.k_norm : nullptr;
            for (int t = from; t < from + count; ++t) {
                float* v = c + size_t(t - from) * dim;
                if (norm) scale_head(v, norm);
                if (query || key) rotate(v, position(t));
                if (query) {
                    bf16* to = query_row(at / group_, t) + at % group_ * dim;
                    for (int i = 0; i < dim; i += 16) store_bf16(to + i, load(v + i));
                } else {
                    write_kv(v, index, t, at, key);
                }
            }
        });
    }

    // Queries lie as [kv_heads][tokens][group][head_dim]: the rows that meet one KV head are adjacent.
    bf16* query_row(int kv_head, int token) {
        return &q_[(size_t(kv_head) * batch_->tokens + token) * group_ * model_.head_dim];
    }

    void scale_head(float* v, const float* weight) const {
        const float factor = inverse_rms(v, model_.head_dim);
        for (int i = 0; i < model_.head_dim; i += 16) store(v + i, load(v + i) * factor * load(weight + i));
    }

    void rotate(float* v, int position) const {
        const int half = model_.head_dim / 2;
        const float *cosine = model_.cosines + size_t(position) * half, *sine = model_.sines + size_t(position) * half;
        for (int i = 0; i < half; i += 16) {
            const Vec a = load(v + i), b = load(v + half + i), c = load(cosine + i), s = load(sine + i);
            store(v + i, a * c - b * s);
            store(v + half + i, b * c + a * s);
        }
    }

    uint8_t* block(int layer, int id, int kv_head) const {
        return model_.kv + ((int64_t(layer) * model_.num_blocks + id) * model_.kv_heads + kv_head) * layout_.bytes();
    }

    void write_kv(const float* v, int layer, int token, int kv_head, bool key) const {
        const int at = position(token);
        uint8_t* to = block(layer, batch_->tables[size_t(row_of_[token]) * batch_->width + at / kBlock], kv_head);
        key ? layout_.write_key(to, at % kBlock, v) : layout_.write_value(to, at % kBlock, v);
    }

    void attend(int member, const Layer& layer, int index) {
        const auto take = [&] { return next_task_.fetch_add(1, std::memory_order_relaxed); };
        const int count = static_cast<int>(tasks_.size());
        AttentionScratch& s = scratch_[member].attention;
        s.next.clear();
        for (int now = take(), next = take(); now < count; now = next, next = take()) {
            list_blocks(s.blocks, layer, index, tasks_[now]);
            s.next.clear();
            if (next < count && !same_head(tasks_[now], tasks_[next])) list_blocks(s.next, layer, index, tasks_[next]);
            attend_tile(layer, tasks_[now], s);
        }
    }

    // Attention of up to 16 rows: tokens x query heads of one KV head, counted from the request's first row.
    struct Task { int row, kv_head, from, rows; };

    void list_tasks() {
        tasks_.clear();
        for (int row = 0; row < batch_->rows; ++row) {
            const int rows = (batch_->begins[row + 1] - batch_->begins[row]) * group_;
            for (int head = 0; head < model_.kv_heads; ++head)
                for (int from = 0; from < rows; from += kTile)
                    tasks_.push_back({row, head, from, std::min(kTile, rows - from)});
        }
    }

    static bool same_head(const Task& a, const Task& b) { return a.row == b.row && a.kv_head == b.kv_head; }

    // The tokens [first, last) that row r of a task sees.
    int last_seen(const Task& t, int r) const { return batch_->positions[t.row] + (t.from + r) / group_ + 1; }
    int first_seen(const Layer& layer, const Task& t, int r) const {
        return layer.window > 0 ? std::max(0, last_seen(t, r) - layer.window) : 0;
    }

    void list_blocks(std::vector<const uint8_t*>& blocks, const Layer& layer, int index, const Task& t) const {
        blocks.clear();
        const int32_t* table = batch_->tables + size_t(t.row) * batch_->width;
        const int end = (last_seen(t, t.rows - 1) + kBlock - 1) / kBlock;
        for (int b = first_seen(layer, t, 0) / kBlock; b < end; ++b) blocks.push_back(block(index, table[b], t.kv_head));
    }

    void attend_tile(const Layer& layer, const Task& t, AttentionScratch& s) {
        const int begin = batch_->begins[t.row], dim = model_.head_dim;
        const int origin = first_seen(layer, t, 0) / kBlock * kBlock, blocks = static_cast<int>(s.blocks.size());
        const bf16* q = query_row(t.kv_head, begin) + size_t(t.from) * dim;
        Attention a{layout_, amx_, q, s, t.rows, {}, {}, blocks, model_.attention_scale, s.next.data(),
                    static_cast<int>(s.next.size())};
        s.fit(blocks, dim);
        for (int r = 0; r < t.rows; ++r) {
            a.first[r] = first_seen(layer, t, r) - origin;
            a.last[r] = last_seen(t, r) - origin;
        }
        a.run([&](int r, int i) {
            const int token = begin + (t.from + r) / group_, head = t.kv_head * group_ + (t.from + r) % group_;
            return y_.at(token, head * dim + i);
        });
    }

    void add(int member, const Matrix& w, Activations& a) {
        product(member, w, a, batch_->tokens, kPair, [&](int unit, int from, int count, const float* c) {
            for (int t = 0; t < count; ++t) {
                float* to = &residual_[size_t(from + t) * model_.hidden + unit * kPair];
                store(to, load(to) + load(c + t * kPair));
                store(to + 16, load(to + 16) + load(c + t * kPair + 16));
            }
        });
    }

    void gate_up(int member, const Layer& layer) {
        product(member, layer.gate_up, x_, batch_->tokens, kPair, [&](int unit, int from, int count, const float* c) {
            for (int t = 0; t < count; ++t) {
                const Vec gate = load(c + t * kPair), up = load(c + t * kPair + 16);
                const Vec e = exponential((Vec)((UVec)gate | 0x80000000u));   // e^-|gate|
                const Vec sigmoid = (gate < 0 ? e : splat(1.0f)) * inverse_of_1_to_2(e + 1.0f);
                store_bf16(y_.at(from + t, unit * 16), gate * sigmoid * up);
            }
        });
    }

    struct Best { Vec value; IVec id; };

    void head(int member) {
        const int rows = batch_->wanted, vocab = model_.vocab;
        const IVec lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        IVec strange = {};
        product(member, model_.head, x_, rows, kPair, [&](int unit, int from, int count, const float* c) {
            for (int row = from; row < from + count; ++row)
                for (int i = 0; i < kPair; i += 16) {
                    const Vec v = load(c + (row - from) * kPair + i);
                    const IVec id = lanes + (unit * kPair + i);
                    strange |= (v - v != 0);
                    if (batch_->logits) {
                        const int left = std::min(16, vocab - unit * kPair - i);
                        if (left > 0) memcpy(batch_->logits + size_t(row) * vocab + unit * kPair + i, &v, left * sizeof(float));
                    } else {
                        Best& best = best_[size_t(member) * round_up(rows, kPair) + row];
                        const IVec better = (v > best.value) & (id < vocab);
                        best.value = better ? v : best.value;
                        best.id = better ? id : best.id;
                    }
                }
        });
        for (int i = 0; i < 16; ++i)
            if (strange[i]) finite_.store(false, std::memory_order_relaxed);
    }

    // The largest logit of each row, the lowest id among equals.
    void pick() {
        for (int row = 0; row < batch_->wanted; ++row) {
            float value = -INFINITY;
            int id = 0;
            for (int member = 0; member < team_.size(); ++member) {
                const Best& best = best_[size_t(member) * round_up(batch_->wanted, kPair) + row];
                for (int i = 0; i < 16; ++i)
                    if (best.value[i] > value || (best.value[i] == value && best.id[i] < id)) value = best.value[i], id = best.id[i];
            }
            batch_->picks[row] = id;
        }
    }

    void shape_products([[maybe_unused]] int rows) const {
#ifdef BERTH_AMX
        if (amx_) shape_for_products(rows);
#endif
    }

    // AMX takes denormals as zero; with the same rule for vectors both paths give the same bits.
    static unsigned flush_denormals() {
#if defined(__x86_64__)
        const unsigned control = _mm_getcsr();
        _mm_setcsr(control | 0x8040);
        return control;
#else
        return 0;
#endif
    }
    static void restore(unsigned control) {
#if defined(__x86_64__)
        _mm_setcsr(control);
#else
        (void)control;
#endif
    }

    Model model_;
    std::vector<Layer> layers_;
    Team team_;
    std::vector<Scratch> scratch_;
    KvLayout layout_;
    bool amx_ = false;
    const Batch* batch_ = nullptr;
    int group_ = 1;
    Buffer<float> residual_;           // [tokens][hidden]
    Activations x_, y_;                // inputs of a layer's products; attention's and SwiGLU's output
    Buffer<bf16> q_;                   // queries
    Planes planes_;                    // x_ or y_ as 16-bit integers, where the weights are int8
    std::vector<int> row_of_;          // token -> row
    std::vector<Task> tasks_;          // of attention, the same in every layer
    std::vector<Best> best_;           // [members][wanted]
    std::atomic<int> next_task_{0};
    std::atomic<bool> finite_{true};
    double seconds_[kPhases] = {};
    std::chrono::steady_clock::time_point mark_;
};

}  // namespace

extern "C" {

// The model's arrays stay the caller's and must outlive it. `threads`: the most a step may use.
void* berth_create(const Model* model, int threads) { return new Step(*model, threads); }
void berth_destroy(void* step) { delete static_cast<Step*>(step); }
int berth_amx(void* step) { return static_cast<Step*>(step)->amx(); }
void berth_use_amx(void* step, int wanted) { static_cast<Step*>(step)->use_amx(wanted); }

// 0, or 1 where logits are not finite.
int berth_step(void* step, const Batch* batch, int threads) { return static_cast<Step*>(step)->run(*batch, threads) ? 0 : 1; }

// Seconds in norms, qkv, attention, out, gate and up, down, head since creation: [7].
const double* berth_seconds(void* step) { return static_cast<Step*>(step)->seconds(); }
double berth_product_rate(int threads, int int8) {
#ifdef BERTH_AMX
    return product_rate(threads, int8, amx_granted());
#else
    return product_rate(threads, int8, false);
#endif
}
double berth_read_rate(const uint8_t* data, uint64_t bytes, int threads) { return read_rate(data, bytes, threads); }
uint64_t berth_kv_block_bytes(int head_dim, int kv_bits) { return KvLayout{head_dim, kv_bits}.bytes(); }
}
