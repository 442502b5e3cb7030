"""The local search of the job shop: the graph, its moves and estimates, and the schedules that are found."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
import torch

from gumbeldore import methods
from gumbeldore.batches import repeated, take
from gumbeldore.sampler.search import search
from gumbeldore.testing import random_solution
from problems.fjsp import FJSP
from problems.jssp import JSSP
from problems.jssp.dispatching import dispatched, rules_for
from problems.jssp.instances import job_shop, random_general_instances, random_instances
from problems.jssp.local_search import graph
from problems.jssp.local_search.job_shop import Effort, JobShop, TabuSearch
from problems.jssp.local_search.moves import estimate, moves_of
from problems.jssp.local_search.path_relinking import ELITES, keep, mixed, random_order
from problems.jssp.local_search.tabu_search import forbid, is_tabu
from problems.tsp import TSP
from tests.helpers.policies import FixedPolicy


def classical(n, jobs, machines, seed=0):
    return random_instances(n, jobs, machines, torch.Generator().manual_seed(seed))


def general(n, jobs, machines, seed=0):
    """Releases, waits, repeated visits, jobs of different lengths; a fifth of the operations takes no time."""
    generator = torch.Generator().manual_seed(seed)
    drawn = random_general_instances(n, jobs, machines, generator)
    takes = torch.rand(drawn.times.shape, generator=generator) > 0.2
    there = torch.zeros(drawn.times.shape, dtype=torch.bool).flatten(1).scatter(1, drawn.operations, True)
    machine = drawn.machines.masked_fill(~there.view_as(drawn.machines), -1)
    return job_shop(drawn.times * takes, machine, drawn.release, drawn.machine_release, drawn.waits)


SHOPS = {"classical": classical, "general": general}
both = pytest.mark.parametrize("shops", SHOPS.values(), ids=SHOPS)


def problem_of(**options):
    return JSSP([[6, 5]], [[6, 5]], **options)


def prepare(problem):
    """Compile what is timed."""
    problem.prepare_local_search()
    problem.prepare_rules()


def begun(shops, jobs=6, machines=5, seed=0):
    """A shop, and a search that holds a random schedule of it."""
    shop, random = JobShop.of(shops(1, jobs, machines, seed)), np.random.default_rng(seed)
    begun = TabuSearch(shop, random)
    begun.set(random_order(shop, random))
    return shop, begun


def longest_paths(shop, operations):
    """Heads and tails by plain recursion over the arcs of jobs and machines; None if there is a cycle."""
    n = len(shop.job)
    arcs = {x: [] for x in range(n)}
    for x in range(n):
        if x + 1 < n and shop.job[x + 1] == shop.job[x]:
            arcs[x].append((x + 1, shop.time[x] + shop.wait[x]))
        if operations["after"][x] < n:
            arcs[x].append((int(operations["after"][x]), shop.time[x]))
    waits_for = {x: sum(x == y for out in arcs.values() for y, _ in out) for x in range(n)}
    ready, order = [x for x in range(n) if not waits_for[x]], []
    head = shop.release.copy()
    while ready:
        x = ready.pop()
        order.append(x)
        for y, length in arcs[x]:
            head[y] = max(head[y], head[x] + length)
            waits_for[y] -= 1
            if not waits_for[y]:
                ready.append(y)
    if len(order) < n:
        return None
    tail = shop.time.copy()
    for x in reversed(order):
        tail[x] = max([shop.time[x], *(length + tail[y] for y, length in arcs[x])])
    return head, tail


def check_graph(shop, search):
    """Heads, tails and the topological order are those of the machines' sequences."""
    operations, order = search.operations, search.order
    head, tail = longest_paths(shop, operations)
    assert np.array_equal(operations["head"][:-1], head) and np.array_equal(operations["tail"][:-1], tail)
    assert sorted(order) == list(range(len(order)))
    assert np.array_equal(operations["place"][order], np.arange(len(order)))
    for name in ("job_before", "before"):
        earlier = operations[name][:-1]
        there = earlier < len(order)
        assert (operations["place"][:-1][there] > operations["place"][earlier[there]]).all()


def all_moves(shop, operations):
    """Every operation to every other place of its machine."""
    n = len(shop.job)
    for machine in set(shop.machine) - {-1}:
        sequence = [x for x in range(n) if shop.machine[x] == machine]
        sequence.sort(key=lambda x: operations["place"][x])
        for x in sequence:
            rest = [n, *(y for y in sequence if y != x), n]
            for before, after in itertools.pairwise(rest):
                if (before, after) != (operations["before"][x], operations["after"][x]):
                    yield x, before, after


