// Attention on CPUs, forwards and backwards; compiled and called by fused.py for one format of numbers (NUMBER: float or
// uint16_t, which is bf16) and one size of the heads (SIZE).
//
// One line of tokens and one head at a time, so that scores never leave the cache. Sixteen queries share a vector, one
// lane each; for the gradients of keys and values sixteen keys do. Then all sums run over whole vectors. In between,
// numbers are float32.

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#define INLINE static inline __attribute__((always_inline))  // else sums would be kept in memory, not in registers

typedef NUMBER Number;
constexpr int D = SIZE;
constexpr int LANES = 16;  // the compiler maps them to the vectors of the machine
constexpr int PARTS = (D + LANES - 1) / LANES, LAST = D - (PARTS - 1) * LANES;  // vectors of a row, lanes of the last
const float SCALE = 1 / __builtin_sqrtf(D);

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t integers __attribute__((vector_size(4 * LANES)));

INLINE float *lanes(floats *x) { return reinterpret_cast<float *>(x); }

INLINE const float *lanes(const floats *x) { return reinterpret_cast<const float *>(x); }

template <int N> INLINE void read(const Number *__restrict from, float *__restrict to, float by) {
    for (int i = 0; i < N; i++) {
        float x;
        if constexpr (std::is_same_v<Number, float>) {
            x = from[i];
        } else {
            uint32_t bits = uint32_t(from[i]) << 16;
            memcpy(&x, &bits, sizeof x);
        }
        to[i] = x * by;
    }
}

template <int N> INLINE void write(const float *__restrict from, Number *__restrict to) {
    for (int i = 0; i < N; i++) {
        if constexpr (std::is_same_v<Number, float>) {
            to[i] = from[i];
        } else {  // the nearest, ties to even
            uint32_t bits;
            memcpy(&bits, &from[i], sizeof bits);
            bool number = (bits & 0x7fffffff) <= 0x7f800000;
            to[i] = number ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fc0;
        }
    }
}

// e^x for x <= 88, to 2e-7 of it; below -87, where it is 1e-38, that.
INLINE floats exponential(floats x) {
    x = x < -87.0f ? floats{} - 87.0f : x;
    floats shifted = x * 1.44269504f + 12582912.0f;  // adding 1.5 * 2^23 rounds x / log(2) to an integer
    floats whole = shifted - 12582912.0f;
    floats r = x - whole * 0.693145752f - whole * 1.42860677e-6f;  // |r| <= log(2) / 2; log(2) in two parts
    floats series = 1 + r * (1 + r * (0.5f + r * (1 / 6.0f + r * (1 / 24.0f + r * (1 / 120.0f + r * (1 / 720.0f))))));
    return reinterpret_cast<floats>(reinterpret_cast<integers>(series) + (reinterpret_cast<integers>(shifted) << 23));
}

INLINE floats picked(floats a, floats b, integers from) {  // lanes of the two side by side
#ifdef __clang__
    floats x;
    for (int i = 0; i < LANES; i++) x[i] = from[i] < LANES ? a[from[i]] : b[from[i] - LANES];
    return x;
#else
    return __builtin_shuffle(a, b, from);
#endif
}

// Rows become columns: halves change places, then quarters within them, and so on.
INLINE void transpose(floats (&x)[LANES]) {
    integers lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int step = LANES / 2; step; step /= 2) {
        integers low = (lane & step) ? lane - step + LANES : lane, high = (lane & step) ? lane + LANES : lane + step;
        for (int i = 0; i < LANES; i++)
            if (!(i & step)) {
                floats a = x[i], b = x[i + step];
                x[i] = picked(a, b, low), x[i + step] = picked(a, b, high);
            }
    }
}

// [n, D], one row for each of a line's tokens, with zeros up to a multiple of the lanes.
struct Rows {
    std::vector<floats> numbers;

