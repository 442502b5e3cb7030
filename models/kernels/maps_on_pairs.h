// Linear maps of 32 rows at a time on vectors of pairs.

#pragma once
#include "maps.h"
#include "pairs.h"

constexpr int64_t AT_ONCE = 8;  // rows whose sums, of 32 columns, stay in registers

// A map of 32 rows; done(i, c, columns c to c + 15 and the next sixteen of row i).
template <typename Done> INLINE void apply(const Weights &weights, const Block &rows, Done done) {
    const auto some = [&](int64_t c, auto vectors) {
        constexpr int VECTORS = vectors;
        const integers *columns = &weights.tiles[c * weights.steps];
        for (int64_t first = 0; first < SIDE; first += AT_ONCE) {
            floats sums[AT_ONCE][VECTORS];
            for (auto &of_row : sums) memcpy(of_row, &weights.bias[c / LANES], sizeof of_row);
            for (int64_t step = 0; step < weights.steps; step++) {
                const int64_t pairs = std::min<int64_t>(LANES, (weights.inputs - step * SIDE) / 2);
                add_pairs(&rows.numbers[step * SIDE + first], 1, columns + step * SIDE, pairs, sums);
            }
            for (int64_t i = 0; i < AT_ONCE; i++) done(first + i, c, sums[i][0], VECTORS > 1 ? sums[i][VECTORS - 1] : floats{});
        }
    };
    int64_t c = 0;
    for (; c + LANES < weights.columns; c += SIDE) some(c, std::integral_constant<int, 2>());
    if (c < weights.columns) some(c, std::integral_constant<int, 1>());
}

// Adds to sums of 32 rows and 32 columns, four tiles, what `steps` times 32 numbers of each give.
INLINE void add_products(const integers *rows, const integers *columns, int64_t steps, floats *sums) {
    for (int64_t first = 0; first < SIDE; first += AT_ONCE) {
        floats *const left = sums + first / LANES * SIDE + first % LANES, *const right = left + LANES;
        floats mine[AT_ONCE][2];
        for (int64_t i = 0; i < AT_ONCE; i++) mine[i][0] = left[i], mine[i][1] = right[i];
        for (int64_t step = 0; step < steps; step++)
            add_pairs(rows + step * SIDE + first, 1, columns + step * SIDE, LANES, mine);
        for (int64_t i = 0; i < AT_ONCE; i++) left[i] = mine[i][0], right[i] = mine[i][1];
    }
}
