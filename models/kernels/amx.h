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

// Sums [16, 16] of rows and columns of so many pairs; the rows are `stride` vectors apart, the next sixteen pairs `step` on.
template <int64_t ROWS>  // and those behind up to sixteen
INLINE void product(const integers *rows, int64_t stride, int64_t step, const integers *columns, int64_t pairs, floats *to) {
    in_memory();
    _tile_zero(0);
    for (; pairs > 0; pairs -= LANES, rows += step, columns += LANES) {
        _tile_loadd(1, rows, stride * sizeof *rows);
        _tile_loadd(2, columns, sizeof *columns);
        _tile_dpbf16ps(0, 1, 2);
    }
    _tile_stored(0, to, sizeof *to);
    in_memory();
}
