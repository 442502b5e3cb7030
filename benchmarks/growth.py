"""Seconds and memory of a greedy solution by the size of the instance: with a local view, and with all nodes in view.

Each solution is made in a process of its own, so that the peak memory is its own. The networks are those for two CPU
cores, with random weights.
"""

from __future__ import annotations

import multiprocessing
import time

import torch

from benchmarks.machine import configuration, numbers
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.reporting.console import hardware
from gumbeldore.runtime.checked import check_counts
from gumbeldore.runtime.memory import keep_freed_memory, peak_memory
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search

DEFAULTS = {"problem": "tsp", "sizes": "100,300,1000,3000,10000", "nearest": 24, "seconds": 300, "threads": 1}

SIZE = {"tsp": "num_nodes", "cvrp": "num_customers"}
WHOLE, LOCAL = {"tsp": "bq_small", "cvrp": "bq_cvrp_small"}, {"tsp": "bq_local_small", "cvrp": "bq_cvrp_local_small"}


def greedy_solution(problem: str, size: int, nearest: int | None, threads: int) -> tuple[float, int]:
    """CPU seconds of a greedy solution, and the most bytes that the process held beyond those it began with.

    Arguments:
        nearest: nodes in view; None: all
    """
    keep_freed_memory()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = (WHOLE if nearest is None else LOCAL)[problem]
    view = "null" if nearest is None else nearest
    config = configuration(
        f"problem={problem}", f"model={model}", f"problem.{SIZE[problem]}={size}", f"problem.nearest={view}"
    )
    built, policy = config.part("problem", Problem), config.part("model", Policy)
    instance = built.generate(1, torch.Generator().manual_seed(1))
    before, start = peak_memory(), time.process_time()
    search(built, policy, instance, methods.Greedy())
    return time.process_time() - start, peak_memory() - before


def main(problem, sizes, nearest, seconds, threads) -> None:
    if problem not in SIZE:
        raise ValueError(f"problem must be one of {', '.join(SIZE)}, got {problem!r}")
    check_counts(nearest=nearest, seconds=seconds, threads=threads)
    print(f"a greedy solution, CPU seconds and MiB; {hardware(torch.device('cpu'))}, {threads=}")
    print(f"{'':>8}" + "".join(f"{view:>24}" for view in (f"{nearest} in view", "all in view")))
    last = {nearest: (1, 0.0), None: (1, 0.0)}  # size and seconds
    for size in sorted(numbers("sizes", sizes, int)):
        line = f"{size:8}"
        for view, (before, took) in last.items():
            if took * (size / before) ** (1 if view else 2) > seconds:  # at least: decisions, times tokens of each
                line += f"{'-':>24}"
                continue
            with multiprocessing.get_context("spawn").Pool(1) as process:
                found, memory = process.apply(greedy_solution, (problem, size, view, threads))
            last[view] = size, found
            line += f"{found:15.1f} {memory / 2**20:8.0f}"
        print(line, flush=True)
