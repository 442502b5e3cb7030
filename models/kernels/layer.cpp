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

// The weights of a map in bf16, 32 outputs after the other: of each 32 inputs two tiles, each of sixteen outputs.
struct Weights {
    const Map map;
    std::vector<integers> tiles;

    explicit Weights(const Map *map) : map(*map), tiles(sides(map->outputs) * sides(map->inputs) * SIDE) {}

    void load() {  // by all threads together
#pragma omp for
        for (int64_t output = 0; output < map.outputs; output += LANES)
            for (int64_t input = 0; input < map.inputs; input += SIDE) {
                integers tile[LANES] = {};
                for (int i = 0; i < LANES; i++)
                    for (int64_t c = input; c < std::min(input + SIDE, map.inputs); c += LANES)
                        put(vector(map.weight + (output + i) * map.inputs + c), (Number *)&tile[i] + (c - input), All());
                transpose(tile);
                const int64_t block = output / SIDE * sides(map.inputs) + input / SIDE;
                memcpy(&tiles[block * SIDE + output % SIDE], tile, sizeof tile);
            }
    }
};

// A map of 32 rows without its bias; done(i, c, what makes columns c to c + 15 of row i) is called for 32 columns while the
// next ones are multiplied, since tiles and vectors are apart in the processor.
template <typename Done> INLINE void apply(const Weights &weights, const Block &rows, Done done) {
    floats sums[2][SIDE][2];
    const int64_t columns = weights.map.outputs, steps = sides(weights.map.inputs);
    const integers *weight = weights.tiles.data();
    for (int64_t last = -SIDE; last < columns; last += SIDE) {
        const bool next = last + SIDE < columns;
        floats(&now)[SIDE][2] = sums[last / SIDE & 1], (&before)[SIDE][2] = sums[last / SIDE & 1 ^ 1];
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
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
            if (last >= 0)
                for (int64_t i = step * SIDE / steps; i < (step + 1) * SIDE / steps; i++)
                    for (int64_t k = 0; k < 2 && last + k * LANES < columns; k++) done(i, last + k * LANES, before[i][k]);
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

struct Size {
    int64_t rows, threads;
};

template <typename Work> INLINE void each_block(int64_t rows, Work work) {
#pragma omp for
    for (int64_t first = 0; first < rows; first += SIDE) work(first, std::min(SIDE, rows - first));
}

// x [rows, inputs] times the map's weights.
extern "C" void linear(const Size *size, const Map *map, const Number *x, Number *to) {
    const int64_t inputs = map->inputs, outputs = map->outputs;
    Weights weights(map);
#pragma omp parallel num_threads(size->threads)
    {
        start();
        weights.load();
        Block mine(inputs);
        each_block(size->rows, [&](int64_t first, int64_t rows) {
            Number *here = to + first * outputs;
            mine.load(x + first * inputs, inputs, rows);
            apply(weights, mine, [=](int64_t i, int64_t c, floats sum) {
                if (i < rows) put(sum, here + i * outputs + c, All());
            });
        });
        finish();
    }
}

// x + scale * out(mixed), and with it x + scale * narrow(GELU(widen(x))), in float32 and rounded.
extern "C" void rest(const Size *size, const Map *out, const Map *widen, const Map *narrow, const Number *mixed,
                     const float *x, const float *scale, float *total, Number *rounded) {
    const int64_t width = out->outputs;
    const float by = *scale, *out_bias = out->bias, *widen_bias = widen->bias, *narrow_bias = narrow->bias;
    Weights outs(out), widens(widen), narrows(narrow);
#pragma omp parallel num_threads(size->threads)
    {
        start();
        outs.load(), widens.load(), narrows.load();
        Block mixture(width), sum(width), wide(widen->outputs);
        Block *const to_sum = &sum, *const to_wide = &wide;  // what is called for vectors keeps values, not references
        each_block(size->rows, [&](int64_t first, int64_t rows) {
            const float *old = x + first * width;
            float *here = total + first * width;
            Number *low = rounded + first * width;
            mixture.load(mixed + first * width, width, rows);
            apply(outs, mixture, [=](int64_t i, int64_t c, floats more) {
                if (i >= rows) return;
                const int64_t at = i * width + c;
                floats y = vector(old + at) + by * (more + vector(out_bias + c));
                put(y, here + at, All()), put(y, to_sum->at(i, c), All());
            });
            apply(widens, sum, [=](int64_t i, int64_t c, floats x) {
                put(gelu(x + vector(widen_bias + c)), to_wide->at(i, c), All());
            });
            apply(narrows, wide, [=](int64_t i, int64_t c, floats more) {
                if (i >= rows) return;
                const int64_t at = i * width + c;
                floats y = vector(here + at) + by * (more + vector(narrow_bias + c));
                put(y, here + at, All()), put(y, low + at, All());
            });
        });
        finish();
    }
}
