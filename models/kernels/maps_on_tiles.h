// Linear maps of 32 rows at a time on tiles.

#pragma once
#include "amx.h"
#include "maps.h"

// Adds to the 32 x 32 sums of tiles 0 to 3 what 32 rows and 32 columns give, each in two tiles after each other.
INLINE void multiply(const integers *rows, const integers *columns) {
    _tile_loadd(4, rows, sizeof *rows);
    _tile_loadd(5, rows + LANES, sizeof *rows);
    _tile_loadd(6, columns, sizeof *columns);
    _tile_loadd(7, columns + LANES, sizeof *columns);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

// A map of 32 rows; done(i, c, columns c to c + 15 and the next sixteen of row i) is called while the next are multiplied.
template <typename Done> INLINE void apply(const Weights &weights, const Block &rows, Done done) {
    floats sums[2][SIDE][2];
    const int64_t columns = weights.columns, steps = weights.steps;
    const integers *weight = weights.tiles.data();
    for (int64_t last = -SIDE; last < columns; last += SIDE) {
        const bool next = last + SIDE < columns;
        floats(&now)[SIDE][2] = sums[last / SIDE & 1], (&before)[SIDE][2] = sums[last / SIDE & 1 ^ 1];
        if (next) {
            const floats *bias = &weights.bias[(last + SIDE) / LANES];
            in_memory();
            _tile_loadd(0, bias, 0);
            _tile_loadd(1, bias + 1, 0);
            _tile_loadd(2, bias, 0);
            _tile_loadd(3, bias + 1, 0);
        }
        for (int64_t step = 0; step < steps; step++) {
            if (next) {
                in_memory();
                multiply(&rows.numbers[step * SIDE], weight);
                weight += SIDE;
            }
            const int64_t end = last < 0 ? 0 : (step + 1) * SIDE / steps;
            for (int64_t i = step * SIDE / steps; i < end; i++) done(i, last, before[i][0], before[i][1]);
        }
        if (next) {
            _tile_stored(0, &now[0][0], sizeof *now);
            _tile_stored(1, &now[0][1], sizeof *now);
            _tile_stored(2, &now[LANES][0], sizeof *now);
            _tile_stored(3, &now[LANES][1], sizeof *now);
            in_memory();
        }
    }
}

// Adds to sums of 32 rows and 32 columns, four tiles, what `steps` times 32 numbers of each give.
INLINE void add_products(const integers *rows, const integers *columns, int64_t steps, floats *sums) {
    in_memory();
    _tile_loadd(0, sums, sizeof *sums);
    _tile_loadd(1, sums + LANES, sizeof *sums);
    _tile_loadd(2, sums + 2 * LANES, sizeof *sums);
    _tile_loadd(3, sums + 3 * LANES, sizeof *sums);
    for (int64_t step = 0; step < steps; step++) multiply(rows + step * SIDE, columns + step * SIDE);
    _tile_stored(0, sums, sizeof *sums);
    _tile_stored(1, sums + LANES, sizeof *sums);
    _tile_stored(2, sums + 2 * LANES, sizeof *sums);
    _tile_stored(3, sums + 3 * LANES, sizeof *sums);
    in_memory();
}
