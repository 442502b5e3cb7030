// What the savings heuristic makes of the rest of a CVRP, on CPUs; compiled and called by savings.py.
//
// The plans of sixteen shapes side by side, one a lane. What two tokens save together never changes until they can no
// longer be joined; then it is nothing. So the most that a token was found to save with later ones is a bound, and is
// looked for again only where it would be the most of all, but cannot be had.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "vectors.h"

struct Size {
    int64_t rows, tokens, shapes, threads;  // tokens: the vehicle and the customers
};

struct Shapes {
    floats way, difference;  // how much the way between two counts, and the difference of their ways home
};

constexpr int FULL = 1 << 30;

typedef std::vector<std::pair<int, int>> Joined;  // two tokens each

struct Plans {
    const int n;
    std::vector<float> apart;           // [n + 1, n + 1] distances
    std::vector<floats> saving, most;   // [n * (n - 1) / 2] of each pair; [n] of each token with later ones, or more
    std::vector<integers> partner;      // [n] with whom it is the most
    std::vector<integers> weight;       // [n + 1] at the ends of a route its load, FULL within it
    std::vector<integers> other;        // [n + 1] at an end of a route the other; n: where the vehicle has come from
    std::vector<char> outdated;         // [n] whether the most has to be looked for
    Joined joined[LANES];
    floats saved;                       // by all that is joined

    explicit Plans(int64_t n)
        : n(n), apart((n + 1) * (n + 1)), saving(n * (n - 1) / 2), most(n), partner(n), weight(n + 1), other(n + 1),
          outdated(n) {}

    float distance(int64_t i, int j) const { return apart[i * (n + 1) + j]; }

    floats *of(int64_t i, int64_t j) { return saving.data() + (i * (2 * n - i - 1) / 2 + j - i - 1); }  // i < j

    void measure(const float *points) {
        for (int64_t i = 0; i <= n; i++)
            for (int j = 0; j <= n; j++) {
                float x = points[2 * i] - points[2 * j], y = points[2 * i + 1] - points[2 * j + 1];
                apart[i * (n + 1) + j] = std::sqrt(x * x + y * y);
            }
    }

    void begin(const int64_t *loads, const Shapes &shapes) {
        const float *home = apart.data() + int64_t(n) * (n + 1);
        for (int i = 0; i < n; i++) {
            floats *saves = of(i, i + 1);
            for (int j = i + 1; j < n; j++)
                *saves++ = larger(
                    home[i] + home[j] - shapes.way * distance(i, j) + shapes.difference * std::abs(home[i] - home[j]),
                    floats{});
            weight[i] = integers{} + int(loads[i]), other[i] = integers{} + i, outdated[i] = true;
        }
        other[0] = integers{} + n;
        for (Joined &each : joined) each.clear();
        saved = floats{};
    }

    void look(int i, int capacity) {
        const floats *saves = of(i, i + 1);
        const integers room = capacity - weight[i];
        floats largest = {};
        integers with = {};
        for (int j = i + 1; j < n; j++) {
            const floats value = weight[j] <= room ? *saves : floats{};
            with = value > largest ? integers{} + j : with;
            largest = larger(value, largest), saves++;
        }
        most[i] = largest, partner[i] = with, outdated[i] = false;
    }

    void attach(int lane, int i, int j) {
        const int first = other[i][lane], last = other[j][lane], load = weight[i][lane] + weight[j][lane];
        weight[i][lane] = weight[j][lane] = FULL;
        weight[first][lane] = weight[last][lane] = load;
        other[first][lane] = last, other[last][lane] = first;
        if (first < n && last < n) (*of(std::min(first, last), std::max(first, last)))[lane] = 0;  // a circle
        saved[lane] += distance(i, n) + distance(j, n) - distance(i, j);
        joined[lane].emplace_back(i, j);
    }

    // Joins those that save most; false if nobody saves anything.
    bool join(int capacity) {
        floats largest = {};
        integers from = {}, to = {};
        for (int i = 0; i < n; i++) {
            if (outdated[i]) look(i, capacity);
            const integers better = most[i] > largest;
            from = better ? integers{} + i : from, to = better ? partner[i] : to;
            largest = larger(most[i], largest);
        }
        bool any = false;
        for (int lane = 0; lane < LANES; lane++) {
            const int i = from[lane], j = to[lane];
            if (!(largest[lane] > 0)) continue;
            any = true, outdated[i] = true;
            if (weight[j][lane] > capacity - weight[i][lane] || other[i][lane] == j) continue;
            outdated[j] = true;  // most likely
            attach(lane, i, j);
        }
        return any;
    }
};

// links [n + 1, 2] and route [n + 1] that come of it.
static void follow(const Joined &joined, int64_t n, int64_t *links, int64_t *route) {
    std::fill(links, links + 2 * (n + 1), n);
    for (int64_t i = 0; i <= n; i++) route[i] = i;
    for (auto [i, j] : joined) {
        for (auto [here, there] : {std::pair(i, j), std::pair(j, i)}) {
            int64_t *mine = links + 2 * here;
            mine[here == 0 || mine[0] != n] = there;
        }
        const int64_t first = std::min(route[i], route[j]), later = std::max(route[i], route[j]);
        std::replace(route, route + n, later, first);
    }
}

// Sixteen at a time; the last one fills the lanes behind it.
static std::vector<Shapes> sixteens(const float *shape, int64_t count) {
    std::vector<Shapes> found((count + LANES - 1) / LANES);
    for (int64_t i = 0; i < int64_t(found.size()) * LANES; i++) {
        const float *mine = shape + 2 * std::min(i, count - 1);
        found[i / LANES].way[i % LANES] = mine[0], found[i / LANES].difference[i % LANES] = mine[1];
    }
    return found;
}

// points [rows, tokens + 1, 2], the depot last; load [rows, tokens]; capacity [rows]; shape [shapes, 2];
// links [rows, tokens + 1, 2]; route [rows, tokens + 1]
extern "C" void savings(const Size *size, const float *points, const int64_t *load, const int64_t *capacity,
                        const float *shape, int64_t *links, int64_t *route) {
    const int64_t n = size->tokens, work = size->rows * size->shapes * n * n;
    const std::vector<Shapes> bundles = sixteens(shape, size->shapes);
#pragma omp parallel num_threads(std::max<int64_t>(1, std::min(size->threads, size->rows))) if (work > 1 << 14)
    {
        Plans plans(n);
        Joined best;
#pragma omp for
        for (int64_t row = 0; row < size->rows; row++) {
            float most = -1;
            best.clear();
            plans.measure(points + row * (n + 1) * 2);
            for (const Shapes &shapes : bundles) {
                plans.begin(load + row * n, shapes);
                while (plans.join(capacity[row])) {}
                for (int lane = 0; lane < LANES; lane++)
                    if (plans.saved[lane] > most) most = plans.saved[lane], best = plans.joined[lane];
            }
            follow(best, n, links + row * (n + 1) * 2, route + row * (n + 1));
        }
    }
}
