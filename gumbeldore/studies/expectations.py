"""A policy's expected cost and entropy: estimates from k samples, and what to compare them with [SBS, section 4]."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet, count_of
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.errors import instance_errors
from gumbeldore.sampler import methods
from gumbeldore.sampler.estimators import estimate_by_beam, estimate_over_rounds, monte_carlo
from gumbeldore.sampler.methods import Beam, Sampling, WithoutReplacement
from gumbeldore.sampler.solutions import Solutions
from gumbeldore.sampler.trie_search import Beams
from gumbeldore.seeding import fold
from gumbeldore.training.true_costs import SampledSolutions, true_costs

QUANTITIES = ("cost", "entropy")
ESTIMATORS = {  # by the method that they need
    "sampling": ("Monte Carlo",),
    "wor": ("SBS, unbiased", "SBS, normalised"),
    "beam": ("beam search, bound", "beam search, normalised"),
}
MOST_SOLUTIONS = 6_000  # of an instance whose solutions are all written down
SAMPLES_AT_ONCE = 1_000  # of the reference


class Reference(NamedTuple):
    """What the estimates are compared with."""

    cost: float
    entropy: float
    samples: int  # independent ones of each instance, whose mean it is; 0: it is exact, all solutions are known
    cost_error: float = 0.0  # standard error of the mean
    entropy_error: float = 0.0


@dataclass(frozen=True)
class TemperedBeam(Beam):
    """Beam search with the policy whose logits are divided by a temperature."""

    temperature: float = 1.0

    @property
    def beams(self) -> Beams:
        return super().beams._replace(temperature=self.temperature)


Estimable = Sampling | WithoutReplacement | TemperedBeam  # the searches that have estimators


class EstimatorPoint(NamedTuple):
    """An estimator with k samples at a temperature: its estimates over the repetitions."""

    estimator: str
    temperature: float
    samples: int  # k, per instance
    rounds: int
    quantity: str  # cost or entropy
    mean: float
    low: float  # 5th percentile
    high: float  # 95th percentile
    error: float  # root of the mean squared difference to the reference
    reference: float


def estimates(solutions: Solutions, name: str, num_rounds: int) -> Tensor:
    """By all E estimators of the method of that name, from what a search of so many rounds, or fewer, has found.

    Returns [quantities, B, E] float64; the entropy is in nats.
    """
    log_probs, valid, rounds = solutions.log_probs, solutions.valid, solutions.stats.rounds
    found = []
    for values in (solutions.costs, -log_probs):
        if name == "sampling":
            each = [monte_carlo(values, valid)]
        elif name == "beam":
            each = [estimate_by_beam(values, log_probs, valid, normalised) for normalised in (False, True)]
        else:
            about = log_probs, solutions.round_log_probs, solutions.gumbels, rounds, valid
            # A search ends before its last round where nothing is left to be found.
            complete = rounds < num_rounds
            each = [estimate_over_rounds(values, *about, normalised, complete) for normalised in (False, True)]
        found.append(torch.stack(each, dim=1))
    return torch.stack(found)


def measure(
    name: str,
    method: Estimable,
    pool: SearchPool,
    instance_sets: list[InstanceSet],
    repetitions: int,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, list[list[float]]]:
    """By quantity, the estimates [E][repetitions] of the mean over all instances.

    Arguments:
        name: of the method, one of ESTIMATORS
        progress: called with the number of instances searched since the last call, repetitions included
    """
    total = torch.zeros(len(QUANTITIES), repetitions, len(ESTIMATORS[name]), dtype=torch.float64)
    for place, instance_set in enumerate(instance_sets):
        count = len(instance_set.names)
        keys = fold(seed, "expectations", place, torch.arange(count * repetitions))
        found = torch.empty(len(QUANTITIES), count * repetitions, len(ESTIMATORS[name]), dtype=torch.float64)
        every = instance_set.part(torch.arange(count).repeat_interleave(repetitions))
        for chunk, solutions in _searched(pool, every, keys, method):
            found[:, chunk] = estimates(solutions, name, method.num_rounds)
            progress(chunk.stop - chunk.start)
        total += found.view(len(QUANTITIES), count, repetitions, -1).sum(dim=1)
    mean = (total / count_of(instance_sets)).mT  # [quantities, E, repetitions]
    return dict(zip(QUANTITIES, mean.tolist(), strict=True))


def _searched(
    pool: SearchPool, instance_set: InstanceSet, keys: Tensor, method: Estimable
) -> Iterator[tuple[slice, Solutions]]:
    """The solutions of each chunk of a set, with their true costs; a ValueError names an instance with none."""
    with instance_errors(instance_set, keys):
        for _, chunk, solutions in pool.map_all(instance_set.instances, keys, [method]):
            yield chunk, solutions._replace(costs=true_costs(instance_set, chunk, SampledSolutions.of(solutions)))


def reference(
    pool: SearchPool, instance_sets: list[InstanceSet], temperature: float, samples: int, seed: int
) -> Reference:
    """The expectations over all solutions of each instance, or the mean of many independent samples.

    Arguments:
        samples: of each instance, at least, where one of them has more than MOST_SOLUTIONS solutions
    """
    if exact := _exact(pool, instance_sets, temperature):
        return exact
    times = max(2, math.ceil(samples / SAMPLES_AT_ONCE))
    method = methods.Sampling(SAMPLES_AT_ONCE, num_rounds=1, temperature=temperature)
    found = measure("sampling", method, pool, instance_sets, times, int(fold(seed, "reference")))
    means = torch.tensor([found[quantity][0] for quantity in QUANTITIES], dtype=torch.float64)  # [quantities, times]
    (cost, entropy), errors = means.mean(dim=1).tolist(), means.std(dim=1) / math.sqrt(times)
    return Reference(cost, entropy, times * SAMPLES_AT_ONCE, *errors.tolist())


def _exact(pool: SearchPool, instance_sets: list[InstanceSet], temperature: float) -> Reference | None:
    """The expectations over all solutions; None as soon as an instance has more than a search can write down."""
    method = methods.WithoutReplacement(MOST_SOLUTIONS, num_rounds=1, temperature=temperature)
    totals = [0.0 for _ in QUANTITIES]
    for instance_set in instance_sets:
        keys = torch.arange(len(instance_set.names))
        for _, solutions in _searched(pool, instance_set, keys, method):
            log_probs, valid = solutions.log_probs, solutions.valid
            if valid.all(dim=1).any():  # as many solutions as the search is wide: there are others, too
                return None
            for place, values in enumerate((solutions.costs, -log_probs)):
                totals[place] += estimate_by_beam(values, log_probs, valid, normalised=False).sum().item()
    cost, entropy = (total / count_of(instance_sets) for total in totals)
    return Reference(cost, entropy, 0)


def points(
    name: str, method: Estimable, found: dict[str, list[list[float]]], compared: Reference
) -> list[EstimatorPoint]:
    """The summary of what `measure` found, for each estimator and quantity."""
    made = []
    for quantity in QUANTITIES:
        exact = getattr(compared, quantity)
        for estimator, values in zip(ESTIMATORS[name], torch.tensor(found[quantity], dtype=torch.float64), strict=True):
            low, high = values.quantile(torch.tensor([0.05, 0.95], dtype=torch.float64)).tolist()
            error = (values - exact).square().mean().sqrt().item()
            samples = method.beam_width * method.num_rounds
            about = estimator, float(method.temperature), samples, method.num_rounds, quantity
            made.append(EstimatorPoint(*about, values.mean().item(), low, high, error, exact))
    return made
