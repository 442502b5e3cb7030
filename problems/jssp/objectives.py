"""What schedules of job shops cost."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from problems.jssp.instances import Instance, Shops, lengths_of
from problems.jssp.schedules import schedule

MAKESPAN, FLOW, TARDINESS = OBJECTIVES = ("makespan", "total_flow_time", "weighted_tardiness")

# Due dates of random instances [Singer and Pinedo 1998]: a job's release plus its work, times one of the factors.
FACTORS = (1.3, 1.5, 1.6)
WEIGHTS = ((4.0, 0.2), (2.0, 0.6), (1.0, 0.2))  # and the share of the jobs that has each


def check_objective(name: str) -> str:
    """The name, if it is one of OBJECTIVES; else ValueError."""
    if name not in OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}, got {name!r}")
    return name


def cost_of(objective: str, shop: Instance, jobs: Tensor) -> Tensor:
    """Cost [R] of the schedules that sequences of jobs [R, T] stand for. Raises ValueError as `check_jobs` does.

    The flow time of a job is the time from its release to its end. It is a tardiness of weight 1 if the release is the
    due date (`with_flow_time`).
    """
    ends = schedule(shop, jobs) + shop.times
    if objective == MAKESPAN:
        return ends.amax(dim=(1, 2))
    return (shop.weight * (ends[:, :, -1] - shop.due).clamp(min=0)).sum(dim=1)


def with_flow_time(instance: Shops) -> Shops:
    """The instances with the due dates and weights that make the weighted tardiness the total flow time."""
    return instance._replace(due=instance.release, weight=torch.ones_like(instance.release))


def with_due_dates(instance: Any, generator: torch.Generator) -> Any:
    """The instances with due dates and weights drawn as Singer and Pinedo [1998] do it.

    The work of a job is what it takes on its fastest machines, waits included.
    """
    work = work_of(instance)
    rows, jobs = work.shape
    factor = torch.tensor(FACTORS)[torch.randint(len(FACTORS), (rows, 1), generator=generator)]
    # A job's place among all says which weight it has; 0.5 / jobs keeps 0.2 * 10 from being just below 2.
    place = torch.rand(rows, jobs, dtype=torch.float32, generator=generator).argsort(dim=1) / jobs + 0.5 / jobs
    weights, shares = (torch.tensor(each) for each in zip(*WEIGHTS, strict=True))
    which = torch.searchsorted(shares.cumsum(dim=0)[:-1].contiguous(), place)
    return instance._replace(due=instance.release + (factor * work).floor(), weight=weights[which])


def work_of(instance: Any) -> Tensor:
    """Times on the fastest machines and waits of each job [R, J]; 0 where it has no operations."""
    return (instance.shortest() + instance.waits).sum(dim=2).masked_fill(lengths_of(instance) == 0, 0)
