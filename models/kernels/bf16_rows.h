// Products of the rows of a line, D numbers of bf16 each, on tiles or on vectors of pairs; weights are rounded to bf16.

#pragma once
#ifdef TILES
#include "amx.h"
#else
#include "pairs.h"
#endif
#include "lines.h"

constexpr int NUMBERS = 2 * LANES, OF_ROW = (D + NUMBERS - 1) / NUMBERS;  // in a vector, and vectors of a row

// [n, D], one row for each of a line's tokens, plus a bias and times a number, with zeros up to whole vectors, and 32
// rows of them behind; on request also by columns.
struct Rows {
    std::vector<integers> numbers, columns;
    int64_t n = 0;

    Number *row(int64_t j) { return reinterpret_cast<Number *>(&numbers[j * OF_ROW]); }

    void load(const Number *from, int64_t stride, const std::vector<int64_t> &token, const float *plus, float times) {
        n = token.size();
        numbers.resize(std::max<size_t>(numbers.size(), (n + NUMBERS) * OF_ROW));
        for (int64_t j = 0; j < n; j++) {
            const Number *one = from + token[j] * stride;
            const auto load = [=](int64_t c, auto some) {
                put((take(one + c, some) + take(plus + c, some)) * times, row(j) + c, some);
            };
            for (int64_t c = 0; c < D - LAST; c += LANES) load(c, All());
            load(D - LAST, Last());
        }
        for (int64_t j = n; j < n + NUMBERS; j++) memset(row(j), 0, D * sizeof(Number));
    }

    // Columns [rows / 32, PARTS, 16 columns, 32 rows].
    void turn() {
        columns.resize((n + NUMBERS - 1) / NUMBERS * PARTS * LANES);
        integers *to = columns.data();
        for (int64_t first = 0; first < n; first += NUMBERS)
            for (int part = 0; part < PARTS; part++, to += LANES) {
                integers tile[LANES];
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) {
                    const integers *two = &numbers[(first + 2 * i) * OF_ROW + part / 2];
                    tile[i] = woven(two[0], two[OF_ROW], part % 2);
                }
                transpose(tile);
                copy<LANES>(tile, to);
            }
    }
};

// What sixteen rows, one a lane, give when each is multiplied with each of n others.
INLINE void products(const Rows &rows, int64_t first, const Rows &others, int64_t n, floats *to) {
    integers mine[OF_ROW][LANES];
    for (int part = 0; part < OF_ROW; part++) {
        integers tile[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) tile[i] = rows.numbers[(first + i) * OF_ROW + part];
        transpose(tile);
        copy<LANES>(tile, mine[part]);
    }
    for (int64_t j = 0; j < n; j += LANES)
        product<LANES>(&others.numbers[j * OF_ROW], OF_ROW, 1, mine[0], (D + 1) / 2, to + j);
}

// Sixteen sums of n rows; weights [n], one a lane, which become pairs of bf16 in place, with zeros up to 32.
INLINE void sums(floats *weights, const Rows &rows, int64_t n, floats *to) {
    for (int64_t j = n; j % NUMBERS; j++) weights[j] = floats{};
    for (int64_t j = 0; j < (n + NUMBERS - 1) / NUMBERS * NUMBERS; j += 2) {
        integers pair = paired(weights[j], weights[j + 1]);
        memcpy(weights + j / 2, &pair, sizeof pair);
    }
    const integers *pairs = reinterpret_cast<integers *>(weights);
    const auto of_part = [=, &rows](int part, auto columns) {
        product<columns>(&rows.columns[part * LANES], 1, PARTS * LANES, pairs, (n + 1) / 2, to + part * LANES);
    };
    for (int part = 0; part < PARTS - 1; part++) of_part(part, All());
    of_part(PARTS - 1, Last());
}
