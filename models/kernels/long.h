// Long lines forwards, on AMX tiles: the scores of sixteen queries are rows. A row of a tile has the numbers of several heads,
// if they are small; of queries all but those of one head are 0.

#pragma once
#include "bf16_rows.h"

static const integers ONES = integers{} + 0x3f803f80;  // of bf16

// The scratch of a thread, for one line and a bundle of its heads.
struct Long : Tokens {
    static constexpr int BUNDLE = NUMBERS % D ? 1 : NUMBERS / D;      // heads that share a row
    static constexpr int COLUMNS = (BUNDLE * D + LANES - 1) / LANES;  // vectors of a row
    static constexpr int HALVES = (COLUMNS + 1) / 2;                  // tiles of a row

    const int64_t width = all.heads * D;
    int64_t heads = 0, tiles = 0;                      // of the bundle; of sixteen tokens, an even number
    std::vector<integers> rows = {}, query[BUNDLE];    // [tokens, HALVES]
    std::vector<integers> key = {}, value = {};        // [tiles, HALVES, 16], [tiles / 2, COLUMNS, 16]
    std::vector<floats> bias = {}, scores[2];          // [tiles], [16, tiles]
    std::vector<integers> shares = {};                 // [tiles / 2, 16]
    floats top[2][LANES], mixed[2][PARTS + 1][LANES];

    explicit Long(const Lines &all) : Tokens{all} {}

    void find(int64_t line) {
        Tokens::find(line);
        tiles = (n + NUMBERS - 1) / NUMBERS * 2;
        rows.assign(tiles * LANES * HALVES, integers{});
        key.resize(rows.size()), value.resize(tiles / 2 * COLUMNS * LANES);
        for (auto &each : scores) each.resize(tiles * LANES);
        for (auto &each : query) each.resize(rows.size());
        bias.resize(tiles);
        if (!all.bias) load_bias(0);
        shares.resize(tiles / 2 * LANES);
    }

    // Rows of the bundle's numbers, plus a bias, times `times`; those behind are fetched meanwhile.
    void load(const Number *from, const float *plus, float times) {
        if (heads == BUNDLE) load(from, plus, times, std::integral_constant<int64_t, BUNDLE * D>());
        else load(from, plus, times, heads * D);
    }

    template <typename Columns> void load(const Number *from, const float *plus, float times, Columns columns) {
        const int64_t whole = columns / LANES * LANES, some = columns - whole, *of_token = token.data();
        const bool as_is = !all.qkv_bias && times == 1;
        for (int64_t i = 0; i < n; i++) {
            const Number *row = from + of_token[i] * 3 * width;
            Number *to = (Number *)&rows[i * HALVES];
            __builtin_prefetch(row + columns);
            if (as_is) memcpy(to, row, columns * sizeof(Number));
            else {
                for (int64_t c = 0; c < whole; c += LANES)
                    put((take(row + c, All()) + take(plus + c, All())) * times, to + c, All());
                if (some) put((take(row + whole, some) + take(plus + whole, some)) * times, to + whole, All());
            }
        }
    }

    void load(int64_t head, const Number *qkv) {
        heads = std::min<int64_t>(BUNDLE, all.heads - head);
        const int64_t at = head * D;
        load(qkv + at, all.qkv_added(at), UNIT);
        for (int64_t of = 0; of < heads; of++) {
            Number here[HALVES * NUMBERS] = {};
            std::fill(here + of * D, here + of * D + D, 0xffff);
            integers mask[HALVES];
            memcpy(mask, here, sizeof mask);
            for (int64_t i = 0; i < n * HALVES; i++) query[of][i] = rows[i] & mask[i % HALVES];
        }
        load(qkv + width + at, all.qkv_added(width + at), 1);
        for (int64_t i = 0; i < tiles * LANES; i += LANES)
            for (int64_t half = 0; half < HALVES; half++) {
                integers tile[LANES];
#pragma GCC unroll 16
                for (int k = 0; k < LANES; k++) tile[k] = rows[(i + k) * HALVES + half];
                transpose(tile);
                copy<LANES>(tile, &key[i * HALVES + half * LANES]);
            }
        load(qkv + 2 * width + at, all.qkv_added(2 * width + at), 1);
        for (int64_t i = 0; i < tiles * LANES; i += 2)
            for (int64_t c = 0; c < COLUMNS; c++)
                value[(i / NUMBERS * COLUMNS + c) * LANES + i % NUMBERS / 2] =
                    woven(rows[i * HALVES + c / 2], rows[(i + 1) * HALVES + c / 2], c % 2);
    }

