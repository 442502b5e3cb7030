"""A job shop for the local search, and its schedules: plain arrays, without the batches of the problem."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
import torch

from problems.jssp.instances import Instance
from problems.jssp.local_search.graph import OPERATION, update_all
from problems.jssp.local_search.tabu_search import STATE, tabu_search

PATIENCE = 40  # a tabu search ends after so many steps for each operation without gain (docs/decisions.md)
MOST_SLOTS = 2**22  # of the tabu list
SLICE = 2_000_000  # operations that are updated between two looks at the clock: some 10 ms


class JobShop(NamedTuple):
    """One job shop of n operations, those of a job one after the other."""

    job: np.ndarray  # [n] int64, ascending
    machine: np.ndarray  # [n] int64; -1: it takes none
    time: np.ndarray  # [n] float64
    wait: np.ndarray  # [n] float64, from its end to the start of the job's next operation
    release: np.ndarray  # [n] float64, of its machine; of the first operation of a job, of the job, too
    bound: float  # no schedule has a shorter makespan

    @classmethod
    def of(cls, instance: Instance) -> JobShop:
        """The job shop of one instance on the CPU."""
        number, ops = instance.operations[0], instance.times.shape[2]
        time, machine, wait = (
            field[0].flatten()[number] for field in (instance.times, instance.machines, instance.waits)
        )
        job, takes = number // ops, time > 0
        is_first = torch.cat([torch.ones(1, dtype=torch.bool), job[1:] != job[:-1]])
        released = torch.maximum(instance.release[0, job] * is_first, instance.machine_release[0, machine] * takes)
        times = (field.double().numpy() for field in (time, wait, released))
        return cls(job.numpy(), machine.where(takes, -1).numpy(), *times, instance.lower_bound().item())


class Schedule(NamedTuple):
    """A schedule in which all operations start as early as the sequences of the machines allow."""

    makespan: float
    order: np.ndarray  # [n] int32, the operations in the order of their starts; those before others come first
    starts: np.ndarray  # [n] float64 of each operation


class Effort:
    """What searches may take together: steps, or time."""

    def __init__(self, steps: float, deadline: float):
        self.steps, self.deadline = steps, deadline

    @property
    def is_over(self) -> bool:
        return self.steps <= 0 or time.monotonic() >= self.deadline


class TabuSearch:
    """Tabu searches in one job shop."""

    def __init__(self, shop: JobShop, random: np.random.Generator):
        n, jobs = len(shop.job), int(shop.job[-1]) + 1
        machines = len(np.unique(shop.machine[shop.machine >= 0]))
        self.shop, self.operations, self.order = shop, np.zeros(n + 1, OPERATION), np.empty(n, np.int32)
        own = self.operations[:-1]
        own["job"], own["time"], own["lag"], own["release"] = shop.job, shop.time, shop.time + shop.wait, shop.release
        self.operations["job"][-1] = jobs
        for name in ("job_before", "job_after", "before", "after"):
            self.operations[name] = n
        same = shop.job[1:] == shop.job[:-1]
        own["job_after"][:-1] = np.where(same, np.arange(1, n), n)
        own["job_before"][1:] = np.where(same, np.arange(n - 1), n)
        self.last = np.flatnonzero(np.append(~same, True)).astype(np.int32)
        self.tabu = np.zeros(2 ** math.ceil(math.log2(min(n * jobs, MOST_SLOTS))), np.int64)
        self.best = np.empty((n, 2), np.int32)
        least = 10 + jobs / max(machines, 1)  # of the job shop, jobs / machines is the ratio in [Zhang et al. 2008]
        self.tenure = np.array([least, least * (1.4 if jobs <= 2 * machines else 1.5)]).astype(np.int64)
        self.state = np.zeros(1, STATE)
        self.state["random"] = random.integers(1, 2**63)

    def __call__(self, starts: np.ndarray, effort: Effort) -> Schedule:
        """The best schedule of a search that begins where each machine takes its operations in the order of `starts`.

        Arguments:
            starts: [n] numbers, of a schedule or of an order that keeps the order within jobs
        """
        self.set(starts)
        self.tabu[:] = 0
        self.state["step"], self.state["found"], self.state["best"] = 0, 0, math.inf
        count, has_ended = len(self.order), False
        graph, search = (self.operations, self.order, self.last), (self.state, self.tabu, self.best)
        while not has_ended:
            step = self.state["step"][0]
            most = 1 if effort.is_over else int(min(max(1, SLICE // count), effort.steps))
            has_ended = tabu_search(*graph, *search, most, PATIENCE * count, self.tenure, self.shop.bound)
            effort.steps -= max(1, self.state["step"][0] - step)  # where there is no move, too
            has_ended = has_ended or effort.is_over
        own, makespan = self.operations[:-1], float(self.state["best"][0])
        own["before"], own["after"] = self.best.T
        update_all(self.operations, self.order)
        return Schedule(makespan, self.order.copy(), own["head"].copy())

    def set(self, starts: np.ndarray) -> None:
        """Let the machines take their operations in the order of these numbers [n]."""
        n, own, machine = len(self.order), self.operations[:-1], self.shop.machine
        own["before"] = own["after"] = n
        sequence = np.lexsort((starts, machine))
        sequence = sequence[machine[sequence] >= 0]
        same = machine[sequence[1:]] == machine[sequence[:-1]]
        own["after"][sequence[:-1]] = np.where(same, sequence[1:], n)
        own["before"][sequence[1:]] = np.where(same, sequence[:-1], n)
        update_all(self.operations, self.order)