@both
def test_every_move_is_made_right_or_refused_because_of_a_cycle(shops):
    made = refused = 0
    for seed in range(8):
        shop, search = begun(shops, 4, 3, seed)
        for x, before, after in list(all_moves(shop, search.operations)):
            kept = search.operations.copy(), search.order.copy()
            moved, buffer = np.zeros(len(shop.job) + 1, bool), np.empty(len(shop.job), np.int32)
            done = graph.move(search.operations, search.order, moved, buffer, x, before, after)
            assert not moved.any()
            if done:
                made += 1
                assert (search.operations["before"][x], search.operations["after"][x]) == (before, after)
                check_graph(shop, search)
                search.operations[:], search.order[:] = kept
            else:
                refused += 1
                assert np.array_equal(kept[0], search.operations) and np.array_equal(kept[1], search.order)
                rewired = search.operations.copy()
                near = [(rewired["before"][x], rewired["after"][x]), (before, x), (x, after)]
                for a, b in near:
                    if a < len(shop.job):
                        rewired["after"][a] = b
                assert longest_paths(shop, rewired) is None
    assert made > 60 and refused > 20


@both
def test_moves_of_blocks_make_no_cycle_and_estimates_are_what_comes(shops):
    exact = close = count = 0
    for seed in range(30):
        shop, search = begun(shops, 8, 5, seed)
        n, operations = len(shop.job), search.operations
        path, moves = np.empty(n, np.int32), np.empty((4 * n, 3), np.int32)
        length = graph.critical_path(operations, search.last, search.state, path)
        check_path(shop, operations, path[:length])
        for x, before, after in moves[: moves_of(operations, path, length, moves)].tolist():
            passed = between(operations, x, before, after)
            scratch = np.empty(n, np.int32), np.empty(n)
            promised = estimate(operations, x, before, after, *scratch, math.inf)
            assert estimate(operations, x, before, after, *scratch, promised) == promised
            assert estimate(operations, x, before, after, *scratch, promised - 1) > promised - 1
            kept = operations.copy(), search.order.copy()
            done = graph.move(operations, search.order, np.zeros(n + 1, bool), np.empty(n, np.int32), x, before, after)
            assert done
            through = max(operations[y]["head"] + operations[y]["tail"] for y in [x, *passed])
            operations[:], search.order[:] = kept
            count += 1
            exact += promised == through
            close += abs(promised - through) <= 0.1 * through
            assert promised == through or len(passed) > 1  # of two neighbours it is exact
    assert count > 200 and exact > 0.8 * count and close > 0.97 * count


def between(operations, x, before, after):
    """The operations of the machine that x passes, by walking from x in both directions."""
    for name, end in (("after", before), ("before", after)):
        found, y = [], operations[name][x]
        while y < len(operations) - 1:
            found.append(y)
            if y == end:
                return found
            y = operations[name][y]
    raise AssertionError


def check_path(shop, operations, path):
    """From a release to the makespan, without a gap."""
    assert operations["head"][path[0]] == shop.release[path[0]]
    assert operations["head"][path[-1]] + shop.time[path[-1]] == (operations["head"] + operations["time"])[:-1].max()
    for x, y in itertools.pairwise(path):
        arcs = {"after": "time", "job_after": "lag"}
        lags = [operations[lag][x] for name, lag in arcs.items() if operations[name][x] == y]
        assert any(operations["head"][x] + lag == operations["head"][y] for lag in lags)


def test_pairs_that_were_turned_round_are_tabu_for_a_while():
    shop, search = begun(classical)
    n, operations = len(shop.job), search.operations
    first = next(x for x in range(n) if operations["before"][x] == n)
    second, third = operations["after"][first], operations["after"][operations["after"][first]]
    there, back = (first, third, operations["after"][third]), (first, n, second)
    step_back = (third, n, second)
    assert not is_tabu(operations, search.tabu, *there, 0)
    forbid(operations, search.tabu, *there, 10)
    assert graph.move(operations, search.order, np.zeros(n + 1, bool), np.empty(n, np.int32), *there)
    assert is_tabu(operations, search.tabu, *back, 9) and not is_tabu(operations, search.tabu, *back, 10)
    assert not is_tabu(operations, search.tabu, *step_back, 9)  # the second and the third one were not turned round


@both
def test_a_schedule_between_two_keeps_what_both_have(shops):
    shop, search = begun(shops, 8, 5)
    random = np.random.default_rng(0)
    first, second = (search(random_order(shop, random), Effort(30, math.inf)) for _ in range(2))
    for share in (0.0, 0.3, 1.0):
        search.set(mixed(first.starts, second.starts, share))
        check_graph(shop, search)
        head = search.operations["head"][:-1]
        for x, y in itertools.permutations(range(len(shop.job)), 2):
            if shop.machine[x] == shop.machine[y] >= 0 and all(s.starts[x] < s.starts[y] for s in (first, second)):
                assert head[x] < head[y]
        makespan = (head + shop.time).max()
        if share in (0.0, 1.0):
            assert makespan == (second if share else first).makespan


