// Linear maps of rows, 32 at a time, in the order in which they are multiplied.

#pragma once
#include <algorithm>
#include <vector>

#include "vectors.h"

constexpr int64_t SIDE = 2 * LANES;  // rows, and columns, of two tiles side by side

INLINE int64_t sides(int64_t n) { return (n + SIDE - 1) / SIDE; }

// A linear map of rows; both sizes are multiples of LANES.
struct Map {
    int64_t outputs, inputs;
    const float *weight, *bias;   // [outputs, inputs], [outputs]
    float *of_weight, *of_bias;   // their gradients

    // The weights of an output for 32 inputs in bf16, with zeros behind the last.
    integers row(int64_t output, int64_t input) const {
        const float *from = weight + output * inputs + input;
        return side_by_side(vector(from), input + LANES < inputs ? vector(from + LANES) : floats{});
    }
};

// 32 rows of bf16, [columns / 32, 32, 32], with zeros behind the last column.
struct Block {
    std::vector<integers> numbers;

    explicit Block(int64_t columns) : numbers(sides(columns) * SIDE) {}

    void load(const Number *from, int64_t columns, int64_t rows) {
        for (int64_t i = 0; i < SIDE; i++)
            for (int64_t c = 0; c < columns; c += SIDE) {
                integers &to = numbers[c + i] = integers{};
                if (i < rows) memcpy(&to, from + i * columns + c, (c + LANES < columns ? SIDE : LANES) * sizeof(Number));
            }
    }
};

// The weights of a map in bf16, 32 outputs after the other: of each 32 inputs two tiles, each of sixteen outputs. Every thread
// has its own, since it costs more to fetch them from another's cache than to order them again.
struct Weights {
    int64_t columns, inputs, steps = sides(inputs);
    std::vector<floats> bias;
    std::vector<integers> tiles;

    Weights(int64_t columns, int64_t inputs)
        : columns(columns), inputs(inputs), bias(2 * sides(columns)), tiles(sides(columns) * steps * SIDE) {}

    explicit Weights(const Map &map) : Weights(map.outputs, map.inputs) {
        if (map.bias) memcpy(bias.data(), map.bias, columns * sizeof(float));
        for (int64_t output = 0; output < columns; output += LANES)
            for (int64_t step = 0; step < steps; step++) {
                integers tile[LANES];
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) tile[i] = map.row(output + i, step * SIDE);
                transpose(tile);
                copy<LANES>(tile, &tiles[(output / SIDE * steps + step) * SIDE + output % SIDE]);
            }
    }

    // Of the map from gradients of its outputs to those of its inputs.
    static Weights back(const Map &map) {
        Weights result(map.inputs, map.outputs);
        integers *to = result.tiles.data();
        for (int64_t input = 0; input < map.inputs; input += SIDE)
            for (int64_t step = 0; step < result.steps; step++, to += SIDE)
                for (int i = 0; i < std::min(SIDE, map.outputs - step * SIDE) / 2; i++) {
                    const integers one = map.row(step * SIDE + 2 * i, input), next = map.row(step * SIDE + 2 * i + 1, input);
                    to[i] = woven(one, next, false), to[i + LANES] = woven(one, next, true);
                }
        return result;
    }
};

// work(c, sixteen numbers from column c on) for those of the two vectors that are not behind the last column.
template <typename Work> INLINE void for_both(int64_t columns, int64_t c, floats &left, floats &right, Work work) {
    work(c, left);
    if (c + LANES < columns) work(c + LANES, right);
}
