// The matrix products of a transformer layer and what is between them but for attention, without gradients, on AMX tiles:
// blocks of 32 rows stay in the cache on their way through all of it; compiled and called by layer.py.

#include <algorithm>
#include <vector>

#include "amx.h"
#include "gelu.h"

constexpr int64_t SIDE = 2 * LANES;  // rows, and columns, of two tiles side by side

INLINE int64_t sides(int64_t n) { return (n + SIDE - 1) / SIDE; }

// A linear map of rows; both sizes are multiples of LANES.
struct Map {
    int64_t outputs, inputs;
    const float *weight, *bias;  // [outputs, inputs], [outputs]
};

// 32 rows of bf16, [columns / 32, 32, 32], with zeros behind the last column.
struct Block {
    std::vector<integers> numbers;

    explicit Block(int64_t columns) : numbers(sides(columns) * SIDE) {}

    Number *at(int64_t row, int64_t column) const {
        return (Number *)&numbers[column / SIDE * SIDE + row] + column % SIDE;
    }

    void load(const Number *from, int64_t columns, int64_t rows) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < columns; c += LANES) memcpy(at(i, c), from + i * columns + c, LANES * sizeof(Number));
    }
};

// The weights of a map in bf16, 32 outputs after the other: of each 32 inputs two tiles, each of sixteen outputs. Every thread
// has its own, since it costs more to fetch them from another's cache than to order them again.
struct Weights {
    int64_t columns, steps;
    std::vector<floats> bias;
    std::vector<integers> tiles;

    explicit Weights(const Map &map)
        : columns(map.outputs), steps(sides(map.inputs)), bias(2 * sides(columns)), tiles(sides(columns) * steps * SIDE) {
        if (map.bias) memcpy(bias.data(), map.bias, columns * sizeof(float));
        for (int64_t output = 0; output < map.outputs; output += LANES)
            for (int64_t step = 0; step < steps; step++) {
                const float *from = map.weight + output * map.inputs + step * SIDE;
                const bool whole = (step + 1) * SIDE <= map.inputs;
                integers tile[LANES];
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++, from += map.inputs)
                    tile[i] = side_by_side(vector(from), whole ? vector(from + LANES) : floats{});
                transpose(tile);
                memcpy(&tiles[(output / SIDE * steps + step) * SIDE + output % SIDE], tile, sizeof tile);
            }
    }
};

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
                const integers *row = &rows.numbers[step * SIDE];
                in_memory();
                _tile_loadd(4, row, sizeof *row);
                _tile_loadd(5, row + LANES, sizeof *row);
                _tile_loadd(6, weight, sizeof *weight);
                _tile_loadd(7, weight + LANES, sizeof *weight);
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
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

// work(c, sixteen numbers from column c on) for those of the two vectors that are not behind the last column.
template <typename Work> INLINE void for_both(int64_t columns, int64_t c, floats &left, floats &right, Work work) {
    work(c, left);
    if (c + LANES < columns) work(c + LANES, right);
}

struct Size {
    int64_t rows, threads;
};

template <typename Work> INLINE void each_block(int64_t rows, Work work) {
#pragma omp for
    for (int64_t first = 0; first < rows; first += SIDE) work(first, std::min(SIDE, rows - first));
}

// The map of x [rows, inputs].
extern "C" void linear(const Size *size, const Map *map, const Number *x, Number *to) {
    const int64_t inputs = map->inputs, outputs = map->outputs;
#pragma omp parallel num_threads(size->threads)
    {
        start();
        Weights weights(*map);
        Block mine(inputs);
        each_block(size->rows, [&](int64_t first, int64_t rows) {
            Number *here = to + first * outputs;
            mine.load(x + first * inputs, inputs, rows);
            apply(weights, mine, [=](int64_t i, int64_t c, floats left, floats right) {
                if (i >= rows) return;
                for_both(outputs, c, left, right, [=](int64_t c, floats y) { put(y, here + i * outputs + c, All()); });
            });
        });
        finish();
    }
}

// x + scale * out(mixed), and with it x + scale * narrow(GELU(widen(x))), in float32 and rounded.
extern "C" void rest(const Size *size, const Map *out, const Map *widen, const Map *narrow, const Number *mixed,
                     const float *x, const float *scale, float *total, Number *rounded) {
    const int64_t width = out->outputs;
    const float by = *scale;
#pragma omp parallel num_threads(size->threads)
    {
        start();
        Weights outs(*out), widens(*widen), narrows(*narrow);
        Block mixture(width), sum(width), wide(widen->outputs);
        const Parabolas table = GELU;
        integers *const to_sum = sum.numbers.data(), *const to_wide = wide.numbers.data();
        each_block(size->rows, [&](int64_t first, int64_t rows) {
            const float *old = x + first * width;
            float *here = total + first * width;
            Number *low = rounded + first * width;
            mixture.load(mixed + first * width, width, rows);
            apply(outs, mixture, [=](int64_t i, int64_t c, floats left, floats right) {
                if (i >= rows) return;
                for_both(width, c, left, right, [=](int64_t c, floats &y) {
                    y = vector(old + i * width + c) + by * y;
                    put(y, here + i * width + c, All());
                });
                to_sum[c + i] = side_by_side(left, right);
            });
            apply(widens, sum, [=](int64_t i, int64_t c, floats left, floats right) {
                to_wide[c + i] = side_by_side(gelu(table, left), gelu(table, right));
            });
            apply(narrows, wide, [=](int64_t i, int64_t c, floats left, floats right) {
                if (i >= rows) return;
                for_both(width, c, left, right, [=](int64_t c, floats y) {
                    y = vector(here + i * width + c) + by * y;
                    put(y, here + i * width + c, All()), put(y, low + i * width + c, All());
                });
            });
        });
        finish();
    }
}
