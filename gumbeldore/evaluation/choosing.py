"""A shipped policy for instances whose user names none: the one that has learnt from, or is best at, such instances."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.evaluation.loading import LoadedPolicy, load_policy, with_values
from gumbeldore.evaluation.sources import Group, Source, groups_of
from gumbeldore.instance_set import InstanceSet, WrongProblemError
from gumbeldore.interfaces import Problem
from gumbeldore.runtime.building import takes
from gumbeldore.runtime.checkpoint import SHIPPED, shipped
from gumbeldore.runtime.files import in_home
from gumbeldore.seeding import generator

BATCHES = 16  # of training instances, which may differ in size, for a mean scale
BATCH_SIZE = 16
BEST_AT = SHIPPED / "best_at.json"
REMEDY = "name a policy (checkpoint=..., in Python the first argument)"

Scale = Mapping[str, float]  # of one instance, or the mean of several, by name


class Choice(NamedTuple):
    """A policy, and the instances that it is to solve."""

    loaded: LoadedPolicy
    groups: list[Group]
    reason: str  # in words

    @property
    def instance_sets(self) -> list[InstanceSet]:
        return [group.instance_set for group in self.groups]

    @property
    def views(self) -> list[str]:
        """What the policy sees of the instances, where their size decides it, a line each."""
        views = (self.loaded.problem.view_of(instance_set.instances) for instance_set in self.instance_sets)
        return list(dict.fromkeys(filter(None, views)))

    def with_views(self) -> Choice:
        """The choice, in whose reason the views are."""
        return self._replace(reason="; ".join(filter(None, [self.reason, *self.views])))


def choose_policies(instances: Source | Sequence[Source], limit: int | None, values: Mapping[str, Any]) -> list[Choice]:
    """For each of the instances the shipped policy that is nearest in `Problem.size_of`.

    Near to a policy are its training instances, and the sizes at which it was measured to be the best (`BEST_AT`). Only
    policies for the objective among the values are considered; without one, for the problem's default.

    Arguments:
        instances, limit: see `groups_of`
        values: of the problem, instead of those of the training; None leaves a value as it was

    Raises ValueError if no shipped policy, or policies of several problems, can read them.
    """
    policies = {name: load_policy(SHIPPED / name) for name in shipped()}
    name, groups = _read(_problems(policies, values), instances, limit)
    policies = _of_objective({key: each for key, each in policies.items() if each.problem.name == name}, values)
    best_at = json.loads(BEST_AT.read_text())
    scales = {key: [_training_scale(each.problem), *best_at.get(key, [])] for key, each in policies.items()}
    chosen: dict[str, list[Group]] = {key: [] for key in policies}
    for group in groups:
        scale = next(iter(policies.values())).problem.size_of(group.instance_set.instances)
        nearest = _nearest(scale, list(scales.values()))
        whole = bool((nearest == nearest[0]).all())
        for place in nearest.unique().tolist():
            mine = group if whole else group.part((nearest == place).nonzero().flatten())
            chosen[list(policies)[place]].append(mine)
            # One part speaks for all.
            group = group._replace(instance_set=group.instance_set._replace(warnings=[], left_out={}))
    choices = [Choice(policies[key], mine, "") for key, mine in chosen.items() if mine]
    return [choice._replace(reason=_reason(choice)) for choice in choices]


def _of_objective(policies: Mapping[str, LoadedPolicy], values: Mapping[str, Any]) -> dict[str, LoadedPolicy]:
    """The policies of a problem, with the values, that minimise what these ask for; else the problem's default."""
    problem = next(iter(policies.values())).problem
    objective = values.get("objective") or type(problem).objective
    found = {key: with_values(each, values) for key, each in policies.items() if each.problem.objective == objective}
    if not found:
        with_values(next(iter(policies.values())), values)  # refuses an objective that the problem does not have
        raise ValueError(f"no policy that is shipped minimises the {objective} for {problem.name}; {REMEDY}")
    return found


def _problems(policies: Mapping[str, LoadedPolicy], values: Mapping[str, Any]) -> dict[str, Problem]:
    """The problems by name, each with those of the values that it knows."""
    found: dict[str, Problem] = {}
    for each in policies.values():
        if each.problem.name not in found:
            known = {name: value for name, value in values.items() if takes(type(each.problem), name)}
            found[each.problem.name] = with_values(each, known).problem
    return found


def _read(
    problems: Mapping[str, Problem], instances: Source | Sequence[Source], limit: int | None
) -> tuple[str, list[Group]]:
    """The one problem that can read the instances, and what it reads."""
    read: dict[str, list[Group]] = {}
    errors: dict[str, str] = {}
    of_others: dict[str, str] = {}  # errors that say that the source may be of another problem
    for name, problem in problems.items():
        try:
            read[name] = groups_of(problem, instances, limit)
        except WrongProblemError as error:
            of_others[name] = str(error)
        except ValueError as error:
            errors[name] = str(error)
    if len(read) == 1:
        return next(iter(read.items()))
    what = f"instances={instances}" if isinstance(instances, (str, Path)) else "what is given"
    remedy = f"{REMEDY}; policies that are shipped: {', '.join(shipped())}"
    if read:
        raise ValueError(f"{what} can be read for several problems ({', '.join(read)}): {remedy}")
    errors = errors or of_others
    if len(set(errors.values())) == 1:
        raise ValueError(next(iter(errors.values())))
    if isinstance(instances, (str, Path)) and not in_home(instances).exists():
        raise ValueError(f"{what} is neither a file or folder nor a standard set, which docs/data.md lists")
    reasons = "; ".join(f"{name}: {error}" for name, error in errors.items())
    raise ValueError(f"it is not clear which problem {what} is of ({reasons}): {remedy}")


def _training_scale(problem: Problem) -> dict[str, float]:
    """The mean scale of a problem's training instances."""
    draws = generator(0, "scale")
    scales = [problem.size_of(problem.generate(BATCH_SIZE, draws)) for _ in range(BATCHES)]
    return {name: torch.cat([scale[name] for scale in scales]).double().mean().item() for name in scales[0]}


def _nearest(scale: Mapping[str, Tensor], policies: Sequence[Sequence[Scale]]) -> Tensor:
    """For each instance of a scale [n] the place [n] of the nearest policy, each of which has several scales."""
    return torch.stack([torch.stack([_distance(scale, to) for to in each]).amin(0) for each in policies]).argmin(dim=0)


def _distance(scale: Mapping[str, Tensor], to: Scale) -> Tensor:
    """The sum of |log ratios| [n] of each instance."""
    return torch.stack([(scale[name] / value).log().abs() for name, value in to.items()]).sum(dim=0)


def _reason(choice: Choice) -> str:
    """Which policy, and for which instances."""
    name, instance_sets = choice.loaded.path.parent.name, choice.instance_sets
    each = [choice.loaded.problem.size_of(instance_set.instances) for instance_set in instance_sets]
    own = {key: torch.cat([scale[key] for scale in each]) for key in each[0]}
    count = len(next(iter(own.values())))
    which = instance_sets[0].names[0] if count == 1 else f"{count} instances"
    sizes = ", ".join(f"{key} {_range(values)}" for key, values in own.items())
    return f"policy {name} for {which} ({sizes}): of the policies that are shipped, the nearest in size"


def _range(values: Tensor) -> str:
    low, high = (f"{bound:.3g}" for bound in (values.min().item(), values.max().item()))
    return low if low == high else f"{low} to {high}"
