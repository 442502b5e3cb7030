// Products of pairs: vectors of bf16, two numbers to a lane, each lane of which adds the products of its two to a sum.

#pragma once
#include <algorithm>

#include "vectors.h"

// Adds to sums what ROWS rows, `stride` vectors apart, and VECTORS times sixteen columns give in at most sixteen pairs: those of
// a row are side by side, those of columns are vectors of which each lane is a column.
template <int ROWS, int VECTORS>
INLINE void add_pairs(const integers *rows, int64_t stride, const integers *columns, int64_t pairs,
                      floats (&sums)[ROWS][VECTORS]) {
    const int32_t *of_row = reinterpret_cast<const int32_t *>(rows);
    for (int64_t pair = 0; pair < pairs; pair++)
#pragma GCC unroll 16
        for (int64_t i = 0; i < ROWS; i++) {
            const __m512bh mine = (__m512bh)_mm512_set1_epi32(of_row[i * stride * LANES + pair]);
            for (int v = 0; v < VECTORS; v++)
                sums[i][v] = _mm512_dpbf16_ps(sums[i][v], mine, (__m512bh)columns[v * LANES + pair]);
        }
}

// Sums [ROWS, 16] of rows and columns of so many pairs; the rows are `stride` vectors apart, the next sixteen pairs `step` on.
template <int64_t ROWS>
INLINE void product(const integers *rows, int64_t stride, int64_t step, const integers *columns, int64_t pairs, floats *to) {
    floats sums[ROWS][1];
#pragma GCC unroll 16
    for (auto &of_row : sums) of_row[0] = floats{};
    for (; pairs > 0; pairs -= LANES, rows += step, columns += LANES)
        add_pairs(rows, stride, columns, std::min<int64_t>(LANES, pairs), sums);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; i++) to[i] = sums[i][0];
}
