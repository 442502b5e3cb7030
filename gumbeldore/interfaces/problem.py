"""The contract of a problem."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, take
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces.made_with import RecordsArguments
from gumbeldore.reports import Reports
from gumbeldore.seeding import generator

AnyProblem = TypeVar("AnyProblem", bound="Problem")


class Problem(RecordsArguments, ABC):
    """A combinatorial problem whose solutions are built by T successive decisions among A actions.

    The class of a problem inherits this class: `class TSP(Problem)`. From `name` to `cost`, methods are required; all
    others have defaults. What some problems can do besides is in `gumbeldore.interfaces.abilities`. All methods are
    pure and batched over rows, without a Python loop over rows. `problem_contract` checks a problem.
    """

    reports: Reports = Reports()  # how evaluations show instances and solutions
    # What is minimised, where a problem can minimise different things; a shipped policy is chosen for its objective.
    objective: str = ""
    # Of one instance's arrays, by name; arrays with one dimension more are of several. `from_arrays` takes these alone.
    dimensions: Mapping[str, int] = {}

    @property
    @abstractmethod
    def name(self) -> str:
        """The problem's name in messages, files and checkpoints: an attribute of the class, `name = "tsp"`."""

    @abstractmethod
    def generate(self, n: int, generator: torch.Generator) -> Any:
        """Draw n random training instances."""

    @abstractmethod
    def num_actions(self, instance: Any) -> int:
        """A, the size of the action space."""

    @abstractmethod
    def horizon(self, instance: Any) -> int:
        """T, the number of decisions of every solution."""

    @abstractmethod
    def last_choice(self, instance: Any) -> int:
        """Index of the last decision that is not always forced; training learns decisions 0..last_choice."""

    @abstractmethod
    def reset(self, instance: Any) -> Any:
        """The state before the first decision."""

    @abstractmethod
    def step(self, instance: Any, state: Any, action: Tensor) -> Any:
        """The state after `action` [R]; a finished row is absorbing, with exactly one legal action."""

    @abstractmethod
    def mask(self, instance: Any, state: Any) -> Tensor:
        """bool [R, A], True = legal; no row is all False. What never leads to a better solution may be left out."""

    @abstractmethod
    def cost(self, instance: Any, actions: Tensor) -> Tensor:
        """Cost [R] of complete action sequences [R, T], lower is better, also below 0, from the actions alone.

        Raises ValueError if a sequence is not a legal solution.
        """

    def replay(self, instance: Any, actions: Tensor) -> Any:
        """The state after the decisions `actions` [R, q], q >= 0; training starts there. Default: q times `step`."""
        state = self.reset(instance)
        for action in actions.unbind(dim=1):
            state = self.step(instance, state, action)
        return state

    def edges(self, instance: Any, actions: Tensor) -> Tensor:
        """What complete solutions `actions` [R, T] consist of, such as the edges of a tour, as int64 numbers [R, E].

        Solutions of an instance are the more alike, the more numbers they share; numbers below 0 mean nothing. Default:
        the action of each decision.
        """
        return torch.arange(actions.shape[1], device=actions.device) * self.num_actions(instance) + actions

    def num_equivalents(self, instance: Any) -> int:
        """The largest `count` of `equivalents`, the instance itself included. Default: 1, there are no others."""
        return 1

    def equivalents(self, instance: Any, count: int) -> tuple[Any, Callable[[Tensor], Tensor]]:
        """Instances that have solutions as good as those of each instance, e.g. mirrored ones. Default: itself.

        Arguments:
            count: of each instance, at most `num_equivalents`; the first is the instance itself

        Returns [R * count, ...], those of an instance one after the other; and a function that turns solutions
        [R * count, L, T] of these into solutions of the instances themselves, at the same or a lower cost.
        """
        return instance, lambda actions: actions

    # Which decisions of experts training imitates, in which order, and of which instances.

    def num_choices(self, instance: Any, actions: Tensor) -> Tensor:
        """How many decisions int64 [R] of the solutions `actions` [R, T], the first ones, training learns.

        Default: `last_choice` + 1 of each. Where solutions end early, those up to their end.
        """
        return torch.full((len(actions),), self.last_choice(instance) + 1, device=actions.device)

    def sees(self, instance: Any, state: Any, action: Tensor) -> Tensor:
        """Whether the policy sees what the actions [R] of an expert go to, bool [R]; else they are not imitated.

        Default: it sees everything.
        """
        return torch.ones_like(action, dtype=torch.bool)

    def augment(self, instance: Any, actions: Tensor, step: int, generator: torch.Generator) -> tuple[Any, Tensor]:
        """Other instances with solutions as good as `actions` [R, T] are for `instance`, e.g. mirrored ones.

        Training imitates their decisions from `step` on. Default: instances and solutions as they are.

        Arguments:
            generator: of the CPU, the only source of random numbers
        """
        return instance, actions

    def reorder(self, instance: Any, actions: Tensor, step: int, generator: torch.Generator) -> Tensor:
        """The solutions `actions` [R, T] with their decisions in another order, at the same or a lower cost.

        Training imitates the decisions from `step` on. Default: the same order.

        Arguments:
            generator: as in `augment`
        """
        return actions

    def curriculum(self: AnyProblem, progress: float) -> AnyProblem:
        """The problem whose instances training draws after a share `progress` of the epochs.

        After all of them, these are the instances of this problem. Default: this problem throughout.
        """
        return self

    # How much of large instances a trained policy sees.

    def for_evaluation(self: AnyProblem) -> AnyProblem:
        """The problem as evaluations have it: where the user has not said what is in view, the size of an instance may.

        Default: as in the training.
        """
        return self

    def view_of(self, instance: Any) -> str:
        """What the policy sees of instances, in words, where their size decides it. Default: "", everything."""
        return ""

    # Instances in files, in named sets and in arrays.

    def check(self, instance: Any) -> None:
        """Raises ValueError unless all instances of a file of experts are well-formed. Default: no check."""

    def in_training_units(self, instance: Any) -> Any:
        """The instances of a file of experts in the units that the network learns from, with the same good solutions.

        Default: as they are.
        """
        return instance

    def load(self, source: str, limit: int | None = None) -> list[InstanceSet]:
        """The evaluation sets that `source` names, an InstanceSet for each size. Default: ValueError, there are none.

        Arguments:
            source: the name of a set, or the path of a file or a folder
            limit: how many instances to take from the front, None for all

        Raises ValueError for a source that is not known or a file that is not well-formed (WrongProblemError if it
        seems to be one of another problem), and TooFewError if the source has fewer than `limit` instances: where the
        limit is a default, all of them are taken then.
        """
        raise ValueError(f"{type(self).__name__} has no evaluation sets: it does not define load")

    def from_arrays(self, arrays: Mapping[str, Any], where: str) -> InstanceSet:
        """Instances of one size in NumPy arrays [n, ...], by name. Default: ValueError, there are no names.

        Arguments:
            where: what the arrays come from; messages begin with it

        Raises ValueError for arrays that are not well-formed: WrongProblemError if they seem to be of another problem,
        MixedSizesError if instances of several sizes have arrays of the same shapes.
        """
        raise ValueError(f"{type(self).__name__} takes no arrays: it does not define from_arrays")

    def size_of(self, instance: Any) -> dict[str, Tensor]:
        """Numbers [n] above 0 that say how large the instances are, by name. Default: the decisions.

        A shipped policy is chosen for instances by these numbers.
        """
        return {"decisions": torch.full((batch_size(instance),), float(self.horizon(instance)))}

    def validation(self, n: int, seed: int) -> list[InstanceSet]:
        """The fixed validation set of training, n instances in all, an InstanceSet for each size.

        Default: random instances without references, which only the run's seed decides.
        """
        return [without_references(self, self.generate(n, generator(seed, "validation")), "validation")]


def without_references(problem: Problem, instances: Any, name: str) -> InstanceSet:
    """Instances [n, ...] of a problem as an InstanceSet. Their true cost is the problem's own; references are missing.

    Arguments:
        name: of the set; an instance is called `name`/0, `name`/1, ...
    """

    def true_cost(index: Tensor, actions: Tensor) -> Tensor:
        return problem.cost(take(instances, index), actions).double()

    n = batch_size(instances)
    unknown = torch.full((n,), math.nan, dtype=torch.float64)
    return InstanceSet([f"{name}/{i}" for i in range(n)], instances, instances, true_cost, unknown, [""] * n)


def size_name(problem: Problem, instances: Any) -> str:
    """The size of instances as tables show it."""
    return problem.reports.size(instances, problem.horizon(instances))
