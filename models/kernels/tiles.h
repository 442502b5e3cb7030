// Products of the rows of a line, D numbers of bf16 each, on tiles (amx.h); weights are rounded to bf16.

#pragma once
#include <algorithm>

#include "amx.h"
#include "lines.h"

constexpr int PAIRS = 2 * LANES;  // numbers in a row of a tile
constexpr int TILES_OF_ROW = (D + PAIRS - 1) / PAIRS;

// [n, D], one row for each of a line's tokens, plus a bias and times a number, with zeros up to whole tiles; on request also
// by columns.
struct Rows {
    std::vector<integers> numbers, columns;
    int64_t n = 0;

    Number *row(int64_t j) { return reinterpret_cast<Number *>(&numbers[j * TILES_OF_ROW]); }

    void load(const Number *from, int64_t stride, const std::vector<int64_t> &token, const float *plus, float times) {
        n = token.size();
        numbers.resize(std::max<size_t>(numbers.size(), (n + PAIRS) * TILES_OF_ROW));
        for (int64_t j = 0; j < n; j++) {
            const Number *one = from + token[j] * stride;
            const auto load = [=](int64_t c, auto some) {
                put((take(one + c, some) + take(plus + c, some)) * times, row(j) + c, some);
            };
            for (int64_t c = 0; c < D - LAST; c += LANES) load(c, All());
            if (LAST == LANES) load(D - LAST, All());
            else load(D - LAST, LAST);
        }
        for (int64_t j = n; j < n + PAIRS; j++) memset(row(j), 0, D * sizeof(Number));
    }

    // Columns [rows / 32, PARTS, 16 columns, 32 rows].
    void turn() {
        columns.resize((n + PAIRS - 1) / PAIRS * PARTS * LANES);
        integers *to = columns.data();
        for (int64_t first = 0; first < n; first += PAIRS)
            for (int64_t c = 0; c < D; c += LANES, to += LANES) {
                integers tile[LANES];
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++)
                    tile[i] = paired(take(row(first + 2 * i) + c, All()), take(row(first + 2 * i + 1) + c, All()));
                transpose(tile);
                memcpy(to, tile, sizeof tile);
            }
    }

    // Two vectors of bf16 side by side in every lane; what is not bf16 is rounded.
    static integers paired(floats x, floats y) {
        integers low = reinterpret_cast<integers>(x) + 0x8000, high = reinterpret_cast<integers>(y) + 0x8000;
        return (low >> 16 & 0xffff) | (high & int32_t(0xffff0000));
    }
};

// What sixteen rows, one a lane, give when each is multiplied with each of n others.
INLINE void products(const Rows &rows, int64_t first, const Rows &others, int64_t n, floats *to) {
    integers mine[TILES_OF_ROW][LANES];
    for (int part = 0; part < TILES_OF_ROW; part++) {
        integers tile[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) tile[i] = rows.numbers[(first + i) * TILES_OF_ROW + part];
        transpose(tile);
        memcpy(mine[part], tile, sizeof tile);
    }
    in_memory();
    for (int64_t j = 0; j < n; j += LANES) {
        _tile_zero(0);
        for (int part = 0; part < TILES_OF_ROW; part++) {
            _tile_loadd(1, &others.numbers[j * TILES_OF_ROW + part], TILES_OF_ROW * sizeof(integers));
            _tile_loadd(2, mine[part], sizeof(integers));
            _tile_dpbf16ps(0, 1, 2);
        }
        _tile_stored(0, to + j, sizeof(floats));
    }
}

// Sixteen sums of n rows; weights [n], one a lane, which become pairs of bf16 in place, with zeros up to 32.
INLINE void sums(floats *weights, const Rows &rows, int64_t n, floats *to) {
    for (int64_t j = n; j % PAIRS; j++) weights[j] = floats{};
    for (int64_t j = 0; j < (n + PAIRS - 1) / PAIRS * PAIRS; j += 2) {
        integers pair = Rows::paired(weights[j], weights[j + 1]);
        memcpy(weights + j / 2, &pair, sizeof pair);
    }
    in_memory();
    for (int part = 0; part < PARTS; part++) {
        _tile_zero(0);
        for (int64_t j = 0; j < n; j += PAIRS) {
            _tile_loadd(1, &rows.columns[(j / PAIRS * PARTS + part) * LANES], sizeof(integers));
            _tile_loadd(2, weights + j / 2, sizeof(floats));
            _tile_dpbf16ps(0, 1, 2);
        }
        _tile_stored(0, to + part * LANES, sizeof(floats));
    }
}
