// Vectors of sixteen float32 numbers, and rows of Number (float, or uint16_t, which is bf16) that are read into them.

#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))  // else sums would be kept in memory, not in registers

typedef NUMBER Number;
constexpr int LANES = 16;  // the compiler maps them to the vectors of the machine

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t integers __attribute__((vector_size(4 * LANES)));

INLINE float *lanes(floats *x) { return reinterpret_cast<float *>(x); }

INLINE const float *lanes(const floats *x) { return reinterpret_cast<const float *>(x); }

INLINE float as_float(float x) { return x; }

INLINE float as_float(uint16_t x) {
    uint32_t bits = uint32_t(x) << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

INLINE floats vector(const float *x) {
    floats y;
    memcpy(&y, x, sizeof y);
    return y;
}

INLINE floats vector(const uint16_t *x) {
#ifdef __AVX512F__
    integers bits = reinterpret_cast<integers>(_mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256((const __m256i *)x)));
#else
    typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
    halves y;
    memcpy(&y, x, sizeof y);
    integers bits = __builtin_convertvector(y, integers);
#endif
    return reinterpret_cast<floats>(bits << 16);
}

// Half a vector and another half.
INLINE integers after_each_other(const void *low, const void *high) {
    integers y;
#ifdef __AVX512F__
    __m512i x = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)low));
    y = reinterpret_cast<integers>(_mm512_inserti64x4(x, _mm256_loadu_si256((const __m256i *)high), 1));
#else
    memcpy(&y, low, sizeof y / 2), memcpy((char *)&y + sizeof y / 2, high, sizeof y / 2);
#endif
    return y;
}

#ifdef __AVX512BF16__
// Two vectors in bf16, of which each lane has two numbers side by side.
INLINE integers paired(floats low, floats high) {
    alignas(64) uint16_t order[2 * LANES];
    for (int i = 0; i < 2 * LANES; i++) order[i] = i / 2 + i % 2 * LANES;
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    return reinterpret_cast<integers>(_mm512_permutexvar_epi16(_mm512_load_si512(order), halves));
}

// Two vectors after each other in bf16.
INLINE integers side_by_side(floats low, floats high) {
    return reinterpret_cast<integers>(_mm512_cvtne2ps_pbh(high, low));
}

// Of each of the first or last sixteen columns the numbers of two rows side by side.
INLINE integers woven(integers above, integers below, bool last) {
    const int from = last ? LANES : 0;
    alignas(64) uint16_t order[2 * LANES];
    for (int i = 0; i < 2 * LANES; i++) order[i] = from + i / 2 + i % 2 * 2 * LANES;
    const auto as = [](integers x) { return reinterpret_cast<__m512i>(x); };
    return reinterpret_cast<integers>(_mm512_permutex2var_epi16(as(above), _mm512_load_si512(order), as(below)));
}
#endif

INLINE void write(floats from, float *to) { memcpy(to, &from, sizeof from); }

INLINE void write(floats from, uint16_t *__restrict to) {
#ifdef __AVX512BF16__
    __m256bh rounded = _mm512_cvtneps_pbh(from);
    memcpy(to, &rounded, sizeof rounded);
#else
    for (int i = 0; i < LANES; i++) {  // to the nearest, ties to even
        uint32_t bits;
        memcpy(&bits, lanes(&from) + i, sizeof bits);
        bool number = (bits & 0x7fffffff) <= 0x7f800000;
        to[i] = number ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fc0;
    }
#endif
}

typedef std::integral_constant<int64_t, LANES> All;  // numbers of a vector

template <typename T> INLINE floats take(const T *x, All) { return vector(x); }

template <typename T> INLINE floats take(const T *x, int64_t n) {  // n numbers, with zeros behind
    T y[LANES] = {};
    memcpy(y, x, n * sizeof(T));
    return vector(y);
}

template <typename T> INLINE void put(floats x, T *to, All) { write(x, to); }

template <typename T> INLINE void put(floats x, T *to, int64_t n) {
    T y[LANES];
    write(x, y);
    memcpy(to, y, n * sizeof(T));
}

#ifdef __AVX512F__
INLINE floats take(const float *x, int64_t n) { return _mm512_maskz_loadu_ps((1 << n) - 1, x); }
#endif

#if defined __AVX512BF16__ && defined __AVX512VL__
INLINE floats take(const uint16_t *x, int64_t n) {
    integers bits = reinterpret_cast<integers>(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((1 << n) - 1, x)));
    return reinterpret_cast<floats>(bits << 16);
}

INLINE void put(floats x, uint16_t *to, int64_t n) {
    _mm256_mask_storeu_epi16(to, (1 << n) - 1, (__m256i)_mm512_cvtneps_pbh(x));
}
#endif

