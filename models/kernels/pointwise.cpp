// GELU, and the residual sum in float32 with its rounding for the next matrix product, on CPUs: each in one pass that also
// adds the bias of the matrix product before, forwards and backwards; compiled and called by pointwise.py.

#include "vectors.h"

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

const float END = 4.6f;  // beyond, the normal distribution is 0 or 1, to 2e-6

// Of the polynomial with these coefficients at x * x, mapped from 0..END^2 to -1..1; times x.
template <size_t N> INLINE floats odd(floats x, const float (&coefficients)[N]) {
    floats at = x * x * (2 / END / END) - 1, y = floats{} + coefficients[N - 1];
    for (int k = int(N) - 2; k >= 0; k--) y = y * at + coefficients[k];
    return y * x;
}

// Normal(x) - 1/2, to 2e-5, and to 1e-5 when multiplied with x.
const float NORMAL[] = {0.153543547f,  -0.0757574514f, 0.0541316085f,   -0.0405855998f,  0.029564701f,
                        -0.0191555358f, 0.0108712139f, -0.00762455212f, 0.00566916121f, -0.00196235138f};
// The derivative of x * Normal(x), less 1/2, to 2e-5.
const float SLOPE[] = {0.155556262f,  -0.08645951f,   0.0822212771f, -0.0888969004f, 0.0953665972f, -0.0962320939f,
                       0.0730647594f, -0.0363038294f, 0.0316149145f, -0.0366536714f, 0.015431026f};

// x * Normal(x)
extern "C" void gelu(const Size *size, const Number *x, const float *bias, Number *to) {
    for_rows(*size, [=](int64_t, int64_t at) {
        for_vectors(size->width, [=](int64_t c, auto n) {
            floats y = take(x + at + c, n) + take(bias + c, n);
            y = larger(floats{} - END, y);  // not a number stays so
            put(y * (odd(smaller(floats{} + END, y), NORMAL) + 0.5f), to + at + c, n);
        });
    });
}

extern "C" void gelu_back(const Size *size, const Number *change, const Number *x, const float *bias, Number *to) {
    for_rows(*size, [=](int64_t, int64_t at) {
        for_vectors(size->width, [=](int64_t c, auto n) {
            floats y = take(x + at + c, n) + take(bias + c, n);
            y = smaller(floats{} + END, larger(floats{} - END, y));
            put(take(change + at + c, n) * (odd(y, SLOPE) + 0.5f), to + at + c, n);
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
