// What the instructions for AMX's tiles do, one number at a time, for processors without them; included before all else.

#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace emulated {

struct Tile {
    uint8_t rows[16][64];
};

static thread_local Tile tiles[8];
static thread_local bool whole = false;  // whether this thread has made them so

static Tile &tile(int i) {
    if (!whole) abort();  // the processor refuses the instruction, too
    return tiles[i];
}

static void configure(const void *shapes) {
    const uint8_t *at = (const uint8_t *)shapes;
    whole = at[0] == 1 && at[1] == 0;
    for (int i = 0; i < 8; i++) whole = whole && at[16 + 2 * i] == 64 && at[17 + 2 * i] == 0 && at[48 + i] == 16;
}

static void load(int to, const void *from, int64_t stride) {
    for (int i = 0; i < 16; i++) memcpy(tile(to).rows[i], (const char *)from + i * stride, 64);
}

static void store(int from, void *to, int64_t stride) {
    for (int i = 0; i < 16; i++) memcpy((char *)to + i * stride, tile(from).rows[i], 64);
}

static void multiply(int sums, int rows, int columns) {
    float sum[16][16];
    uint16_t row[16][32], column[16][32];
    memcpy(sum, &tile(sums), sizeof sum);
    memcpy(row, &tile(rows), sizeof row);
    memcpy(column, &tile(columns), sizeof column);
    const auto number = [](uint16_t bf16) {
        const uint32_t bits = uint32_t(bf16) << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        return x;
    };
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 32; k++)
            for (int j = 0; j < 16; j++) sum[i][j] += number(row[i][k]) * number(column[k / 2][2 * j + k % 2]);
    memcpy(&tile(sums), sum, sizeof sum);
}

}  // namespace emulated

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(shapes) emulated::configure(shapes)
#define _tile_release() (emulated::whole = false)
#define _tile_zero(to) (emulated::tile(to) = emulated::Tile())
#define _tile_loadd(to, from, stride) emulated::load(to, from, stride)
#define _tile_stored(from, to, stride) emulated::store(from, to, stride)
#define _tile_dpbf16ps(sums, rows, columns) emulated::multiply(sums, rows, columns)
