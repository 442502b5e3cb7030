// Attention on CPUs, forwards and backwards; compiled and called by attention.py for one format of numbers (NUMBER: float or
// uint16_t, which is bf16) and one size of the heads (SIZE).
//
// Scores never leave the cache. In between, numbers are float32.

#include <numeric>

#include "abreast.h"
#include "line.h"

#ifdef TILES
#include "long.h"
typedef Long Forwards;
#else
typedef Line Forwards;
#endif

// Up to here sixteen lines side by side are faster than one (measured; see docs/log.md).
INLINE bool abreast(const Lines &all) { return all.size * D <= 160 && all.lines >= LANES; }

// Lines of like numbers of tokens side by side leave few lanes empty.
INLINE std::vector<int64_t> by_length(const Lines &all) {
    std::vector<int64_t> length(all.lines), next(all.size + 2), order(all.lines);
    for (int64_t line = 0; line < all.lines; line++) {
        for (int64_t i = 0; i < all.size; i++) length[line] += all.token(line, i) >= 0;
        next[length[line] + 1]++;
    }
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (int64_t line = 0; line < all.lines; line++) order[next[length[line]]++] = line;
    return order;
}

template <typename OneLine, typename Work> void each_line(const Lines &all, Work work) {
#pragma omp parallel num_threads(all.threads)
    {
        OneLine line(all);
        start();
#pragma omp for
        for (int64_t l = 0; l < all.lines; l++) {
            line.find(l);
            for (int64_t head = 0; head < all.heads; head += OneLine::BUNDLE) work(line, head);
        }
        finish();
    }
}

template <typename Work> void each_sixteen(const Lines &all, Work work) {
    const std::vector<int64_t> order = by_length(all);
#pragma omp parallel num_threads(all.threads)
    {
        Abreast lines{all};
#pragma omp for
        for (int64_t first = 0; first < all.lines; first += LANES) {
            lines.find(&order[first], std::min<int64_t>(LANES, all.lines - first));
            for (int64_t head = 0; head < all.heads; head += BUNDLE) work(lines, head);
        }
    }
}

// `kept` [T, heads, 2]: what single lines remember of a query for its gradient.
extern "C" void forth(const Lines *all, const Number *qkv, Number *out, float *kept) {
    if (abreast(*all))
        each_sixteen(*all, [=](Abreast &lines, int64_t head) { lines.forth(head, qkv, out); });
    else
        each_line<Forwards>(*all, [=](Forwards &line, int64_t head) { line.forth(head, qkv, out, kept); });
}

extern "C" void back(const Lines *all, const Number *qkv, const Number *out, const float *kept, const Number *gradient,
                     Number *to) {
    if (abreast(*all))
        each_sixteen(*all, [=](Abreast &lines, int64_t head) { lines.back(head, qkv, gradient, to); });
    else
        each_line<Line>(*all, [=](Line &line, int64_t head) { line.back(head, qkv, out, kept, gradient, to); });
}