def test_elites_are_the_best_of_different_makespans():
    shop, search = begun(classical)
    elites = []
    found = [search(random_order(shop, np.random.default_rng(i)), Effort(5, math.inf)) for i in range(40)]
    for each in found:
        keep(each, elites)
    least = sorted({each.makespan for each in found})
    assert len(elites) == ELITES and elites[0].makespan == least[0]
    assert [elite.makespan for elite in elites] == sorted(elite.makespan for elite in elites)


@both
def test_tiny_shops_are_solved_to_the_optimum(shops):
    """All sequences of decisions are tried."""
    problem = problem_of()
    for seed in range(12):
        instance = shops(1, 3, 3, seed)
        jobs = (instance.operations // instance.times.shape[2])[0].tolist()
        every = torch.tensor(sorted(set(itertools.permutations(jobs))))
        least = problem.cost(repeated(instance, len(every)), every).min()
        start = every[torch.tensor([[0]])]
        found = problem.local_search(instance, start, 3000, torch.tensor([seed]))
        assert problem.cost(instance, found) == least


def starts_of(problem, instances, count=3):
    """Random solutions [R, K, T]."""
    generator = torch.Generator().manual_seed(1)
    each = random_solution(problem, repeated(instances, count), generator)
    return each.view(len(instances.times), count, -1)


@both
def test_solutions_are_legal_better_and_decided_by_their_own_row(shops):
    problem, instances, seeds = problem_of(), shops(4, 8, 5), torch.arange(4)
    starts = starts_of(problem, instances)
    before = problem.cost(repeated(instances, 3), starts.flatten(0, 1)).view(4, 3)
    found = problem.local_search(instances, starts, 2000, seeds)
    after = problem.cost(instances, found)
    assert (after < before.amin(dim=1)).all()  # random schedules are bad
    for row in range(4):
        part = slice(row, row + 1)
        alone = problem.local_search(take(instances, part), starts[part], 2000, seeds[part])
        assert torch.equal(alone, found[part])
    one = problem.local_search(instances, starts, 1, seeds)
    assert (problem.cost(instances, one) <= before.amin(dim=1)).all()
    assert not torch.equal(problem.local_search(instances, starts, 2000, seeds + 1), found)


def test_the_same_steps_give_the_same_schedules_on_every_machine():
    problem, instances = problem_of(), classical(2, 10, 10)
    starts = starts_of(problem, instances)

    def costs(steps):
        return problem.cost(instances, problem.local_search(instances, starts, steps, torch.arange(2))).tolist()

    assert [costs(100), costs(20_000)] == [[969, 873], [870, 746]]


def test_the_best_solution_given_is_returned_if_nothing_is_better():
    problem, instances = problem_of(), classical(1, 3, 3)
    starts = starts_of(problem, instances)
    seed = torch.zeros(1, dtype=torch.int64)
    best = problem.local_search(instances, starts, 3000, seed)
    again = problem.local_search(instances, torch.stack([starts[:, 0], best], dim=1), 3000, seed + 1)
    assert torch.equal(again, best)


def test_the_deadline_of_several_instances_is_kept():
    problem, instances = problem_of(), classical(3, 20, 15)
    starts, seeds = starts_of(problem, instances), torch.arange(3)
    prepare(problem)
    costs = []
    for seconds in (0.0, 0.6):
        begin = time.monotonic()
        found = problem.local_search(instances, starts, math.inf, seeds, begin + seconds)
        assert time.monotonic() - begin < seconds + 0.5
        costs.append(problem.cost(instances, found))
    assert (costs[1] < costs[0]).all()  # none has taken the time of the others


def test_the_method_improves_the_best_solutions_of_its_start():
    problem, instances, keys = problem_of(), classical(3, 8, 5), torch.arange(3)
    policy = FixedPolicy(problem)
    start = methods.Sampling(8, 2)
    sampled = search(problem, policy, instances, start, keys=keys)
    found = search(problem, policy, instances, methods.LocalSearch(start, num_starts=4, steps=2000), keys=keys)
    assert torch.equal(found.actions[:, :-1], sampled.actions) and found.stats.evaluations == sampled.stats.evaluations
    actions, cost = found.best()
    assert (cost < sampled.best()[1]).all() and found.valid[:, -1].all()
    best = sampled.best_few(4)
    assert torch.equal(best[:, 0], sampled.best()[0])
    assert torch.equal(actions, problem.local_search(instances, best, 2000, keys))
    given = search(problem, policy, instances, methods.LocalSearch(steps=2000), keys=keys, start=best[:, 1])
    assert torch.equal(given.actions[:, 0], best[:, 1]) and (given.best()[1] <= given.costs[:, 0]).all()


def test_of_few_solutions_the_best_one_comes_again():
    problem, instances = problem_of(), classical(2, 2, 2)
    found = search(problem, FixedPolicy(problem), instances, methods.WithoutReplacement(16, 1), keys=torch.arange(2))
    few = found.best_few(20)
    assert few.shape[1] == 16
    for row in range(2):
        costs = found.costs[row][found.valid[row]].sort().values
        again = problem.cost(repeated(take(instances, slice(row, row + 1)), 16), few[row])
        assert again.tolist() == costs.tolist() + [costs[0].item()] * (16 - len(costs))


def test_with_a_time_limit_the_search_goes_on_until_it_has_passed():
    problem, instances = problem_of(), classical(2, 10, 10)
    method = methods.Anytime(methods.LocalSearch(), 0.3)
    prepare(problem)
    begin = time.monotonic()
    found = search(problem, FixedPolicy(problem), instances, method, keys=torch.arange(2))
    assert 0.55 < time.monotonic() - begin < 2.0 and found.stats.rounds == 1
    assert (found.best()[1] < found.costs[:, 0]).all()


@pytest.mark.parametrize(
    "problem", [TSP(8), FJSP([[3, 2]], [[3, 2]]), JSSP([[3, 2]], [[3, 2]], objective="total_flow_time")]
)
def test_what_has_no_local_search_says_so(problem):
    rule = "minimises the makespan, not total_flow_time" if problem.name == "jssp" else f"for {problem.name}"
    instances = problem.generate(1, torch.Generator())
    with pytest.raises(ValueError, match=f"local search {rule}"):
        search(problem, FixedPolicy(problem), instances, methods.LocalSearch(), keys=torch.zeros(1).long())


def test_rules_are_a_start_and_the_best_of_them_counts():
    for problem in (
        problem_of(),
        problem_of(general=1.0),
        FJSP([[6, 4]], [[6, 4]]),
        problem_of(objective="total_flow_time"),
    ):
        instances = problem.generate(3, torch.Generator().manual_seed(2))
        found = search(problem, FixedPolicy(problem), instances, methods.Rules())
        assert found.costs.shape == (3, 1) and found.log_probs.isnan().all() and found.stats.evaluations == 0
        each = [problem.decisions(instances, *dispatched(instances, rule)) for rule in rules_for(instances)]
        costs = torch.stack([problem.cost(instances, actions) for actions in each])
        assert len(each) == (20 if problem.objective == "total_flow_time" else 14)
        assert (
            found.costs[:, 0].tolist() == costs.amin(dim=0).tolist() and (costs.amin(dim=0) < costs.amax(dim=0)).all()
        )
    problem, instances, keys = problem_of(), classical(2, 10, 10), torch.arange(2)
    from_rules = search(
        problem, FixedPolicy(problem), instances, methods.LocalSearch(methods.Rules(), steps=50), keys=keys
    )
    assert torch.equal(
        from_rules.actions[:, :1], search(problem, FixedPolicy(problem), instances, methods.Rules()).actions
    )
    assert (from_rules.best()[1] < from_rules.costs[:, 0]).all()
    with pytest.raises(ValueError, match="tsp has no rules to start from"):
        search(TSP(8), FixedPolicy(TSP(8)), TSP(8).generate(1, torch.Generator()), methods.Rules())


class Slow(FixedPolicy):
    """A pass takes 20 ms."""

    def forward(self, context, state):
        time.sleep(0.02)
        return super().forward(context, state)


@pytest.mark.parametrize("inner", [methods.LocalSearch(), methods.Sampling(1, 1)])
def test_rules_take_the_place_of_a_greedy_solution_that_would_be_late(inner):
    """Of 100 decisions, which take two seconds, twenty are made until that is clear."""
    problem, instances, keys = problem_of(), classical(1, 10, 10), torch.zeros(1).long()
    by_rules = search(problem, FixedPolicy(problem), instances, methods.Rules()).costs.item()
    prepare(problem)
    begin = time.monotonic()
    found = search(problem, Slow(problem), instances, methods.Anytime(inner, 1.0), keys=keys)
    assert 0.4 <= time.monotonic() - begin < 1.7 and by_rules in found.costs[0].tolist()
    assert found.best()[1] <= by_rules
    greedy = search(problem, FixedPolicy(problem), instances, methods.Greedy()).costs.item()
    assert greedy not in found.costs[0].tolist()
    quick = search(problem, FixedPolicy(problem), instances, methods.Anytime(inner, 1.0), keys=keys)
    assert greedy in quick.costs[0].tolist() and by_rules not in quick.costs[0].tolist()
