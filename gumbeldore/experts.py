"""Pseudo-experts: the best of the solutions that the best policy samples."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore import methods
from gumbeldore.interfaces import batch_size
from gumbeldore.search import SearchConfig, Solutions
from gumbeldore.seeding import fold
from gumbeldore.stopping import Progress, Stop, silent
from gumbeldore.workers import SearchPool


class Experts(NamedTuple):
    actions: Tensor  # [n, T]
    costs: Tensor  # [n]
    metrics: dict[str, float]


def sample_experts(
    pool: SearchPool,
    instances: Any,
    keys: Tensor,
    search: SearchConfig,
    greedy_too: bool = False,
    progress: Progress = silent,
    stop: Stop = lambda: False,
) -> Experts:
    """The best of the sampled solutions of each instance, and how the sampling went.

    Arguments:
        greedy_too: the greedy solution takes part
    """
    start = time.perf_counter()
    count = batch_size(instances)
    parts: dict[int, dict[str, Tensor]] = {}
    evaluations = done = 0
    progress("sampling", 0, count)
    for chunk, solutions in pool.map(instances, keys, search, stop):
        actions, cost = solutions.best()
        parts[chunk.start] = {"actions": actions, "best": cost, **_per_instance(solutions)}
        evaluations += solutions.stats.evaluations
        done += len(cost)
        progress("sampling", done, count)
    greedy = torch.empty(count, dtype=torch.float64)
    decisions = torch.empty(count, *solutions.actions.shape[2:], dtype=torch.int64)
    for chunk, solutions in pool.map(instances, keys, methods.greedy(), stop):
        greedy[chunk], decisions[chunk] = solutions.costs[:, 0], solutions.actions[:, 0]
    # In the order of the instances, whatever order the chunks came back in: sums do not depend on it.
    ordered = [parts[first] for first in sorted(parts)]
    merged = {name: torch.cat([part[name] for part in ordered]) for name in ordered[0]}
    total = merged["samples"].sum().item()
    metrics = {
        "sampling/best_cost": merged["best"].mean().item(),
        "sampling/mean_cost": (merged["cost_sum"].sum() / total).item(),
        "sampling/greedy_cost": greedy.mean().item(),
        "sampling/improvement_over_greedy": 1 - (merged["best"] / greedy).mean().item(),
        "sampling/distinct_share": merged["distinct"].sum().item() / total,
        "sampling/solutions": total,
        "sampling/solutions_per_second": total / (time.perf_counter() - start),
        "sampling/evaluations": evaluations,
    }
    actions, costs = merged["actions"], merged["best"]
    if greedy_too:
        better = greedy < costs
        actions, costs = torch.where(better[:, None], decisions, actions), torch.where(better, greedy, costs)
        metrics["sampling/greedy_is_expert"] = better.double().mean().item()
    return Experts(actions, costs, metrics)


def _per_instance(solutions: Solutions) -> dict[str, Tensor]:
    """Sums [B] over the solutions of each instance; distinct ones are told apart by a hash of their actions."""
    code = fold(torch.zeros((), dtype=torch.int64), *solutions.actions.unbind(dim=2))
    code = code.masked_fill(~solutions.valid, 0).sort(dim=1).values
    first = torch.ones_like(code, dtype=torch.bool)
    first[:, 1:] = code[:, 1:] != code[:, :-1]
    return {
        "samples": solutions.valid.sum(dim=1),
        "distinct": (first & (code != 0)).sum(dim=1),
        "cost_sum": solutions.costs.masked_fill(~solutions.valid, 0.0).sum(dim=1),
    }
