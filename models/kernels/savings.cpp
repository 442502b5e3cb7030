// What the savings heuristic makes of the rest of a CVRP, on CPUs; compiled and called by savings.py.
//
// Whoever saves most goes first, but two routes that save most with each other are joined whenever they are met, since
// what others save with either only falls meanwhile. So a chain of routes, each of which saves most with the next, leads
// to such a pair, and nothing need be sorted: the rest of the chain still holds when the two are one [Benzecri 1982].

#include <algorithm>
#include <cmath>
#include <vector>

#include "vectors.h"

struct Size {
    int64_t rows, tokens, shapes, threads;  // tokens: the vehicle and the customers
};

constexpr int NONE = -1, FULL = 1 << 30;

struct Link {
    int32_t saving;  // the bits of a float, which compare like it where it is not negative
    int from, to;
};

struct Routes {
    const int64_t n;
    int capacity;
    std::vector<float> apart, saved;         // [n + 1, n + 1] distances; savings with one node
    std::vector<int32_t> saving;             // [n, n]
    std::vector<int> route, weight, degree;  // [n] of each token: its route; that route's load, or FULL within it
    std::vector<int> load, ends;             // [n] and [n, 2] of each route
    std::vector<int64_t> links;              // [n + 1, 2]

    explicit Routes(int64_t n)
        : n(n), apart((n + 1) * (n + 1)), saved(n + 1), saving(n * n), route(n), weight(n), degree(n), load(n),
          ends(2 * n), links(2 * (n + 1)) {}

    float distance(int i, int j) const { return apart[i * (n + 1) + j]; }

    void measure(const float *points) {
        for (int i = 0; i <= n; i++)
            for (int j = 0; j <= n; j++) {
                float x = points[2 * i] - points[2 * j], y = points[2 * i + 1] - points[2 * j + 1];
                apart[i * (n + 1) + j] = std::sqrt(x * x + y * y);
            }
    }

    void begin(const int64_t *loads, int limit, float shape) {
        const float *home = &apart[n * (n + 1)];
        capacity = limit;
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) saved[j] = std::max(0.0f, home[i] + home[j] - shape * distance(i, j));
            memcpy(&saving[i * n], saved.data(), n * sizeof(float));
            route[i] = ends[2 * i] = ends[2 * i + 1] = i, degree[i] = 0, load[i] = weight[i] = int(loads[i]);
        }
        ends[1] = NONE, degree[0] = 1;  // the vehicle has come from somewhere
        std::fill(links.begin(), links.end(), n);
    }

    // The largest saving of a route with another, of equal ones the first.
    Link best(int of) const {
        Link found = {0, NONE, NONE};
        for (int side = 0; side < 2; side++) {
            int end = ends[2 * of + side], room = capacity - load[of];
            if (end == NONE || (side && end == ends[2 * of])) continue;
            const int32_t *saves = &saving[end * n];
            auto value = [&](int j) { return saves[j] & -((weight[j] <= room) & (route[j] != of)); };
            int32_t most = 0;
            for (int j = 0; j < n; j++) most = std::max(most, value(j));
            if (most <= found.saving) continue;
            int to = 0;
            while (value(to) != most) to++;
            found = {most, end, to};
        }
        return found;
    }

    int other_end(int of, int end) const { return ends[2 * of + (ends[2 * of] == end)]; }

    void attach(int token, int to) {
        links[2 * token + degree[token]++] = to;
        if (degree[token] == 2) weight[token] = FULL;
    }

    // Returns the joined route.
    int join(Link link) {
        int kept = route[link.from], gone = route[link.to];
        int first = other_end(kept, link.from), last = other_end(gone, link.to);
        ends[2 * kept] = first, ends[2 * kept + 1] = last, load[kept] += load[gone];
        for (int i = 0; i < n; i++) route[i] = route[i] == gone ? kept : route[i];
        attach(link.from, link.to), attach(link.to, link.from);
        for (int end : {first, last})
            if (end != NONE) weight[end] = load[kept];
        return kept;
    }

    void finish() {
        std::vector<Link> chain;
        for (int i = 0; i < n; i++)
            for (int tip = route[i];;) {
                Link next = best(tip);
                if (!chain.empty() && next.saving <= chain.back().saving) {
                    tip = join(chain.back());
                    chain.pop_back();
                    if (!chain.empty()) tip = route[chain.back().from], chain.pop_back();  // it led to one of the two
                } else if (next.saving == 0) {
                    break;
                } else {
                    chain.push_back(next), tip = route[next.to];
                }
            }
    }

    // Each token's route by its first token; the depot is one of its own.
    void name(int64_t *names) const {
        std::vector<int> first(n, NONE);
        for (int i = 0; i < n; i++) {
            if (first[route[i]] == NONE) first[route[i]] = i;
            names[i] = first[route[i]];
        }
        names[n] = n;
    }

    // Of all routes, and the vehicle's way from the depot.
    double length() const {
        double total = 0;
        for (int i = 0; i < n; i++)
            for (int64_t to : {links[2 * i], links[2 * i + 1]}) total += (to == n ? 1.0 : 0.5) * distance(i, to);
        return total;
    }
};

// points [rows, tokens + 1, 2], the depot last; load [rows, tokens]; capacity [rows]; shape [shapes];
// links [rows, tokens + 1, 2]; route [rows, tokens + 1]
extern "C" void savings(const Size *size, const float *points, const int64_t *load, const int64_t *capacity,
                        const float *shape, int64_t *links, int64_t *route) {
    const int64_t n = size->tokens, work = size->rows * size->shapes * n * n;
#pragma omp parallel num_threads(std::max<int64_t>(1, std::min(size->threads, size->rows))) if (work > 1 << 14)
    {
        Routes routes(n);
#pragma omp for
        for (int64_t row = 0; row < size->rows; row++) {
            double least = 0;
            routes.measure(points + row * (n + 1) * 2);
            for (int64_t each = 0; each < size->shapes; each++) {
                routes.begin(load + row * n, capacity[row], shape[each]);
                routes.finish();
                double length = routes.length();
                if (each > 0 && !(length < least)) continue;
                least = length;
                std::copy(routes.links.begin(), routes.links.end(), links + row * (n + 1) * 2);
                routes.name(route + row * (n + 1));
            }
        }
    }
}
