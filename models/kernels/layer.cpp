// What a transformer layer computes beside attention, forwards and backwards: blocks of 32 rows stay in the cache on their way
// through all of it. Compiled and called by layer.py for products on AMX tiles (TILES) or on vectors of pairs.

#include "gelu.h"
#include "gradients.h"

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

// x + scale * out(mixed), and with it x + scale * narrow(GELU(widen(x))), in float32 and rounded; for the gradient, if asked
// for, also the sum and what GELU was applied to.
extern "C" void rest(const Size *size, const Map *out, const Map *widen, const Map *narrow, const Number *mixed,
                     const float *x, const float *scale, float *total, Number *rounded, Number *sums, Number *hidden) {
    const int64_t width = out->outputs, feedforward = widen->outputs;
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
                    if (sums) put(y, sums + (first + i) * width + c, All());
                });
                to_sum[c + i] = side_by_side(left, right);
            });
            apply(widens, sum, [=](int64_t i, int64_t c, floats left, floats right) {
                if (hidden && i < rows)
                    for_both(feedforward, c, left, right, [=](int64_t c, floats y) {
                        put(y, hidden + (first + i) * feedforward + c, All());
                    });
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

// The gradients of what `linear` gets from that of what it returns.
extern "C" void linear_back(const Size *size, const Map *map, const Number *x, const Number *of_y, Number *of_x) {
    const int64_t inputs = map->inputs, outputs = map->outputs;
    std::vector<const Gradient *> all(size->threads);
#pragma omp parallel num_threads(size->threads)
    {
        start();
        const Weights weights = Weights::back(*map);
        Blocks mine(DEPTH, Block(inputs)), change(DEPTH, Block(outputs));
        Gradient gradient(*map);
        each_blocks(size->rows, [&](int64_t first, int64_t blocks) {
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t start = first + b * SIDE, rows = std::min(SIDE, size->rows - start);
                mine[b].load(x + start * inputs, inputs, rows);
                change[b].load(of_y + start * outputs, outputs, rows);
                apply(weights, change[b], [=](int64_t i, int64_t c, floats left, floats right) {
                    if (i >= rows) return;
                    for_both(inputs, c, left, right, [=](int64_t c, floats y) {
                        put(y, of_x + (start + i) * inputs + c, All());
                    });
                });
            }
            gradient.add(mine, change, blocks);
        });
        gradient.write(all);
        finish();
    }
}

// The gradients of what `rest` gets from those of what it returns and what it kept; of the parameters of out and narrow, those
// of their products with the scale.
extern "C" void rest_back(const Size *size, const Map *out, const Map *widen, const Map *narrow, const Number *mixed,
                          const Number *sums, const Number *hidden, const float *scale, const float *of_total,
                          const Number *of_rounded, Number *of_mixed, float *of_x) {
    const int64_t width = out->outputs, feedforward = widen->outputs;
    const float by = *scale;
    std::vector<const Gradient *> all_outs(size->threads), all_widens(size->threads), all_narrows(size->threads);
#pragma omp parallel num_threads(size->threads)
    {
        start();
        const Weights outs = Weights::back(*out), widens = Weights::back(*widen), narrows = Weights::back(*narrow);
        Blocks mixture(DEPTH, Block(width)), sum(DEPTH, Block(width)), wide(DEPTH, Block(feedforward));
        Blocks of_sum(DEPTH, Block(width)), of_hidden(DEPTH, Block(feedforward)), of_end(DEPTH, Block(width));
        Gradient out_gradient(*out), widen_gradient(*widen), narrow_gradient(*narrow);
        const Parabolas table = GELU, slope = SLOPE;
        each_blocks(size->rows, [&](int64_t first, int64_t blocks) {
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t start = first + b * SIDE, rows = std::min(SIDE, size->rows - start);
                float *here = of_x + start * width;
                mixture[b].load(mixed + start * width, width, rows);
                sum[b].load(sums + start * width, width, rows);
                wide[b].load(hidden + start * feedforward, feedforward, rows);
                for (int64_t i = 0; i < SIDE; i++)
                    for (int64_t c = 0; c < width; c += SIDE) {
                        floats left = {}, right = {};
                        if (i < rows)
                            for_both(width, c, left, right, [=](int64_t c, floats &y) {
                                const int64_t at = (start + i) * width + c;
                                y = vector(of_total + at) + vector(of_rounded + at);
                                put(y, of_x + at, All());
                            });
                        of_end[b].numbers[c + i] = side_by_side(left, right);
                    }
                integers *const to_wide = wide[b].numbers.data(), *const to_hidden = of_hidden[b].numbers.data();
                integers *const to_sum = of_sum[b].numbers.data();
                apply(narrows, of_end[b], [=](int64_t i, int64_t c, floats left, floats right) {
                    const Number *before = reinterpret_cast<Number *>(to_wide + c + i);
                    const floats x = vector(before), y = vector(before + LANES);
                    to_wide[c + i] = side_by_side(gelu(table, x), gelu(table, y));
                    to_hidden[c + i] = side_by_side(by * left * gelu_slope(slope, x), by * right * gelu_slope(slope, y));
                });
                apply(widens, of_hidden[b], [=](int64_t i, int64_t c, floats left, floats right) {
                    if (i < rows)
                        for_both(width, c, left, right, [=](int64_t c, floats &y) {
                            y += vector(here + i * width + c);
                            put(y, here + i * width + c, All());
                        });
                    to_sum[c + i] = side_by_side(left, right);
                });
                apply(outs, of_sum[b], [=](int64_t i, int64_t c, floats left, floats right) {
                    if (i >= rows) return;
                    for_both(width, c, left, right, [=](int64_t c, floats y) {
                        put(by * y, of_mixed + (start + i) * width + c, All());
                    });
                });
            }
            narrow_gradient.add(wide, of_end, blocks);
            widen_gradient.add(sum, of_hidden, blocks);
            out_gradient.add(mixture, of_sum, blocks);
        });
        narrow_gradient.write(all_narrows), widen_gradient.write(all_widens), out_gradient.write(all_outs);
        finish();
    }
}
