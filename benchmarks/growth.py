"""Seconds and memory of a greedy solution by the size of the instance: with a local view, and with all in view.

Each solution is made in a process of its own, so that the peak memory is its own. The networks are those for two CPU
cores, with random weights.
"""

from __future__ import annotations

import multiprocessing
import time

import torch

from benchmarks.machine import numbers
from gumbeldore.cli.configuration import Configuration
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.runtime.checked import check_counts
from gumbeldore.runtime.hardware import hardware
from gumbeldore.runtime.memory import keep_freed_memory, peak_memory
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search

DEFAULTS = {
    "problem": "tsp",
    "sizes": "100,300,1000,3000,10000",  # nodes, customers, jobs
    "nearest": 24,  # nodes in view
    "window": 5,  # operations of each job in view, and
    "jobs_in_view": 30,
    "seconds": 300,
    "threads": 1,
}
MACHINES = 20  # of job shops

SIZE = {"tsp": "problem.num_nodes={}", "cvrp": "problem.num_customers={}", "jssp": f"problem.sizes=[[{{}},{MACHINES}]]"}
WHOLE = {"tsp": ["model=bq_small"], "cvrp": ["model=bq_cvrp_small"], "jssp": []}
LOCAL = {
    "tsp": ["model=bq_local_small", "problem.nearest={nearest}"],
    "cvrp": ["model=bq_cvrp_local_small", "problem.nearest={nearest}"],
    "jssp": ["problem.window={window}", "problem.jobs_in_view={jobs_in_view}"],
}


def greedy_solution(words: list[str], threads: int) -> tuple[float, int]:
    """CPU seconds of a greedy solution, and the most bytes that the process held beyond those it began with.

    Arguments:
        words: of the command line, for problem, size, network and view
    """
    keep_freed_memory()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    config = Configuration.of_training(*words)
    built, policy = config.part("problem", Problem), config.part("model", Policy)
    instance = built.generate(1, torch.Generator().manual_seed(1))
    before, start = peak_memory(), time.process_time()
    search(built, policy, instance, methods.Greedy())
    return time.process_time() - start, peak_memory() - before


def main(problem, sizes, nearest, window, jobs_in_view, seconds, threads) -> None:
    if problem not in SIZE:
        raise ValueError(f"problem must be one of {', '.join(SIZE)}, got {problem!r}")
    view = {"nearest": nearest, "window": window, "jobs_in_view": jobs_in_view}
    check_counts(**view, seconds=seconds, threads=threads)
    local = [word.format(**view) for word in LOCAL[problem]]
    columns = {" ".join(word for word in local if word.startswith("problem.")): local, "all in view": WHOLE[problem]}
    print(f"a greedy solution, CPU seconds and MiB; {hardware(torch.device('cpu'))}, {threads=}")
    print(f"{'':>8}" + "".join(f"{column:>48}" for column in columns))
    last = dict.fromkeys(columns, (1, 0.0))  # size and seconds
    for size in sorted(numbers("sizes", sizes, int)):
        line = f"{size:8}"
        for column, (before, took) in last.items():
            # At least: decisions, times tokens of each if all are in view.
            if took * (size / before) ** (2 if column == "all in view" else 1) > seconds:
                line += f"{'-':>48}"
                continue
            words = [f"problem={problem}", SIZE[problem].format(size), *columns[column]]
            with multiprocessing.get_context("spawn").Pool(1) as process:
                found, memory = process.apply(greedy_solution, (words, threads))
            last[column] = size, found
            line += f"{found:39.1f} {memory / 2**20:8.0f}"
        print(line, flush=True)
