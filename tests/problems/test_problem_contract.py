"""What a problem inherits, and how a class that is no whole problem is refused."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from gumbeldore import Problem, Reports, problem_contract
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import size_name
from gumbeldore.runtime.building import build
from tests.helpers.trees import TreeProblem

REQUIRED = ["cost", "generate", "horizon", "last_choice", "mask", "name", "num_actions", "reset", "step"]


class Bits(NamedTuple):
    price: Tensor  # [R, 4]


class Sum(NamedTuple):
    done: Tensor  # [R]


class Switches:
    """Every method of a problem, but nothing inherited: each of four switches is left off or costs its price."""

    name = "switches"

    def generate(self, n, generator):
        return Bits(torch.rand(n, 4, generator=generator))

    def num_actions(self, instance):
        return 2

    def horizon(self, instance):
        return 4

    def last_choice(self, instance):
        return 3

    def reset(self, instance):
        return Sum(torch.zeros(len(instance.price)))

    def step(self, instance, state, action):
        return Sum(state.done + 1)

    def mask(self, instance, state):
        return torch.ones(len(state.done), 2, dtype=torch.bool)

    def cost(self, instance, actions):
        return (instance.price * actions).sum(dim=1)


class WholeSwitches(Switches, Problem):
    pass


class NoMask(Problem):
    name = "no mask"


class WrongNumbers(Reports):
    def describe(self, actions):
        return {"ones": actions.sum()}


def test_defaults_change_nothing():
    problem = WholeSwitches()
    problem_contract(problem)
    problem_contract(TreeProblem())
    instance = problem.generate(3, torch.Generator().manual_seed(0))
    actions = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1]])
    assert problem.replay(instance, actions[:, :3]).done.tolist() == [3, 3, 3]
    assert problem.replay(instance, actions[:, :0]).done.tolist() == [0, 0, 0]
    assert all(x is y for x, y in zip(problem.augment(instance, actions, 1, None), (instance, actions), strict=True))
    assert problem.reorder(instance, actions, 1, None) is actions
    assert problem.curriculum(0.5) is problem and problem.check(instance) is None
    with pytest.raises(ValueError, match="^WholeSwitches has no evaluation sets: it does not define load$"):
        problem.load("mine.npz", None)
    assert size_name(problem, instance) == "4 decisions"
    reports = problem.reports
    assert reports.solution(actions[0]) == [1, 0, 1, 0] and reports.describe(actions) == {}
    assert reports.details(instance, 0, actions[0]) is None and reports.render(instance, actions, [""] * 3) is None
    assert reports.solution_file(instance, 0, "a", actions[0], 1.0) is None


def test_the_default_validation_set_depends_on_the_seed_alone():
    problem = WholeSwitches()
    (one,), (again,), (other,) = (problem.validation(5, seed) for seed in (3, 3, 4))
    assert isinstance(one, InstanceSet) and one.names == [f"validation/{i}" for i in range(5)]
    assert torch.equal(one.instances.price, again.instances.price)
    assert not torch.equal(one.instances.price, other.instances.price)
    actions, index = torch.ones(2, 4, dtype=torch.int64), torch.tensor([4, 1])
    costs = one.true_cost(index, actions)
    assert costs.dtype == torch.float64 and costs.tolist() == one.instances.price[index].sum(dim=1).tolist()
    assert one.references.isnan().all() and one.kinds == [""] * 5 and math.isnan(one.references.mean())


def test_a_class_that_inherits_nothing_is_refused():
    with pytest.raises(AssertionError, match="^Switches must inherit gumbeldore.Problem$"):
        problem_contract(Switches())
    with pytest.raises(AssertionError, match=f"^object must inherit .*; it lacks {', '.join(REQUIRED)}$"):
        problem_contract(object())
    with pytest.raises(ValueError, match=r"^problem._target_=\S+.Switches must inherit gumbeldore.Problem$"):
        build({"_target_": f"{__name__}.Switches"}, "problem", Problem)


def test_missing_methods_are_named():
    lacking = [name for name in REQUIRED if name != "name"]
    assert sorted(Problem.__abstractmethods__) == REQUIRED
    with pytest.raises(ValueError, match=rf"^problem._target_=\S+.NoMask lacks {', '.join(lacking)}$"):
        build({"_target_": f"{__name__}.NoMask"}, "problem", Problem)
    names = ", ".join(f"'?{name}'?" for name in lacking)  # in quotes since Python 3.12
    with pytest.raises(TypeError, match=f"abstract class NoMask .*{names}"):
        NoMask()
    assert build({"_target_": f"{__name__}.WholeSwitches"}, "problem", Problem).name == "switches"


def broken(**methods):
    return type("Broken", (WholeSwitches,), methods)()


@pytest.mark.parametrize(
    ("problem", "rule"),
    [
        (broken(reports=WrongNumbers()), "reports.describe must give a number ones for each solution"),
        (
            broken(curriculum=lambda self, progress: self if progress < 1 else TreeProblem()),
            r"curriculum\(1.0\) must generate the instances of the problem itself",
        ),
        (
            broken(reset=lambda *_: Sum(0)),
            "reset must give tensors whose first dimension is the batch, 6 here; done is int",
        ),
        (broken(step=lambda *_: Sum(torch.tensor(1))), r"step must give tensors .*, 6 here; done is \[\]"),
        (
            broken(generate=lambda *_: (torch.rand(6, 4),)),
            r"generate\(6\) must give a NamedTuple of tensors, got tuple",
        ),
        (broken(mask=lambda *_: torch.ones(6, 2)), r"mask must be bool \(6, 2\), got torch.float32 \(6, 2\)"),
        (broken(cost=lambda self, _, actions: actions.tolist()), r"cost must be a tensor of n finite numbers, got \["),
    ],
)
def test_broken_options_are_found(problem, rule):
    with pytest.raises(AssertionError, match=rule):
        problem_contract(problem)


def test_what_is_generated_must_pass_the_check():
    def check(self, instance):
        raise ValueError("prices must be at least 2")

    with pytest.raises(ValueError, match="prices must be at least 2"):
        problem_contract(broken(check=check))