    void load_bias(int64_t head) {
        for (int64_t j = 0; j < tiles * LANES; j++)
            lanes(bias.data())[j] = j < n ? all.added(line, head, place[j]) : NOTHING;
    }

    // Scores of sixteen queries, and their bias, which tiles start with.
    void score(int64_t of, int64_t first) {
        floats *to = scores[first / LANES % 2].data();
        in_memory();
        for (int64_t tile = 0; tile < tiles; tile += 2) {
            _tile_loadd(0, &bias[tile], 0);
            _tile_loadd(1, &bias[tile + 1], 0);
            for (int64_t half = 0; half < HALVES; half++) {
                _tile_loadd(4, &query[of][first * HALVES + half], HALVES * sizeof(integers));
                _tile_loadd(5, &key[(tile * HALVES + half) * LANES], sizeof(integers));
                _tile_loadd(6, &key[((tile + 1) * HALVES + half) * LANES], sizeof(integers));
                _tile_dpbf16ps(0, 4, 5);
                _tile_dpbf16ps(1, 4, 6);
            }
            _tile_stored(0, to + tile, tiles * sizeof(floats));
            _tile_stored(1, to + tile + 1, tiles * sizeof(floats));
        }
        in_memory();
    }

    // The largest score of each, and 2^ what the others are less.
    void compare(int64_t first) {
        const int64_t some = (n + LANES - 1) / LANES;  // tiles with a key
        for (int64_t i = 0; i < LANES; i++) {
            const floats *row = &scores[first / LANES % 2][i * tiles];
            floats most = row[0];
            for (int64_t tile = 1; tile < some; tile++) most = larger(most, row[tile]);
            most = largest(most);
            top[first / LANES % 2][i] = most;
            for (int64_t tile = 0; tile < tiles; tile += 2) {
                floats left = power_of_two(row[tile] - most), right = {};
                if (tile + 1 < some) right = power_of_two(row[tile + 1] - most);
                shares[tile / 2 * LANES + i] = side_by_side(left, right);
            }
        }
    }

    // The values they have a share in, and, by values of one, the sums of their shares.
    void mix(int64_t of, int64_t first) {
        floats(&to)[PARTS + 1][LANES] = mixed[first / LANES % 2];
        in_memory();
        _tile_loadd(3, &ONES, 0);
        for (int part = 0; part < PARTS; part++) {
            _tile_zero(0);
            _tile_zero(1);
            for (int64_t tile = 0; tile < tiles / 2; tile++) {
                _tile_loadd(2, &shares[tile * LANES], sizeof(integers));
                _tile_loadd(4, &value[(tile * COLUMNS + of * D / LANES + part) * LANES], sizeof(integers));
                _tile_dpbf16ps(0, 2, 4);
                _tile_dpbf16ps(1, 2, 3);
            }
            _tile_stored(0, to[part], sizeof(floats));
            _tile_stored(1, to[PARTS], sizeof(floats));
        }
        in_memory();
    }

    void store(int64_t head, int64_t first, Number *out, float *kept) const {
        const floats(&from)[PARTS + 1][LANES] = mixed[first / LANES % 2];
        float share[LANES];
        for (int i = 0; i < LANES; i++) share[i] = lanes(&from[PARTS][i])[0];
        for (int i = 0; i < LANES; i++) share[i] = 1 / share[i];
        for (int64_t i = 0; i < LANES && first + i < n; i++) {
            const int64_t t = token[first + i];
            for (int part = 0; part < PARTS; part++) {
                floats row = from[part][i] * share[i];
                Number *to = out + t * width + head * D + part * LANES;
                if (BUNDLE > 2) put_from(row, head % BUNDLE * D % LANES, to);
                else if (part < PARTS - 1) put(row, to, All());
                else put(row, to, Last());
            }
            if (kept) {
                float *of_query = kept + (t * all.heads + head) * 2;
                of_query[0] = top[first / LANES % 2][i][0], of_query[1] = share[i];
            }
        }
    }

    static void put_from(floats row, int64_t at, Number *to) {
        Number low[LANES];
        put(row, low, All());
        memcpy(to, low + at, D * sizeof(Number));
    }

    // Tiles are busy with the next queries and the last ones meanwhile.
    void forth(int64_t head, const Number *qkv, Number *out, float *kept) {
        if (!n) return;
        load(head, qkv);
        for (int64_t of = 0; of < heads; of++) {
            if (all.bias) load_bias(head + of);
            score(of, 0);
            for (int64_t first = 0; first < n; first += LANES) {
                if (first + LANES < n) score(of, first + LANES);
                compare(first);
                mix(of, first);
                if (first) store(head + of, first - LANES, out, kept);
            }
            store(head + of, (n - 1) / LANES * LANES, out, kept);
        }
    }
};
