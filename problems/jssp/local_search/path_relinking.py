"""Tabu searches from schedules between two elite ones: path relinking [Peng, Lü and Cheng 2015].

A schedule between two others: each machine takes its operations in the order of a weighted mean of both starts. Two
operations that have the same order in both keep it. The operations of a job, too, start one after the other on average;
so the sequences make no cycle. (Peng et al. turn round pairs one by one, and mend what is not feasible.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from problems.jssp.local_search.job_shop import Effort, JobShop, Schedule, TabuSearch

ELITES = 8  # (docs/decisions.md)
DISTURBANCE = 0.1  # the weight of a random order, beside a schedule, in the starts of further elites


def improved(shop: JobShop, starts: list[np.ndarray], effort: Effort, seed: int) -> Schedule:
    """The best schedule that is found, until the effort is spent or a makespan is reached that no schedule beats.

    Arguments:
        starts: [n] each, of given schedules
    """
    random = np.random.default_rng(seed)
    search, elites = TabuSearch(shop, random), []
    for each in _starts(shop, starts, elites, random):
        keep(search(each, effort), elites)
        if effort.is_over or elites[0].makespan <= shop.bound:
            break
    return elites[0]


def _starts(
    shop: JobShop, given: list[np.ndarray], elites: list[Schedule], random: np.random.Generator
) -> Iterator[np.ndarray]:
    """Where searches begin: at given schedules, then near the best one, then between two elites."""
    yield from given
    while len(elites) < ELITES:
        best = elites[0]
        yield mixed(best.starts / max(best.makespan, 1), random_order(shop, random), DISTURBANCE)
    while True:
        first, second = random.choice(ELITES, 2, replace=False)
        yield mixed(elites[first].starts, elites[second].starts, random.uniform(0.3, 0.7))


def mixed(first: np.ndarray, second: np.ndarray, share: float) -> np.ndarray:
    """The weighted mean of starts [n] or of places."""
    return (1 - share) * first + share * second


def random_order(shop: JobShop, random: np.random.Generator) -> np.ndarray:
    """Places in 0..1 of the operations [n] in a random order that keeps the order within jobs."""
    return np.argsort(random.permutation(shop.job), kind="stable") / len(shop.job)


def keep(found: Schedule, elites: list[Schedule]) -> None:
    """Keep a schedule among the best if its makespan is not that of another one: equal ones are often the same."""
    if len(elites) < ELITES or all(found.makespan != elite.makespan for elite in elites):
        elites.append(found)
        elites.sort(key=lambda elite: elite.makespan)
        del elites[ELITES:]
