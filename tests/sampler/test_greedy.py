"""Greedy decoding, one decision of a forward pass or several."""

from __future__ import annotations

import math
import time

import pytest
import torch

from gumbeldore import Policy, testing
from gumbeldore.batches import take
from gumbeldore.runtime.errors import InstanceError
from gumbeldore.sampler.beam import OutOfTime
from gumbeldore.sampler.methods import Anytime, Beam, Equivalents, Greedy, Sampling, made, settings_of
from gumbeldore.sampler.methods.greedy import MARGIN
from gumbeldore.sampler.search import search, unsearched
from models.flexible_shop import FlexibleShop
from models.job_shop import JobShop
from problems.fjsp import FJSP
from problems.jssp import JSSP
from problems.jssp.instances import job_shop as shop_of
from problems.tsp import TSP
from tests.helpers.networks import awake
from tests.helpers.trees import TablePolicy, TreeProblem


def job_shop(**options):
    torch.manual_seed(0)
    network = awake(JobShop(width=16, blocks=1, heads=4, feedforward=32, lookahead=True, order_loss=0.0))
    return JSSP([[6, 5]], [[6, 5]], **options), network


def flexible_shop(**options):
    torch.manual_seed(1)
    return FJSP([[6, 4]], [[6, 4]], **options), awake(FlexibleShop(width=16, blocks=1, heads=4, feedforward=32))


class SomeTakeNoTime(JSSP):
    """A third of the operations takes no time and no machine."""

    def generate(self, n, generator):
        drawn = super().generate(n, generator)
        takes = torch.rand(drawn.times.shape, generator=generator) > 1 / 3
        return shop_of(drawn.times * takes, drawn.machines, machine_release=drawn.machine_release)


class NoRules(JSSP):
    """So that a greedy solution may be late."""

    by_rules = None


