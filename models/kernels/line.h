// One line at a time: sixteen queries share a vector, one a lane; for the gradients of keys and values sixteen keys do.
// Then all sums run over whole vectors.

#pragma once

#if defined TILES || defined PAIRS
#include "bf16_rows.h"
#else
#include "float_rows.h"
#endif

// Sixteen sums of n rows, times `by`, to the tokens from `first` on; weights [n], one a lane, which may be used up.
INLINE void add_up(floats *weights, const Rows &rows, int64_t n, floats by, const std::vector<int64_t> &token,
                   int64_t first, Number *to, int64_t stride) {
    floats added[PARTS * LANES];
    sums(weights, rows, n, added);
    for (int part = 0; part < PARTS; part++) {
        floats tile[LANES];
#pragma GCC unroll 16
        for (int c = 0; c < LANES; c++) tile[c] = added[part * LANES + c] * by;
        transpose(tile);
        for (int64_t i = 0; i < LANES && first + i < n; i++) {
            Number *row = to + token[first + i] * stride + part * LANES;
            part < PARTS - 1 ? put(tile[i], row, All()) : put(tile[i], row, Last());
        }
    }
}

// The scratch of a thread, for one line and one of its heads.
struct Line : Tokens {
    static constexpr int BUNDLE = 1;
    const int64_t width = all.heads * D;
    Rows query = {}, key = {}, value = {}, change = {};             // [n]
    std::vector<float> bias = {}, top = {}, part = {}, inner = {};  // [n], see below
    std::vector<floats> shares = {}, changes = {};                  // [n], of sixteen queries or keys

    explicit Line(const Lines &all) : Tokens{all} {}

    void find(int64_t line) {
        Tokens::find(line);
        shares.resize(n + 2 * LANES), changes.resize(n + 2 * LANES);  // whole vectors
    }

    void load(int64_t head, const Number *qkv) {
        Rows *rows[] = {&query, &key, &value};
        for (int64_t k = 0; k < 3; k++) {
            const int64_t at = k * width + head * D;
            rows[k]->load(qkv + at, 3 * width, token, all.qkv_added(at), k ? 1 : UNIT);
        }
        bias.assign(n + LANES, NOTHING);
        for (int64_t j = 0; j < n; j++) bias[j] = all.added(line, head, place[j]);
    }

    // result, the share of value j in which is 2^(score - top) * part; `kept` [T, heads, 2] holds top and part.
    void forth(int64_t head, const Number *qkv, Number *out, float *kept) {
        load(head, qkv);
        value.turn();
        for (int64_t first = 0; first < n; first += LANES) {
            products(query, first, key, whole(n), shares.data());
            floats most = fold(
                n, floats{} + NOTHING, [&](int64_t j) { return shares[j] += bias[j]; },
                larger);
            floats sum = fold(
                n, floats{}, [&](int64_t j) { return shares[j] = power_of_two(shares[j] - most); },
                plus);
            add_up(shares.data(), value, n, 1 / sum, token, first, out + head * D, width);
            for (int64_t i = 0; i < LANES && first + i < n; i++) {
                float *of_query = kept + (token[first + i] * all.heads + head) * 2;
                of_query[0] = most[i], of_query[1] = 1 / sum[i];
            }
        }
    }

    // From change, the gradient of the result, that of queries, keys and values.
    void back(int64_t head, const Number *qkv, const Number *out, const float *kept, const Number *gradient, Number *to) {
        load(head, qkv);
        change.load(gradient + head * D, width, token, NONE, 1);
        query.turn(), key.turn(), change.turn();
        for (auto each : {&top, &part, &inner}) each->assign(n + LANES, 0);
        for (int64_t i = 0; i < n; i++) {
            const float *of_query = kept + (token[i] * all.heads + head) * 2;
            top[i] = of_query[0], part[i] = of_query[1];
            const int64_t at = token[i] * width + head * D;
            for (int c = 0; c < D; c++) inner[i] += as_float(out[at + c]) * as_float(gradient[at + c]);
        }
        Number *of_queries = to + head * D, *of_keys = of_queries + width, *of_values = of_keys + width;
        floats one = floats{} + 1;
        for (int64_t first = 0; first < n; first += LANES) {
            products(query, first, key, n, shares.data()), products(change, first, value, n, changes.data());
            for (int64_t j = 0; j < n; j++)
                differentiate(j, bias[j] * one, here(top, first), here(part, first), here(inner, first));
            add_up(changes.data(), key, n, SCALE * one, token, first, of_queries, 3 * width);

            products(key, first, query, n, shares.data()), products(value, first, change, n, changes.data());
            for (int64_t j = 0; j < n; j++) differentiate(j, here(bias, first), top[j] * one, part[j] * one, inner[j] * one);
            add_up(changes.data(), query, n, SCALE / UNIT * one, token, first, of_keys, 3 * width);
            add_up(shares.data(), change, n, one, token, first, of_values, 3 * width);
        }
    }

    static floats here(const std::vector<float> &x, int64_t first) {
        floats y;
        memcpy(&y, &x[first], sizeof y);
        return y;
    }

    // From query * key the share, and from value * change the gradient of the score; inner: result * change.
    void differentiate(int64_t j, floats bias, floats top, floats part, floats inner) {
        shares[j] = power_of_two(smaller(floats{}, shares[j] + bias - top)) * part;
        changes[j] = shares[j] * (changes[j] - inner);
    }
};