    void load(const Number *from, int64_t stride, const std::vector<int64_t> &token, float by = 1) {
        numbers.resize((token.size() + LANES) * PARTS);
        for (size_t j = 0; j < token.size(); j++) {
            const Number *row = from + token[j] * stride;
            floats *vectors = &numbers[j * PARTS];
            for (int part = 0; part < PARTS - 1; part++) read<LANES>(row + part * LANES, lanes(vectors + part), by);
            read<LAST>(row + (PARTS - 1) * LANES, lanes(vectors + PARTS - 1), by);
        }
        for (size_t j = token.size() * PARTS; j < numbers.size(); j++) numbers[j] = floats{};
    }

    const float *operator[](int64_t j) const { return lanes(&numbers[j * PARTS]); }
};

// What sixteen rows, one a lane, give when each is multiplied with each of n others.
INLINE void products(const Rows &rows, int64_t first, const Rows &others, int64_t n, floats *to) {
    floats mine[PARTS * LANES];
    for (int part = 0; part < PARTS; part++) {
        floats tile[LANES];
        for (int i = 0; i < LANES; i++) tile[i] = rows.numbers[(first + i) * PARTS + part];
        transpose(tile);
        memcpy(mine + part * LANES, tile, sizeof tile);
    }
    for (int64_t j = 0; j < n; j++) {
        floats product = {};
        for (int c = 0; c < D; c++) product += mine[c] * others[j][c];
        to[j] = product;
    }
}

// Sixteen sums of n rows, times `by`, to the tokens from `first` on; weights [n], one a lane.
INLINE void add_up(const floats *weights, const Rows &rows, int64_t n, floats by, const std::vector<int64_t> &token,
                   int64_t first, Number *to, int64_t stride) {
    floats sums[PARTS * LANES] = {};
    for (int64_t j = 0; j < n; j++)
        for (int c = 0; c < D; c++) sums[c] += weights[j] * rows[j][c];
    for (int part = 0; part < PARTS; part++) {
        floats tile[LANES];
        for (int c = 0; c < LANES; c++) tile[c] = sums[part * LANES + c] * by;
        transpose(tile);
        for (int64_t i = 0; i < LANES && first + i < n; i++) {
            Number *row = to + token[first + i] * stride + part * LANES;
            part < PARTS - 1 ? write<LANES>(lanes(&tile[i]), row) : write<LAST>(lanes(&tile[i]), row);
        }
    }
}

// Where the tokens of each line are, and what is added to the scores of its keys.
struct Lines {
    const int64_t *tokens;  // [lines, size]; -1: none
    const float *bias;      // by line, head and place; or null
    int64_t of_line, of_head, of_place, lines, size, heads, threads;
};

// A line's tokens, and the numbers of one head after the other; the scratch of a thread.
struct Line {
    const Lines &all;
    int64_t line = 0, n = 0, width = all.heads * D;
    std::vector<int64_t> token = {}, place = {};  // [n] where its tokens are among all, and in the line
    Rows query = {}, key = {}, value = {}, result = {}, change = {};
    std::vector<float> bias = {}, top = {}, part = {}, inner = {};  // [n], see below
    std::vector<floats> shares = {}, changes = {};                  // [n], of sixteen queries or keys

    void find(int64_t at) {
        line = at;
        token.clear(), place.clear();
        for (int64_t i = 0; i < all.size; i++) {
            int64_t t = all.tokens[line * all.size + i];
            if (t >= 0) token.push_back(t), place.push_back(i);
        }
        n = token.size();
        shares.resize(n), changes.resize(n);
    }

    void load(int64_t head, const Number *qkv) {
        query.load(qkv + head * D, 3 * width, token, SCALE);
        key.load(qkv + width + head * D, 3 * width, token);
        value.load(qkv + 2 * width + head * D, 3 * width, token);
        bias.assign(n + LANES, 0);
        for (int64_t j = 0; all.bias && j < n; j++)
            bias[j] = all.bias[line * all.of_line + head * all.of_head + place[j] * all.of_place];
    }