INLINE floats larger(floats x, floats y) {  // y, if x is not a number
#ifdef __AVX512F__
    return _mm512_max_ps(x, y);
#else
    return x > y ? x : y;
#endif
}

INLINE floats smaller(floats x, floats y) {  // y, if x is not a number
#ifdef __AVX512F__
    return _mm512_min_ps(x, y);
#else
    return x < y ? x : y;
#endif
}

// The smaller of |x| and limit, or of what is a number of them.
INLINE floats up_to(floats limit, floats x) {
#ifdef __AVX512DQ__
    return _mm512_range_ps(x, limit, 0b1010);
#else
    x = reinterpret_cast<floats>(reinterpret_cast<integers>(x) & 0x7fffffff);
    return x < limit ? x : limit;
#endif
}

// Number i modulo 32 of two vectors.
INLINE floats looked_up(const floats (&table)[2], integers i) {
#ifdef __AVX512F__
    return _mm512_permutex2var_ps(table[0], reinterpret_cast<__m512i>(i), table[1]);
#else
    floats y;
    for (int lane = 0; lane < LANES; lane++) y[lane] = lanes(table)[i[lane] & (2 * LANES - 1)];
    return y;
#endif
}

// x less the whole number below it.
INLINE floats fraction(floats x) {
#ifdef __AVX512DQ__
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
    x = x < -126.0f ? floats{} - 126.0f : x;  // as far as it matters here
    floats rest = x - ((x + 12582912.0f) - 12582912.0f);  // 1.5 * 2^23: its unit is 1
    return rest < 0 ? rest + 1.0f : rest;
#endif
}

// Powers of two below it are 0: beside the 1 of the largest they do not count, and numbers below 2^-126, which they would
// lead to, take processors a hundred times as long as others.
constexpr float LEAST = -64;

// x * 2^(the whole number below y); 0 for y < LEAST.
INLINE floats times_power_of_two(floats x, floats y) {
#ifdef __AVX512F__
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(y, floats{} + LEAST, _CMP_NLT_UQ), x, y);
#else
    floats whole = y < LEAST ? floats{} : y - fraction(y);
    integers bits = __builtin_convertvector(whole, integers) << 23;
    floats result = reinterpret_cast<floats>(reinterpret_cast<integers>(x) + bits);
    return y < LEAST ? floats{} : result;
#endif
}

// 2^x for x < 127, to 2e-7 of it, or a twentieth of what bf16 resolves; 0 for x < LEAST.
INLINE floats power_of_two(floats x) {
    floats r = fraction(x), series;  // the closest to 2^r of their degrees in 0 <= r <= 1
    if constexpr (std::is_same_v<Number, float>)
        series =
            0.99999994f +
            r * (0.6931531f + r * (0.24015361f + r * (0.055826318f + r * (0.008989341f + r * 0.0018775768f))));
    else
        series = 0.9999252f + r * (0.6958335f + r * (0.22606717f + r * 0.07802454f));
    return times_power_of_two(series, x);
}

// N vectors, sixteen at a time: for as many bytes compilers call a function, which takes longer.
template <int64_t N, typename Vector> INLINE void copy(const Vector *from, Vector *to) {
    int64_t i = 0;
    for (; i + LANES <= N; i += LANES)
#pragma GCC unroll 16
        for (int k = 0; k < LANES; k++) to[i + k] = from[i + k];
#pragma GCC unroll 16
    for (int k = 0; k < N % LANES; k++) to[i + k] = from[i + k];
}

template <typename Vector> INLINE Vector picked(Vector a, Vector b, integers from) {  // lanes of the two side by side
#ifdef __clang__
    Vector x;
    for (int i = 0; i < LANES; i++) x[i] = from[i] < LANES ? a[from[i]] : b[from[i] - LANES];
    return x;
#else
    return __builtin_shuffle(a, b, from);
#endif
}

// In all lanes the largest of them.
template <int STEP = LANES / 2> INLINE floats largest(floats x) {
    const integers lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    x = larger(x, picked(x, x, lane ^ STEP));
    if constexpr (STEP > 1) return largest<STEP / 2>(x);
    return x;
}

// Rows become columns: halves change places, then quarters within them, and so on.
template <int STEP = LANES / 2, typename Vector> INLINE void transpose(Vector (&x)[LANES]) {
    const integers lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const integers low = (lane & STEP) ? lane - STEP + LANES : lane, high = (lane & STEP) ? lane + LANES : lane + STEP;
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        if (!(i & STEP)) {
            Vector a = x[i], b = x[i + STEP];
            x[i] = picked(a, b, low), x[i + STEP] = picked(a, b, high);
        }
    if constexpr (STEP > 1) transpose<STEP / 2>(x);
}

#ifndef TILES
INLINE void start() {}  // what tiles need of a thread (amx.h)

INLINE void finish() {}
#endif
