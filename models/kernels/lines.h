// Lines of tokens within which attention is, heads of D numbers, and what all ways to compute it share.

#pragma once
#include <vector>

#include "vectors.h"

constexpr int D = SIZE;
constexpr int PARTS = (D + LANES - 1) / LANES, LAST = D - (PARTS - 1) * LANES;  // vectors of a row, lanes of the last
typedef std::integral_constant<int64_t, LAST> Last;

const float SCALE = 1 / __builtin_sqrtf(D);
const float OF_TWO = 1.44269504f;   // e^x = 2^(x * OF_TWO)
const float UNIT = SCALE * OF_TWO;  // of scores, from products
const float NOTHING = -3e38f;       // the score of places without a key
const float HIDDEN = -1e38f;        // the lowest bias of a key, so that those of -inf or nearly stay apart from NOTHING

// No bias, for as many numbers as are read at once. Not in a function: compilers keep one of those for the whole process, of
// the size that the first library of its name has.
static const float NONE[D + 3 * LANES] = {};

// Where the tokens of each line are, and what is added.
struct Lines {
    const int64_t *tokens;  // [lines, size]; -1: none
    const float *qkv_bias;  // [3 * width], added to queries, keys and values; or null
    const float *bias;      // added to scores, by line, head and place; or null
    int64_t of_line, of_head, of_place, lines, size, heads, threads;

    int64_t token(int64_t line, int64_t place) const { return tokens[line * size + place]; }

    float added(int64_t line, int64_t head, int64_t place) const {
        float x = bias ? bias[line * of_line + head * of_head + place * of_place] * OF_TWO : 0;
        return x < HIDDEN ? HIDDEN : x;
    }

    const float *qkv_added(int64_t column) const { return qkv_bias ? qkv_bias + column : NONE; }
};

// The tokens of a line.
struct Tokens {
    const Lines &all;
    int64_t line = 0, n = 0;
    std::vector<int64_t> token = {}, place = {};  // [n] where they are among all, and in the line

    void find(int64_t at) {
        line = at;
        token.clear(), place.clear();
        for (int64_t i = 0; i < all.size; i++) {
            int64_t t = all.token(line, i);
            if (t >= 0) token.push_back(t), place.push_back(i);
        }
        n = token.size();
    }
};

INLINE int64_t whole(int64_t n) { return (n + 3) / 4 * 4; }

// What each(0), each(1) and so on make together, of 0..n-1 and those behind up to a multiple of four: four at a time,
// since each waits for the one before.
template <typename Each, typename Merge> INLINE floats fold(int64_t n, floats start, Each each, Merge merge) {
    floats x[4] = {start, start, start, start};
    for (int64_t j = 0; j < n; j += 4)
        for (int k = 0; k < 4; k++) x[k] = merge(x[k], each(j + k));
    return merge(merge(x[0], x[1]), merge(x[2], x[3]));
}

INLINE floats plus(floats x, floats y) { return x + y; }
