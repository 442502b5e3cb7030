// GELU [Hendrycks & Gimpel 2016] and its derivative from tables of parabolas, as exact as bf16.

#pragma once
#include <cmath>

#include "vectors.h"

constexpr int PIECES = 2 * LANES;  // of as many numbers as one instruction looks up in
constexpr float END = 4.75f;       // beyond, the normal distribution is 0 or 1, to 2e-6
constexpr float PIECE = END / (PIECES - 1);

// A function of |x| in pieces around multiples of PIECE, the last of which, a constant, goes on forever. Copied to where
// it is used, the table stays in registers.
struct Parabolas {
    floats coefficient[3][2];  // of 1, x and x^2

    template <typename Function> Parabolas(Function f, float last) {
        float table[3][PIECES] = {};
        for (int k = 0; k < PIECES - 1; k++) {  // through three points of each, where Chebyshev puts them
            const double middle = PIECE * k, away = PIECE * std::sqrt(0.75) / 2;
            const double left = f(middle - away), here = f(middle), right = f(middle + away);
            const double rise = (right - left) / (2 * away), bend = (right - 2 * here + left) / (2 * away * away);
            table[0][k] = here - rise * middle + bend * middle * middle;
            table[1][k] = rise - 2 * bend * middle;
            table[2][k] = bend;
        }
        table[0][PIECES - 1] = last;
        memcpy(coefficient, table, sizeof coefficient);
    }

    __attribute__((always_inline)) floats operator()(floats x) const {
        x = up_to(floats{} + END, x);
        const floats whole = x * (1 / PIECE) + 1.5f * (1 << 23);  // there the unit of float32 is 1
        const integers piece = reinterpret_cast<integers>(whole);
        return looked_up(coefficient[0], piece) + x * (looked_up(coefficient[1], piece) + x * looked_up(coefficient[2], piece));
    }
};

INLINE double normal(double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }

INLINE double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

static const Parabolas GELU([](double x) { return x * (normal(x) - 1); }, 0);                  // - max(0, x)
static const Parabolas SLOPE([](double x) { return normal(x) - 0.5 + x * density(x); }, 0.5);  // - 1/2

// x * normal(x); not a number stays so, as in its slope.
INLINE floats gelu(const Parabolas &table, floats x) { return larger(floats{}, x) + table(x); }

INLINE floats gelu_slope(const Parabolas &table, floats x) {
    floats y = table(x);
    return x == x ? 0.5f + (x < 0 ? -y : y) : x;
}
