"""The best solution so far of each of several instances: of those in a pool, and of those given to active search."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet, count_of, mean_gap
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.errors import instance_errors
from gumbeldore.runtime.stopping import Stopped
from gumbeldore.sampler import methods
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import fold
from gumbeldore.training.dataset import Shard
from gumbeldore.training.execution import Execution
from gumbeldore.training.experts import GREEDY, SEARCH
from gumbeldore.training.true_costs import SampledSolutions, TrueBest, best_solutions
from gumbeldore.training.validation import Quality


@dataclass
class Incumbents:
    """The best solution so far of each instance of several instance sets, by its true cost."""

    instance_sets: list[InstanceSet]
    actions: list[Tensor]  # of each instance set, [n, T]
    costs: list[Tensor]  # of each instance set, [n] float64; infinite where no solution is known yet

    @classmethod
    def of(cls, problem: Problem, instance_sets: list[InstanceSet], shards: Sequence[Shard]) -> Incumbents:
        """The solutions in the dataset of a run that goes on, none in that of a new one.

        Raises ValueError if the dataset's instances are others than the instance sets'.
        """
        if shards:
            alike = len(shards) == len(instance_sets) and all(
                torch.equal(mine, given)
                for shard, instance_set in zip(shards, instance_sets, strict=True)
                for mine, given in zip(shard.instances, instance_set.instances, strict=True)
            )
            if not alike:
                raise ValueError("train.instances: the instances are not those with which the run began")
            costs = [shard.costs.clone().double() for shard in shards]
            return cls(instance_sets, [shard.actions.clone() for shard in shards], costs)
        sizes = [(len(instance_set.names), problem.horizon(instance_set.instances)) for instance_set in instance_sets]
        unknown = [torch.full(size[:1], math.inf, dtype=torch.float64) for size in sizes]
        return cls(instance_sets, [torch.zeros(size, dtype=torch.int64) for size in sizes], unknown)

    def offer(self, place: int, chunk: slice, found: TrueBest) -> None:
        """Keep those of the solutions of a chunk of instance set `place` that are better than all before."""
        better = found.costs < self.costs[place][chunk]
        self.costs[place][chunk] = found.costs.where(better, self.costs[place][chunk])
        self.actions[place][chunk] = found.actions.where(better[:, None], self.actions[place][chunk])

    def shards(self, epoch: int) -> Iterator[Shard]:
        """The solutions as experts, of each size a shard."""
        for place, instance_set in enumerate(self.instance_sets):
            name = f"epoch_{epoch:06d}_{place:03d}"
            yield Shard(name, instance_set.instances, self.actions[place].clone(), self.costs[place].clone())

    def quality(self) -> Quality:
        """Mean cost and gap of the solutions."""
        return Quality(torch.cat(self.costs).mean().item(), mean_gap(self.instance_sets, self.costs), {})


class Offer(NamedTuple):
    """What the policy found for a chunk of an instance set."""

    place: int  # of the instance set
    which: int  # GREEDY or SEARCH
    chunk: slice
    rows: Tensor  # int64 of the chunk among all instances
    best: TrueBest
    evaluations: int


def improve(
    incumbents: Incumbents, search: Method, pool: SearchPool, epoch: int, execution: Execution
) -> dict[str, float]:
    """Offer the incumbents what the policy finds greedily and by the search; returns metrics.

    Raises Stopped if the training is to end, with the metrics of what was found so far, which is offered, too.
    """
    clock, before = time.perf_counter(), torch.cat(incumbents.costs)
    offers: list[Offer] = []
    stopped = False
    try:
        for offer in _offers(incumbents, search, pool, epoch, execution):
            offers.append(offer)
    except Stopped:
        stopped = True
    costs = torch.full((2, len(before)), math.nan, dtype=torch.float64)  # greedy, and the best of the search
    # Not as they arrive: of equal costs the first stays, the greedy one, whichever worker was faster.
    for offer in sorted(offers, key=lambda offer: (offer.place, offer.which, offer.chunk.start)):
        incumbents.offer(offer.place, offer.chunk, offer.best)
        costs[offer.which, offer.rows] = offer.best.costs
    solutions = sum(int(offer.best.found.sum()) for offer in offers)  # greedy ones, which may be kept, too
    mean_costs = costs.mean(dim=1).tolist()
    metrics = {
        "sampling/best_cost": mean_costs[SEARCH],
        "sampling/greedy_cost": mean_costs[GREEDY],
        "sampling/new_best": int((torch.cat(incumbents.costs) < before).sum()),
        "sampling/solutions": solutions,
        "sampling/solutions_per_second": solutions / (time.perf_counter() - clock),
        "sampling/evaluations": sum(offer.evaluations for offer in offers),
    }
    if stopped:
        raise Stopped(metrics)
    return metrics


def _offers(
    incumbents: Incumbents, search: Method, pool: SearchPool, epoch: int, execution: Execution
) -> Iterator[Offer]:
    """What the policy finds, chunk by chunk; a reconstruction begins from the solutions, if all are known.

    Raises Stopped if the training is to end.
    """
    count = count_of(incumbents.instance_sets)
    first = done = 0
    execution.progress("sampling", 0, count)
    for place, instance_set in enumerate(incumbents.instance_sets):
        mine = torch.arange(first, first + len(instance_set.names))
        first += len(mine)
        keys = fold(execution.seed, "sampling", epoch, mine)
        searches = (methods.Greedy(), search)
        start = incumbents.actions[place] if incumbents.costs[place].isfinite().all() else None
        found = pool.map_all(
            instance_set.instances, keys, searches, execution.stop, read=SampledSolutions.of, start=start
        )
        with instance_errors(instance_set, keys):
            for which, chunk, sampled in found:
                best = best_solutions(instance_set, chunk, sampled)
                done += len(best.costs) if which == SEARCH else 0
                execution.progress("sampling", done, count)
                yield Offer(place, which, chunk, mine[chunk], best, sampled.stats.evaluations)