    // result, the share of value j in which is e^(score - top) * part; `sums` [T, heads, 2] keeps top and part.
    void forth(int64_t head, const Number *qkv, Number *out, float *sums) {
        load(head, qkv);
        for (int64_t first = 0; first < n; first += LANES) {
            products(query, first, key, n, shares.data());
            floats most = floats{} - 3e38f, sum = {};
            for (int64_t j = 0; j < n; j++) {
                shares[j] += bias[j];
                most = most < shares[j] ? shares[j] : most;
            }
            for (int64_t j = 0; j < n; j++) sum += shares[j] = exponential(shares[j] - most);
            add_up(shares.data(), value, n, 1 / sum, token, first, out + head * D, width);
            for (int64_t i = 0; i < LANES && first + i < n; i++) {
                float *of_query = sums + (token[first + i] * all.heads + head) * 2;
                of_query[0] = most[i], of_query[1] = 1 / sum[i];
            }
        }
    }

    // From change, the gradient of the result, that of queries, keys and values.
    void back(int64_t head, const Number *qkv, const Number *out, const float *sums, const Number *gradient, Number *to) {
        load(head, qkv);
        result.load(out + head * D, width, token), change.load(gradient + head * D, width, token);
        for (auto each : {&top, &part, &inner}) each->assign(n + LANES, 0);
        for (int64_t i = 0; i < n; i++) {
            const float *of_query = sums + (token[i] * all.heads + head) * 2;
            top[i] = of_query[0], part[i] = of_query[1];
            for (int c = 0; c < D; c++) inner[i] += result[i][c] * change[i][c];
        }
        Number *of_queries = to + head * D, *of_keys = of_queries + width, *of_values = of_keys + width;
        floats one = floats{} + 1;
        for (int64_t first = 0; first < n; first += LANES) {
            products(query, first, key, n, shares.data()), products(change, first, value, n, changes.data());
            for (int64_t j = 0; j < n; j++) differentiate(j, bias[j] * one, here(top, first), here(part, first), here(inner, first));
            add_up(changes.data(), key, n, SCALE * one, token, first, of_queries, 3 * width);

            products(key, first, query, n, shares.data()), products(value, first, change, n, changes.data());
            for (int64_t j = 0; j < n; j++) differentiate(j, here(bias, first), top[j] * one, part[j] * one, inner[j] * one);
            add_up(changes.data(), query, n, one, token, first, of_keys, 3 * width);
            add_up(shares.data(), change, n, one, token, first, of_values, 3 * width);
        }
    }

    static floats here(const std::vector<float> &x, int64_t first) {
        floats y;
        memcpy(&y, &x[first], sizeof y);
        return y;
    }

    // From query * key the share, and from value * change the gradient of the score; inner: result * change.
    void differentiate(int64_t j, floats bias, floats top, floats part, floats inner) {
        shares[j] = exponential(shares[j] + bias - top) * part;
        changes[j] = shares[j] * (changes[j] - inner);
    }
};

template <typename Work> void each_head(const Lines &all, Work work) {
#pragma omp parallel num_threads(all.threads)
    {
        Line line{all};
#pragma omp for
        for (int64_t l = 0; l < all.lines; l++) {
            line.find(l);
            for (int64_t head = 0; head < all.heads; head++) work(line, head);
        }
    }
}

extern "C" void forth(const Lines *all, const Number *qkv, Number *out, float *sums) {
    each_head(*all, [=](Line &line, int64_t head) { line.forth(head, qkv, out, sums); });
}

extern "C" void back(const Lines *all, const Number *qkv, const Number *out, const float *sums, const Number *gradient,
                     Number *to) {
    each_head(*all, [=](Line &line, int64_t head) { line.back(head, qkv, out, sums, gradient, to); });
}
