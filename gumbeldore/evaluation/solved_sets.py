"""Solving instance sets with a search method: true costs, gaps to the references, time."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.evaluation.parts import SEARCH, Parts, SolvedSet, in_all
from gumbeldore.instance_set import InstanceSet, mean_gap, mean_reference
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.errors import instance_errors
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import fold
from gumbeldore.training.true_costs import SampledSolutions, best_solutions


class MethodSummary(NamedTuple):
    """One method on all instances that it has solved, whatever their sizes."""

    mean_cost: float
    mean_gap: float | None  # of the function of this name; None unless all have a reference
    num_instances: int
    seconds: float
    evaluations: int
    solutions: int

    @property
    def merit(self) -> float:
        """The lower, the better: the mean gap, or the mean cost where references are missing."""
        return self.mean_cost if self.mean_gap is None else self.mean_gap


def solve_set(
    pool: SearchPool,
    instance_set: InstanceSet,
    method: Method,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
    parts: Parts | None = None,
    rows: Tensor | None = None,
    start: Tensor | None = None,
) -> SolvedSet:
    """The best solution of every instance by its true cost; of equally good ones, the first that was found.

    Arguments:
        seed: with an instance's content, decides its samples (`instance_keys`)
        progress: called with the number of instances solved since the last call
        parts: what was found earlier, which is not searched again; what is found is added chunk by chunk
        rows: numbers int64 [m] of the instances to solve, if not all; the parts are then of these alone
        start: solutions [n, T] that a method improves

    Raises ValueError naming an instance that the policy or the problem cannot deal with.
    """
    keys = instance_keys(instance_set, seed)
    keys, instance_set = (keys, instance_set) if rows is None else (keys[rows], instance_set.part(rows))
    parts = Parts() if parts is None else parts
    chunks = pool.chunks(instance_set.instances, method)
    parts.keep_only(chunks)
    missing = [chunk for chunk in chunks if chunk not in parts]
    pool.prepare()
    last = time.perf_counter()
    with instance_errors(instance_set, keys):
        for _, chunk, sampled in pool.map_all(
            instance_set.instances, keys, [method], read=SampledSolutions.of, chunks=missing, start=start
        ):
            best = best_solutions(instance_set, chunk, sampled)
            last, seconds = time.perf_counter(), time.perf_counter() - last
            effort = {
                "seconds": seconds,
                "evaluations": sampled.stats.evaluations,
                "cut_short": sampled.stats.full * (chunk.stop - chunk.start),
                "greedy_alone": (sampled.stats.rounds == 0) * (chunk.stop - chunk.start),
            }
            parts.add(chunk, {SEARCH: SolvedSet(**best._asdict(), **effort)})
            progress(chunk.stop - chunk.start)
    return parts.joined()[SEARCH]


def instance_keys(instance_set: InstanceSet, seed: int) -> Tensor:
    """The random keys [n] int64 of the instances, each from the seed and the instance's numbers alone.

    So the samples of an instance are the same in a folder, alone, or given as arrays. Equal instances of a set are
    numbered: each of them has samples of its own.
    """
    count = len(instance_set.names)
    fields = [field.detach().cpu().reshape(count, math.prod(field.shape[1:])) for field in instance_set.instances]
    content = torch.cat([field.contiguous().view(torch.uint8) for field in fields], dim=1).numpy()
    hashes = [int.from_bytes(hashlib.sha256(row).digest()[:8], "little", signed=True) for row in content]
    met: Counter[int] = Counter()
    numbers = []
    for each in hashes:
        numbers.append(met[each])
        met[each] += 1
    return fold(seed, "evaluation", torch.tensor(hashes), torch.tensor(numbers))


def have_references(instance_sets: list[InstanceSet]) -> bool:
    """Whether all instances have a reference."""
    return not any(instance_set.references.isnan().any() for instance_set in instance_sets)


def have_gaps(instance_sets: list[InstanceSet]) -> bool:
    """Whether there is a mean gap: all instances have a reference, and these do not sum to 0 where they are pooled."""
    return have_references(instance_sets) and bool(mean_reference(instance_sets) != 0)


def pairs(solved: list[SolvedSet], instance_sets: list[InstanceSet]) -> list[tuple[SolvedSet, InstanceSet]]:
    """What a method has found for each set, and the set, both without the instances that it has not solved."""
    found = []
    for part, instance_set in zip(solved, instance_sets, strict=True):
        rows = (~part.costs.isnan()).nonzero().flatten()
        if len(rows) == len(part.costs):
            found.append((part, instance_set))
        elif len(rows):
            found.append((part.part(rows), instance_set.part(rows)))
    return found


def unsolved(solved: list[SolvedSet], instance_sets: list[InstanceSet]) -> list[tuple[str, str]]:
    """The names of the instances that a method has not solved, and why."""
    return [
        (instance_set.names[i], part.claims[i] if part.claims else "no solution")
        for part, instance_set in zip(solved, instance_sets, strict=True)
        for i in part.unsolved
    ]


def claims_of(solved: list[SolvedSet], instance_sets: list[InstanceSet]) -> Counter[str]:
    """How many solutions a solver calls how good; empty for other methods."""
    return Counter(claim for part, _ in pairs(solved, instance_sets) for claim in part.claims or [])


def check_solved(solved: list[SolvedSet], instance_sets: list[InstanceSet]) -> None:
    """Raises ValueError that names an instance that a method has not solved, and says why."""
    for name, why in unsolved(solved, instance_sets):
        raise ValueError(f"{name}: {why}")


def best_of(found: dict[str, list[SolvedSet]], instance_sets: list[InstanceSet]) -> str:
    """The first of the methods of the best merit; only of those that solve all instances, if there are any."""
    whole = [name for name, solved in found.items() if not any(part.unsolved for part in solved)]
    return min(whole or found, key=lambda name: summarise(found[name], instance_sets).merit)


def best_heuristic(parts: list[Parts], instance_sets: list[InstanceSet]) -> tuple[str, list[SolvedSet]]:
    """The name of a method's best heuristic, "" if there is but one, and what it has found for the sets."""
    each = [part.joined() for part in parts]
    found = {heuristic: [part[heuristic] for part in each] for heuristic in in_all(each)}
    best = best_of(found, instance_sets)
    return "" if len(found) == 1 else best, found[best]


def results_of(name: str, parts: list[Parts], instance_sets: list[InstanceSet]) -> dict[str, list[SolvedSet]]:
    """What a method has found for the sets, by the name to show: with its best heuristic's, if it has several."""
    heuristic, found = best_heuristic(parts, instance_sets)
    return {f"{name}: {heuristic}" if heuristic else name: found}


def summarise(solved: list[SolvedSet], instance_sets: list[InstanceSet]) -> MethodSummary:
    """One method's results over instance sets of several sizes; without a solution, the mean cost is NaN."""
    each = pairs(solved, instance_sets)
    costs = [part.costs for part, _ in each]
    known = [instance_set for _, instance_set in each]
    return MethodSummary(
        mean_cost=torch.cat(costs).mean().item() if each else math.nan,
        mean_gap=mean_gap(known, costs) if each and have_gaps(known) else None,
        num_instances=sum(map(len, costs)),
        seconds=sum(part.seconds for part in solved),
        evaluations=sum(part.evaluations for part in solved),
        solutions=int(sum(part.found.sum() for part, _ in each)),
    )
