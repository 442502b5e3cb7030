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
    probabilities: Tensor  # [n, T] of the actions, each under the policy that sampled them
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
    parts: tuple[dict[int, dict[str, Tensor]], ...] = ({}, {})  # of the search, and greedy ones
    evaluations = done = 0
    progress("sampling", 0, count)
    for which, chunk, solutions in pool.map_all(instances, keys, (search, methods.greedy()), stop):
        actions, log_probs, costs = solutions.best_with_log_probs()
        best = {"actions": actions, "costs": costs, "probabilities": log_probs.exp()}
        parts[which][chunk.start] = {**best, **_per_instance(solutions)}
        if which == 0:
            evaluations += solutions.stats.evaluations
            done += len(costs)
            progress("sampling", done, count)
    sampled, greedy = (_in_order(found) for found in parts)
    total = sampled["samples"].sum().item()
    actions, costs, probabilities = (sampled[name] for name in Experts._fields[:3])
    metrics = {
        "sampling/best_cost": costs.mean().item(),
        "sampling/mean_cost": (sampled["cost_sum"].sum() / total).item(),
        "sampling/greedy_cost": greedy["costs"].mean().item(),
        "sampling/improvement_over_greedy": 1 - (costs / greedy["costs"]).mean().item(),
        "sampling/distinct_share": sampled["distinct"].sum().item() / total,
        "sampling/solutions": total,
        "sampling/solutions_per_second": total / (time.perf_counter() - start),
        "sampling/evaluations": evaluations,
    }
    if greedy_too:
        better = greedy["costs"] < costs
        actions = torch.where(better[:, None], greedy["actions"], actions)
        costs = torch.where(better, greedy["costs"], costs)
        probabilities = torch.where(better[:, None], greedy["probabilities"], probabilities)
        metrics["sampling/greedy_is_expert"] = better.double().mean().item()
    return Experts(actions, costs, probabilities, metrics)


def _in_order(parts: dict[int, dict[str, Tensor]]) -> dict[str, Tensor]:
    """In the order of the instances, whatever order their chunks came back in: sums do not depend on it."""
    ordered = [parts[first] for first in sorted(parts)]
    return {name: torch.cat([part[name] for part in ordered]) for name in ordered[0]}


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
