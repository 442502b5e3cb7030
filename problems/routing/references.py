"""The reference of a routing instance in a file: the solution beside it, or the published cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from problems.common.files import Reference, beside
from problems.formats.tsplib import CONVENTIONS
from problems.routing.best_known import Published
from problems.routing.distances import is_whole, title_of

FEW_DIGITS = 1e-5  # relative error of costs that are published with two digits behind the point


def best_reference(
    path: Path,
    instance: Any,
    suffix: str,
    claim: str,
    read: Callable[[Path, Any], tuple[float, Tensor]],
    published: Published | None,
) -> Reference:
    """The better one of the solution beside an instance's file and the published cost.

    Arguments:
        instance: with its `name` and `metric`
        suffix: of the solution's file
        claim: how good such a file is where nothing is published
        read: cost and actions of it
    """
    warnings = []
    if published and published.metric != title_of(instance.metric):
        what = f"the published cost {published.cost:.12g} is no reference: its distances are {published.metric}"
        warnings.append(f"{instance.name}: {what}, not {title_of(instance.metric)}{_remedy(published.metric)}")
        published, claim = None, "solution file"
    solution = None
    if file := beside(path, suffix):
        try:
            solution = read(file, instance)
        except (ValueError, OSError) as error:
            warnings.append(f"{error}; this reference is left out")
    if solution is None:
        if published is None:
            return Reference(warnings=tuple(warnings))
        return Reference(published.cost, f"{published.kind} ({published.source})", None, tuple(warnings))
    cost, actions = solution
    if published is None:
        return Reference(cost, f"{claim} ({suffix})", actions, tuple(warnings))
    known = f"{published.kind} ({published.source})"
    if abs(cost - published.cost) <= (0 if is_whole(instance.metric) else FEW_DIGITS * published.cost):
        return Reference(cost, f"{published.kind} ({suffix})", actions, tuple(warnings))
    warnings.append(f"{file}: the solution costs {cost:.12g}, but {published.cost:.12g} is {known}")
    if cost > published.cost:
        return Reference(published.cost, known, None, tuple(warnings))
    return Reference(cost, f"solution file ({suffix})", actions, tuple(warnings))


def _remedy(metric: str) -> str:
    """How to compute costs in the metric of a published one."""
    words = {asked: word for word, asked in CONVENTIONS.items()}
    return f"; problem.distances={words[metric]} compares with it" if metric in words else ""
