"""The instances ta01..ta80 of the JSSP, made by Taillard's generator from his seeds [Taillard 1993]."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache

import numpy as np

from problems.common.sets import DATA
from problems.formats.job_shop import JsspInstance, shop_of_lists

SIZES = [(15, 15), (20, 15), (20, 20), (30, 15), (30, 20), (50, 15), (50, 20), (100, 20)]  # jobs, machines; 10 of each


@cache
def taillard_instances() -> list[JsspInstance]:
    """ta01..ta80 in this order, which is also that of their sizes."""
    with open(DATA / "taillard_seeds.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    made = [(name, *taillard_instance(*map(int, numbers))) for name, *numbers in rows]
    return [shop_of_lists(*each, machine_release=[0] * each[1].shape[1])._replace(first=1) for each in made]


def taillard_instance(jobs: int, machines: int, time_seed: int, machine_seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times [J, M] in 1..99 and the machines [J, M] of each job's operations, from 0; both int64.

    The seeds must be 1..2^31 - 2.
    """
    draws = _uniform(time_seed)
    times = [[_between(1, 99, next(draws)) for _ in range(machines)] for _ in range(jobs)]
    draws = _uniform(machine_seed)
    orders = []
    for _ in range(jobs):
        order = list(range(machines))
        for place in range(machines):
            other = _between(place, machines - 1, next(draws))
            order[place], order[other] = order[other], order[place]
        orders.append(order)
    return np.array(times, dtype=np.int64), np.array(orders, dtype=np.int64)


def _uniform(seed: int) -> Iterator[float]:
    """Taillard's linear congruential generator of numbers between 0 and 1."""
    modulus = 2**31 - 1
    while True:
        seed = 16807 * seed % modulus
        yield seed / modulus


def _between(low: int, high: int, draw: float) -> int:
    """A whole number in low..high; float64 as in Taillard's program."""
    return low + int(draw * (high - low + 1))
