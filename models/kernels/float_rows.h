// Products of the rows of a line, D numbers each, on vectors of float32.

#pragma once
#include "lines.h"

// [n, D], one row for each of a line's tokens, plus a bias and times a number, with zeros up to a multiple of the lanes.
struct Rows {
    std::vector<floats> numbers;

    void load(const Number *from, int64_t stride, const std::vector<int64_t> &token, const float *plus, float times) {
        numbers.resize((token.size() + LANES) * PARTS);
        for (size_t j = 0; j < token.size(); j++) {
            const Number *row = from + token[j] * stride;
            const auto load = [=](int64_t c, auto some) {
                numbers[j * PARTS + c / LANES] = (take(row + c, some) + take(plus + c, some)) * times;
            };
            for (int64_t c = 0; c < D - LAST; c += LANES) load(c, All());
            load(D - LAST, Last());
        }
        for (size_t j = token.size() * PARTS; j < numbers.size(); j++) numbers[j] = floats{};
    }

    void turn() {}

    const float *operator[](int64_t j) const { return lanes(&numbers[j * PARTS]); }
};

// What sixteen rows, one a lane, give when each is multiplied with each of n others.
INLINE void products(const Rows &rows, int64_t first, const Rows &others, int64_t n, floats *to) {
    floats mine[PARTS * LANES];
    for (int part = 0; part < PARTS; part++) {
        floats tile[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) tile[i] = rows.numbers[(first + i) * PARTS + part];
        transpose(tile);
        copy<LANES>(tile, mine + part * LANES);
    }
    for (int64_t j = 0; j < n; j++) {
        floats product = {};
        for (int c = 0; c < D; c++) product += mine[c] * others[j][c];
        to[j] = product;
    }
}

// Sixteen sums of n rows; weights [n], one a lane.
INLINE void sums(const floats *weights, const Rows &rows, int64_t n, floats *to) {
    for (int c = 0; c < D; c++) to[c] = floats{};
    for (int64_t j = 0; j < n; j++)
        for (int c = 0; c < D; c++) to[c] += weights[j] * rows[j][c];
}