class Scores(Policy):
    """The same logits in every state."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, context, state):
        return self.logits.expand(len(context[0]), -1)


SHOPS = {
    "classical": lambda: job_shop(),
    "general": lambda: job_shop(general=1.0),
    "time 0": lambda: (SomeTakeNoTime([[6, 5]], [[6, 5]]), job_shop()[1]),
    "window": lambda: job_shop(window=2, jobs_in_view=3),
    "flexible": lambda: flexible_shop(),
    "flexible window": lambda: flexible_shop(window=2, jobs_in_view=3),
}
each_shop = pytest.mark.parametrize("shop", SHOPS.values(), ids=SHOPS)


def instances_of(problem, count=4):
    return problem.generate(count, torch.Generator().manual_seed(5))


def slowly(problem, policy, instance, most):
    """The actions of one instance and the number of passes, in plain Python."""
    context, state, actions, passes = policy.encode(instance), problem.reset(instance), [], 0
    plan: list[int] = []

    while len(actions) < problem.horizon(instance):
        legal = problem.mask(instance, state)[0].nonzero().flatten().tolist()
        if not plan or plan[0] not in legal:
            plan = legal
            if len(legal) > 1:
                passes += 1
                log_pi = policy(context, state)[0].double()
                log_pi = dict(zip(legal, log_pi[legal].log_softmax(0).tolist(), strict=True))
                resources, plan = problem.resources(instance, state)[0], []
                resources = [set(enumerate(of_action)) for of_action in resources.tolist()]
                for action in sorted(legal, key=log_pi.__getitem__, reverse=True):
                    near = not plan or log_pi[action] >= log_pi[plan[0]] - MARGIN
                    shared = [resources[action] & resources[other] for other in plan]
                    if near and not any(shared) and len(plan) < most:
                        plan.append(action)
        action, plan = plan[0], plan[1:]
        actions.append(action)
        state = problem.step(instance, state, torch.tensor([action]))
    return actions, passes


@pytest.mark.parametrize("most", [2, 4])
@each_shop
def test_each_instance_of_a_batch_is_decoded_as_it_is_alone_and_by_plain_loops(shop, most):
    problem, policy = shop()
    instances = instances_of(problem)
    found = search(problem, policy, instances, Greedy(most))
    with torch.no_grad():
        slow = [slowly(problem, policy, take(instances, slice(i, i + 1)), most) for i in range(4)]
    assert found.actions[:, 0].tolist() == [actions for actions, _ in slow]
    assert found.stats.evaluations == sum(passes for _, passes in slow)
    alone = [search(problem, policy, take(instances, slice(i, i + 1)), Greedy(most)) for i in range(4)]
    assert torch.equal(torch.cat([each.actions for each in alone]), found.actions)
    assert torch.equal(torch.cat([each.costs for each in alone]), found.costs)
    assert sum(each.stats.evaluations for each in alone) == found.stats.evaluations


@each_shop
def test_several_decisions_need_fewer_passes_and_change_solutions(shop):
    problem, policy = shop()
    one, four = (search(problem, policy, instances_of(problem), Greedy(most)) for most in (1, 4))
    assert four.stats.evaluations < 0.8 * one.stats.evaluations
    assert not torch.equal(one.costs, four.costs)
    assert one.log_probs.isfinite().all() and four.log_probs.isnan().all()  # of these, not all were asked for


@pytest.mark.parametrize("case", ["tree", "tsp", *SHOPS])
def test_one_decision_of_a_pass_is_a_beam_search_of_width_one(case):
    if case == "tree":
        problem, policy = TreeProblem(), TablePolicy()
    elif case == "tsp":
        problem, policy = TSP(8), Scores([1.0, 5.0, 3.0, 2.0, 7.0, 4.0, 0.0, 6.0])
    else:
        problem, policy = SHOPS[case]()
    instances = instances_of(problem)
    greedy, beam = (search(problem, policy, instances, method) for method in (Greedy(), Beam(1)))
    assert torch.equal(greedy.actions, beam.actions) and torch.equal(greedy.costs, beam.costs)
    assert greedy.log_probs.allclose(beam.log_probs, atol=1e-4)
    assert greedy.stats._replace(repeated=0) == beam.stats._replace(repeated=0)


@pytest.mark.parametrize("wrapped", [lambda greedy: greedy, lambda greedy: Anytime(Sampling(), 1, greedy)])
def test_a_problem_without_independent_decisions_has_one_of_a_pass(wrapped):
    with pytest.raises(ValueError, match="tsp has no independent decisions, so decisions_per_pass must be 1, got 4"):
        search(TSP(8), Scores([0.0] * 8), instances_of(TSP(8)), wrapped(Greedy(4)), keys=torch.arange(4))


def test_more_decisions_than_there_are_jobs_take_no_more_memory_or_time():
    problem, policy = job_shop()
    found = [search(problem, policy, instances_of(problem), Greedy(most)) for most in (6, 2**31 - 1)]
    assert torch.equal(found[0].actions, found[1].actions)


def test_decisions_far_less_likely_than_the_first_wait_for_the_next_pass():
    problem, _ = job_shop()
    instances = instances_of(problem)
    far, near = (Scores([apart * job for job in range(6)]) for apart in (1.01 * MARGIN, 0.0))
    one, four = (search(problem, far, instances, Greedy(most)) for most in (1, 4))
    assert torch.equal(one.actions, four.actions) and one.stats == four.stats
    assert search(problem, near, instances, Greedy(4)).stats.evaluations < one.stats.evaluations


def test_a_planned_decision_that_is_not_legal_any_more_is_planned_anew():
    class Narrow(JSSP):
        """After the first decision, job 1 must wait until job 0 has ended."""

        def mask(self, instance, state):
            legal, ops = super().mask(instance, state), instance.times.shape[2]
            begun = (state.remaining.shape[1] < 30) & (state.next_op[:, 0] < ops)
            return torch.cat([legal[:, :1], legal[:, 1:2] & ~begun[:, None], legal[:, 2:]], dim=1)

    problem, policy = Narrow([[6, 5]], [[6, 5]]), Scores([0.5, 0.4, 0.0, 0.0, 0.0, 0.0])
    instances = instances_of(problem)
    machines = instances.machines[:, :2, 0]
    assert (machines[:, 0] != machines[:, 1]).any()  # job 1 is planned after job 0
    actions = search(problem, policy, instances, Greedy(4)).actions[:, 0]
    for row in actions.tolist():
        assert row.index(1) > max(step for step, job in enumerate(row) if job == 0)


def test_what_is_independent_is_part_of_the_contract():
    class Wrong(JSSP):
        def resources(self, instance, state):
            return super().resources(instance, state)[..., :1]  # the machines are forgotten

    testing.problem_contract(JSSP([[6, 5]], [[6, 5]], general=1.0))
    with pytest.raises(AssertionError, match="share no resources"):
        testing.problem_contract(Wrong([[6, 2]], [[6, 2]]))


@pytest.mark.parametrize("row", [0, 2])
def test_broken_logits_are_refused_with_the_instance(row):
    problem, policy = job_shop()
    instances = instances_of(problem)
    times = instances.times.clone()
    times[row, 0, 0] = math.nan
    for most in (1, 4):
        with pytest.raises(InstanceError, match=f"instance {row} of the batch: the policy's logits are NaN"):
            search(problem, policy, instances._replace(times=times), Greedy(most))


def test_the_greedy_solution_before_a_time_limit_is_decoded_as_asked():
    assert made(Sampling, {"time_limit": 3, "decisions_per_pass": 2}) == Anytime(Sampling(), 3, Greedy(2))
    assert "decisions_per_pass" in settings_of(Sampling, timed=True) and "decisions_per_pass" not in settings_of(
        Sampling
    )
    problem, keys = NoRules([[6, 5]], [[6, 5]]), torch.arange(4)
    policy = job_shop()[1]
    for most in (1, 4):
        greedy = search(problem, policy, instances_of(problem), Greedy(most))
        found = search(problem, policy, instances_of(problem), Anytime(Sampling(1, 1), 1e-9, Greedy(most)), keys=keys)
        assert torch.equal(found.actions, greedy.actions) and found.stats.evaluations == greedy.stats.evaluations


@pytest.mark.parametrize("most", [1, 4])
def test_equivalents_are_decoded_each_by_itself(most):
    problem, policy = job_shop()
    instances, keys = instances_of(problem), torch.arange(4)
    mirrored = instances.backwards(torch.ones(4, dtype=torch.bool))
    found = search(problem, policy, instances, Equivalents(Greedy(most), 2), keys=keys)
    there = search(problem, policy, instances, Greedy(most))
    back = problem.cost(instances, search(problem, policy, mirrored, Greedy(most)).actions[:, 0].flip(1))
    assert found.costs.amin(dim=1).tolist() == torch.minimum(there.costs[:, 0], back.double()).tolist()


def test_the_time_can_be_up_between_two_decisions(monkeypatch):
    problem, policy = job_shop()
    instances, clock = instances_of(problem), iter(range(30))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    task = unsearched(problem, policy, instances)._replace(keys=torch.arange(4), encoded=policy.encode(instances))
    with torch.no_grad(), pytest.raises(OutOfTime) as late:
        list(Greedy(4).rounds(task._replace(deadline=5.0)))
    assert next(clock) == 6 and 4 <= late.value.states.evaluated <= 20  # four instances, five decisions
