// Sixteen lines side by side, one a lane, for short ones: no lane is left empty by lines of less than sixteen tokens.

#pragma once
#include <algorithm>

#include "lines.h"

constexpr int BUNDLE = LANES % D ? 1 : LANES / D;  // heads at once, so that their numbers fill a vector
constexpr int WIDE = BUNDLE * D;

// One row times each of n others, and times of those behind up to a multiple of four; done(j, product) takes them.
template <typename Done> INLINE void products(const floats *row, const floats *others, int64_t n, Done done) {
    floats mine[D];
    copy<D>(row, mine);
    for (int64_t j = 0; j < n; j += 4) {
        floats product[4] = {};
#pragma GCC unroll 16
        for (int c = 0; c < D; c++)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) product[k] += mine[c] * others[(j + k) * WIDE + c];
        for (int k = 0; k < 4; k++) done(j + k, product[k]);
    }
}

// The sum of n rows of a head, of which number j counts weights[j * stride] times, times `by`.
INLINE void add_up(const floats *weights, int64_t stride, const floats *rows, int64_t n, floats by, floats *to) {
    floats sum[D] = {};
    for (int64_t j = 0; j < n; j++)
        for (int c = 0; c < D; c++) sum[c] += weights[j * stride] * rows[j * WIDE + c];
    for (int c = 0; c < D; c++) to[c] = sum[c] * by;
}

static const Number NOWHERE[LANES] = {};  // the row of a lane without a token

// [n, WIDE], by place and number; the scratch of a thread.
struct Abreast {
    const Lines &all;
    int64_t n = 0, heads = 0, width = all.heads * D;     // places of the longest line, heads of this bundle
    std::vector<int64_t> token = {}, added = {};         // [n, 16] of each line, -1: none; where its bias is
    std::vector<floats> query = {}, key = {}, value = {}, change = {}, moved = {};  // [n, WIDE]
    std::vector<floats> nothing = {}, bias = {}, shares = {}, changes = {};         // [n], [n], [n, n], [n, n]

    void find(const int64_t *lines, int64_t some) {
        token.assign(all.size * LANES, -1), added.assign(all.size * LANES, 0), nothing.assign(all.size + 4, floats{} + NOTHING);
        n = 0;
        for (int64_t lane = 0; lane < LANES; lane++) {
            int64_t count = 0;
            for (int64_t i = 0; i < all.size && lane < some; i++) {
                int64_t t = all.token(lines[lane], i);
                if (t < 0) continue;
                token[count * LANES + lane] = t, added[count * LANES + lane] = lines[lane] * all.of_line + i * all.of_place;
                lanes(&nothing[count++])[lane] = 0;
            }
            n = std::max(n, count);
        }
        for (auto each : {&query, &key, &value}) each->resize(whole(n) * WIDE);
        bias = nothing, shares.resize(whole(n));
    }

    const Number *row(const Number *from, int64_t stride, int64_t i, int64_t lane) const {
        const int64_t t = i < n ? token[i * LANES + lane] : -1;
        return t < 0 ? NOWHERE : from + t * stride;
    }

    void load(const Number *from, int64_t stride, const float *plus, std::vector<floats> &to) {
        if (sizeof(Number) == 2 && heads * D == LANES) return load_pairs(from, stride, plus, to);
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < heads * D; c += LANES) {
                const int64_t some = std::min<int64_t>(LANES, heads * D - c);
                floats tile[LANES], added = take(plus + c, some);
#pragma GCC unroll 16
                for (int64_t lane = 0; lane < LANES; lane++) {
                    const Number *here = row(from + c, stride, i, lane);
                    tile[lane] = added + (some == LANES ? take(here, All()) : take(here, some));
                }
                transpose(tile);
                for (int64_t k = 0; k < some; k++) to[i * WIDE + c + k] = tile[k];
            }
        for (int64_t i = n * WIDE; i < whole(n) * WIDE; i++) to[i] = floats{};
    }

    // Rows of sixteen numbers of bf16, two to a vector, of which each lane has two numbers side by side.
    void load_pairs(const Number *from, int64_t stride, const float *plus, std::vector<floats> &to) {
        for (int64_t i = 0; i < whole(n); i += 2) {
            integers tile[LANES];
#pragma GCC unroll 16
            for (int64_t lane = 0; lane < LANES; lane++)
                tile[lane] = after_each_other(row(from, stride, i, lane), row(from, stride, i + 1, lane));
            transpose(tile);
#pragma GCC unroll 16
            for (int64_t k = 0; k < LANES; k++) {
                floats *const pair = &to[i * WIDE + 2 * k];
                pair[0] = plus[2 * k % LANES] + reinterpret_cast<floats>(tile[k] << 16);
                pair[1] = plus[2 * k % LANES + 1] + reinterpret_cast<floats>(tile[k] & int32_t(0xffff0000));
            }
        }
    }

    void store(const std::vector<floats> &from, Number *to, int64_t stride) const {
#ifdef __AVX512BF16__
        if (sizeof(Number) == 2 && heads * D == LANES) return store_pairs(from, to, stride);
#endif
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < heads * D; c += LANES) {
                const int64_t some = std::min<int64_t>(LANES, heads * D - c);
                floats tile[LANES] = {};
                for (int64_t k = 0; k < some; k++) tile[k] = from[i * WIDE + c + k];
                transpose(tile);
#pragma GCC unroll 16
                for (int64_t lane = 0; lane < LANES; lane++) {
                    const int64_t t = token[i * LANES + lane];
                    Number *row = to + t * stride + c;
                    if (t >= 0) some == LANES ? put(tile[lane], row, All()) : put(tile[lane], row, some);
                }
            }
    }

