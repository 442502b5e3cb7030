"""Given solutions that a search begins from: results of earlier searches, and plans in the problem's own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.evaluation.result import Result
from gumbeldore.evaluation.sources import Group
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem


def starts_of(start: Any, count: int | None) -> Sequence[Any] | None:
    """The given solution of each instance; None if there are none.

    Arguments:
        count: of the instances; None: there is one, whose solution is the start itself

    Raises ValueError unless several instances have a list of as many solutions.
    """
    if start is None or count is None:
        return None if start is None else [start]
    if not isinstance(start, (list, tuple)) or len(start) != count:
        raise ValueError(f"start must be a list with a solution of each of the {count} instances")
    return start


def start_of(problem: Problem, group: Group, given: Sequence[Any]) -> Tensor:
    """The decisions [n, T] of the solutions of a group's instances, which are given by their places.

    Raises ValueError that names an instance, for what is no solution of it.
    """
    instance_set, places = group
    return torch.stack([_decisions(problem, instance_set, i, given[place]) for i, place in enumerate(places)])


def _decisions(problem: Problem, instance_set: InstanceSet, index: int, given: Any) -> Tensor:
    one = take(instance_set.instances, slice(index, index + 1))
    try:
        known = isinstance(given, Result)
        actions = given.actions if known else problem.reports.actions_of(instance_set.originals, index, given)
        if actions.shape != (problem.horizon(one),):
            raise ValueError(f"it has {len(actions)} decisions, not {problem.horizon(one)}")
        problem.cost(one, actions[None])  # which refuses what is no solution
    except ValueError as error:
        raise ValueError(f"the start of {instance_set.names[index]}: {error}") from None
    return actions
