// Gradients of linear maps: sums over rows, in which each thread has a share.

#pragma once
#include <omp.h>

#ifdef TILES
#include "maps_on_tiles.h"
#else
#include "maps_on_pairs.h"
#endif

constexpr int64_t DEPTH = 4;  // blocks of rows that are added at once, so that sums are seldom fetched and put back

typedef std::vector<Block> Blocks;  // DEPTH of them

// work(first row, blocks of this thread from there on, at most DEPTH)
template <typename Work> INLINE void each_blocks(int64_t rows, Work work) {
    const int64_t all = (rows + SIDE - 1) / SIDE, thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const int64_t end = (thread + 1) * all / threads;
    for (int64_t block = thread * all / threads; block < end; block += DEPTH) work(block * SIDE, std::min(DEPTH, end - block));
}

// Of a map's weights and bias, from the rows of one thread.
class Gradient {
    const Map &map;
    const int64_t inputs = map.inputs, outputs = map.outputs;
    std::vector<floats> sums, bias;  // [inputs / 32, outputs / 32], four tiles each of sixteen inputs; [outputs / 16]
    std::vector<integers> left, right;

    // Tiles of the numbers of two rows side by side, [columns / 32, DEPTH, first or last sixteen columns, pairs of rows].
    template <typename Each> static void pair(const Blocks &blocks, int64_t count, std::vector<integers> &to, Each each) {
        const int64_t columns = blocks[0].numbers.size();
        for (int64_t b = 0; b < count; b++)
            for (int64_t c = 0; c < columns; c += SIDE)
                for (int last = 0; last < 2; last++) {
                    const integers *row = &blocks[b].numbers[c];
                    integers tile[LANES];
#pragma GCC unroll 16
                    for (int i = 0; i < LANES; i++) tile[i] = woven(row[2 * i], row[2 * i + 1], last);
                    each(tile, c / LANES + last);
                    copy<LANES>(tile, &to[c * DEPTH + b * SIDE + last * LANES]);
                }
    }

  public:
    explicit Gradient(const Map &map)
        : map(map), sums(sides(inputs) * sides(outputs) * 4 * LANES), bias(sides(outputs) * 2),
          left(sides(inputs) * SIDE * DEPTH), right(sides(outputs) * SIDE * DEPTH) {}

    // The map's input, and the gradient of its output, of as many blocks of rows.
    void add(const Blocks &x, const Blocks &of_y, int64_t count) {
        pair(x, count, left, [](integers(&tile)[LANES], int64_t) { transpose(tile); });
        pair(of_y, count, right, [this](integers(&tile)[LANES], int64_t part) {
            const integers ones = integers{} + 0x3f803f80;  // each a pair of 1 in bf16
            floats sum[4] = {};                             // that do not wait for each other
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                sum[i % 4] = _mm512_dpbf16_ps(sum[i % 4], (__m512bh)tile[i], (__m512bh)ones);
            bias[part] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
        });
        floats *sum = sums.data();
        for (int64_t i = 0; i < sides(inputs); i++)
            for (int64_t j = 0; j < sides(outputs); j++, sum += 4 * LANES) {
                const integers *a = &left[i * SIDE * DEPTH], *b = &right[j * SIDE * DEPTH];
                add_products(a, b, count, sum);
            }
    }

    // Writes what all threads have added; called by all of them, with the same array of as many as there are.
    void write(std::vector<const Gradient *> &all) const {
        const int threads = omp_get_num_threads();
        all[omp_get_thread_num()] = this;
#pragma omp barrier
#pragma omp for nowait
        for (int64_t at = 0; at < int64_t(sums.size()); at += LANES) {
            const int64_t quarter = at / LANES % 4, part = at / LANES / 4;
            const int64_t input = part / sides(outputs) * SIDE + quarter / 2 * LANES;
            const int64_t output = part % sides(outputs) * SIDE + quarter % 2 * LANES;
            if (input >= inputs || output >= outputs) continue;
            floats tile[LANES] = {};
            for (int t = 0; t < threads; t++)
                for (int i = 0; i < LANES; i++) tile[i] += all[t]->sums[at + i];
            transpose(tile);
            for (int i = 0; i < LANES; i++) put(tile[i], map.of_weight + (output + i) * inputs + input, All());
        }
#pragma omp for
        for (int64_t c = 0; c < outputs; c += LANES) {
            floats total = {};
            for (int t = 0; t < threads; t++) total += all[t]->bias[c / LANES];
            put(total, map.of_bias + c, All());
        }
    }
};