#ifdef __AVX512BF16__
    void store_pairs(const std::vector<floats> &from, Number *to, int64_t stride) const {
        for (int64_t i = 0; i < n; i += 2) {
            integers tile[LANES];
#pragma GCC unroll 16
            for (int64_t k = 0; k < LANES; k++) tile[k] = paired(from[i * WIDE + 2 * k], from[i * WIDE + 2 * k + 1]);
            transpose(tile);
#pragma GCC unroll 16
            for (int64_t lane = 0; lane < LANES; lane++) {
                const int64_t first = token[i * LANES + lane], next = i + 1 < n ? token[(i + 1) * LANES + lane] : -1;
                if (first >= 0) memcpy(to + first * stride, &tile[lane], sizeof *tile / 2);
                if (next >= 0) memcpy(to + next * stride, (char *)&tile[lane] + sizeof *tile / 2, sizeof *tile / 2);
            }
        }
    }
#endif

    void load(int64_t head, const Number *qkv) {
        heads = std::min<int64_t>(BUNDLE, all.heads - head);
        int64_t at = head * D;
        for (auto each : {&query, &key, &value}) {
            load(qkv + at, 3 * width, all.qkv_added(at), *each);
            at += width;
        }
    }

    void load_bias(int64_t head) {
        if (!all.bias || (head && !all.of_head)) return;  // as it is
        for (int64_t j = 0; j < n; j++) {
            floats x;
            for (int64_t lane = 0; lane < LANES; lane++)
                lanes(&x)[lane] = all.bias[head * all.of_head + added[j * LANES + lane]];
            x *= OF_TWO, x = x < HIDDEN ? floats{} + HIDDEN : x;
            bias[j] = nothing[j] < 0 ? nothing[j] : x;
        }
    }

    // The shares of all keys for a query, so far not divided by their sum, which is returned.
    floats share(const floats *query, int of, floats *shares) const {
        const floats *bias = this->bias.data();
        products(query, &key[of * D], n, [=](int64_t j, floats product) { shares[j] = product * UNIT + bias[j]; });
        floats most = fold(n, floats{} + NOTHING, [=](int64_t j) { return shares[j]; }, larger);
        return fold(n, floats{}, [=](int64_t j) { return shares[j] = power_of_two(shares[j] - most); }, plus);
    }

    void forth(int64_t head, const Number *qkv, Number *out) {
        load(head, qkv);
        for (int of = 0; of < heads; of++) {
            load_bias(head + of);
            for (int64_t i = 0; i < n; i++) {
                floats *mine = &query[i * WIDE + of * D];
                floats sum = share(mine, of, shares.data());
                add_up(shares.data(), 1, &value[of * D], n, 1 / sum, mine);
            }
        }
        store(query, out + head * D, width);
    }

    // From change, the gradient of the result, that of queries, keys and values.
    void back(int64_t head, const Number *qkv, const Number *gradient, Number *to) {
        load(head, qkv);
        const int64_t stride = whole(n);
        change.resize(stride * WIDE), moved.resize(stride * WIDE), shares.resize(n * stride), changes.resize(n * stride);
        load(gradient + head * D, width, NONE, change);
        for (int of = 0; of < heads; of++) {
            load_bias(head + of);
            for (int64_t i = 0; i < n; i++) {
                const floats *mine = &query[i * WIDE + of * D], *wanted = &change[i * WIDE + of * D];
                floats *share_of = &shares[i * stride], *change_of = &changes[i * stride];
                floats part = 1 / share(mine, of, share_of);
                products(wanted, &value[of * D], n, [=](int64_t j, floats product) { change_of[j] = product; });
                floats inner = fold(n, floats{}, [=](int64_t j) { return (share_of[j] *= part) * change_of[j]; }, plus);
                for (int64_t j = 0; j < n; j++) change_of[j] = share_of[j] * (change_of[j] - inner);
                add_up(change_of, 1, &key[of * D], n, floats{} + SCALE, &moved[i * WIDE + of * D]);
            }
            for (int64_t j = 0; j < n; j++) {
                add_up(&changes[j], stride, &query[of * D], n, floats{} + SCALE, &key[j * WIDE + of * D]);
                add_up(&shares[j], stride, &change[of * D], n, floats{} + 1, &value[j * WIDE + of * D]);
            }
        }
        store(moved, to + head * D, 3 * width);
        store(key, to + width + head * D, 3 * width);
        store(value, to + 2 * width + head * D, 3 * width);
    }
};
