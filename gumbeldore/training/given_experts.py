"""Experts that a user gives: solutions in files, which training imitates, or with which a pool begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gumbeldore.batches import batch_size, take
from gumbeldore.interfaces import Problem
from gumbeldore.training.dataset import Shard, read_shard


def read_experts(source: Path, problem: Problem, example: Any) -> list[Shard]:
    """Solutions to be imitated, from a `.npz` or a folder of them, each checked by the problem's own cost.

    Files may have any units; what is returned, costs included, has those of `Problem.in_training_units`.

    Arguments:
        example: an instance batch of the problem, whose type and dtypes the file's must be

    Raises ValueError naming the file: a solution that is not legal, or whose stated cost is not its cost.
    """
    paths = sorted(source.glob("*.npz")) if source.is_dir() else [source]
    if not paths:
        raise ValueError(f"there are no .npz files in {source}")
    shards = []
    for path in paths:
        shard = read_shard(path, type(example))
        for name, field, expected in zip(example._fields, shard.instances, example, strict=True):
            if field.dtype != expected.dtype or field.dim() != expected.dim():
                kind, wanted = f"{field.dtype} of {field.dim()} dimensions", f"{expected.dtype} of {expected.dim()}"
                raise ValueError(f"{path}: instance.{name} must be {wanted} dimensions, it is {kind}")
        if shard.actions.dtype != torch.int64:
            raise ValueError(f"{path}: actions must be torch.int64, they are {shard.actions.dtype}")
        if not len(shard.actions):
            raise ValueError(f"{path}: there are no solutions in it")
        try:
            problem.check(shard.instances)
            costs = problem.cost(shard.instances, shard.actions)
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"{path}: {error}") from None
        if shard.costs.shape != costs.shape or not torch.allclose(shard.costs.to(costs), costs, rtol=1e-4):
            raise ValueError(f"{path}: the stated costs are not those of the solutions")
        instances = problem.in_training_units(shard.instances)
        shards.append(shard._replace(instances=instances, costs=problem.cost(instances, shard.actions)))
    return shards


def in_turns(shards: list[Shard], most: int) -> list[Shard]:
    """Given experts as a pool begins with them: in shards of so many instances at most, which are searched together."""
    parts = [
        Shard("", take(shard.instances, rows), shard.actions[rows], shard.costs[rows])
        for shard in shards
        for rows in (slice(first, first + most) for first in range(0, batch_size(shard.instances), most))
    ]
    return [part._replace(name=f"given_{number:06d}") for number, part in enumerate(parts)]
