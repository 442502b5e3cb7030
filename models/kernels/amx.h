// Intel's AMX: eight registers of sixteen rows, tiles, each row sixteen lanes, in which two numbers of bf16 side by side share
// a lane. A product takes one with rows of numbers, one with pairs of rows, and adds to one of float32.

#pragma once
#include <sys/syscall.h>
#include <unistd.h>

#include "vectors.h"

INLINE void in_memory() { asm volatile("" ::: "memory"); }  // GCC's loads of tiles do not say what they read

// Whether the system gives them to this process, which has to ask.
extern "C" bool ready() {
    static const bool allowed = !syscall(SYS_arch_prctl, 0x1023, 18);  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return allowed;
}

// Makes all of them whole, for this thread.
INLINE void start() {
    struct {
        uint8_t palette = 1, start = 0, unused[14] = {};
        uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shapes;
    in_memory();
    _tile_loadconfig(&shapes);
}

INLINE void finish() { _tile_release(); }

// Adds to the 32 x 32 sums of tiles 0 to 3 what 32 rows and 32 columns give, each in two tiles after each other.
INLINE void multiply(const integers *rows, const integers *columns) {
    _tile_loadd(4, rows, sizeof *rows);
    _tile_loadd(5, rows + LANES, sizeof *rows);
    _tile_loadd(6, columns, sizeof *columns);
    _tile_loadd(7, columns + LANES, sizeof *columns);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

// Two vectors after each other in bf16.
INLINE integers side_by_side(floats low, floats high) {
    return reinterpret_cast<integers>(_mm512_cvtne2ps_pbh(high, low));
}

// Of each of the first or last sixteen columns the numbers of two rows side by side.
INLINE integers woven(integers above, integers below, bool last) {
    const int from = last ? LANES : 0;
    alignas(64) Number order[2 * LANES];
    for (int i = 0; i < 2 * LANES; i++) order[i] = from + i / 2 + i % 2 * 2 * LANES;
    const auto as = [](integers x) { return reinterpret_cast<__m512i>(x); };
    return reinterpret_cast<integers>(_mm512_permutex2var_epi16(as(above), _mm512_load_si512(order), as(below)));
}
