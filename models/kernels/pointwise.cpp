// GELU, and the residual sum in float32 with its rounding for the next matrix product, on CPUs: each in one pass that also
// adds the bias of the matrix product before, forwards and backwards; compiled and called by pointwise.py.

#include "gelu.h"

struct Size {
    int64_t rows, width, threads;
};

// work(c, n) for up to sixteen columns at a time; n is a constant but for the last ones.
template <typename Work> INLINE void for_vectors(int64_t width, Work work) {
    int64_t c = 0;
    for (; c + LANES <= width; c += LANES) work(c, All());
    if (c < width) work(c, width - c);
}

template <typename Work> INLINE void for_rows(const Size &size, Work work) {
#pragma omp parallel for num_threads(size.threads) if (size.rows * size.width > 1 << 14)
    for (int64_t row = 0; row < size.rows; row++) work(row, row * size.width);
}

extern "C" void gelu(const Size *size, const Number *x, const float *bias, Number *to) {
    for_rows(*size, [=](int64_t, int64_t at) {
        const Parabolas table = GELU;
        for_vectors(size->width, [=](int64_t c, auto n) {
            put(gelu(table, take(x + at + c, n) + take(bias + c, n)), to + at + c, n);
        });
    });
}

extern "C" void gelu_back(const Size *size, const Number *change, const Number *x, const float *bias, Number *to) {
    for_rows(*size, [=](int64_t, int64_t at) {
        const Parabolas table = SLOPE;
        for_vectors(size->width, [=](int64_t c, auto n) {
            put(take(change + at + c, n) * gelu_slope(table, take(x + at + c, n) + take(bias + c, n)), to + at + c, n);
        });
    });
}

// x + scale * (y + bias), and rounded
extern "C" void add(const Size *size, const float *x, const float *scale, const Number *y, const float *bias, float *sum,
                    Number *rounded) {
    const float by = *scale;
    for_rows(*size, [=](int64_t, int64_t at) {
        for_vectors(size->width, [=](int64_t c, auto n) {
            floats result = take(x + at + c, n) + by * (take(y + at + c, n) + take(bias + c, n));
            put(result, sum + at + c, n), put(result, rounded + at + c, n);
        });
    });
}

// The gradients of x and y, and that of the scale by rows, from those of the sum and of what was rounded.
extern "C" void add_back(const Size *size, const float *of_sum, const Number *of_rounded, const float *scale,
                         const Number *y, const float *bias, float *of_x, Number *of_y, float *of_scale) {
    const float by = *scale;
    for_rows(*size, [=](int64_t row, int64_t at) {
        floats total = {};
        for_vectors(size->width, [=, &total](int64_t c, auto n) {
            floats change = take(of_sum + at + c, n) + take(of_rounded + at + c, n);
            total += change * (take(y + at + c, n) + take(bias + c, n));
            put(change, of_x + at + c, n), put(change * by, of_y + at + c, n);
        });
        of_scale[row] = 0;
        for (int i = 0; i < LANES; i++) of_scale[row] += total[i];
    });
}
