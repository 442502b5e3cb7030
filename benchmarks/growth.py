"""How time and memory of sampling grow with the size of a JSSP: like J * M * (J + M) at most, not (J * M)^2.

Each size runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import time
from typing import NamedTuple

import torch

import models.blocks
from gumbeldore import methods
from gumbeldore.memory import keep_freed_memory
from gumbeldore.precision import autocast, resolve_precision
from gumbeldore.search import search
from gumbeldore.terminal import hardware
from models.job_shop import JobShop
from problems.jssp import JSSP

DEFAULTS = {"sizes": "10x10,15x15,20x20,30x20", "instances": 4, "beam": 8, "rounds": 1, "repeats": 3, "threads": 1}

ROWS = 512


class Measured(NamedTuple):
    per_step: float  # seconds, the median
    peak: int  # bytes that one forward pass of ROWS first states takes, all at once


def measure(jobs: int, machines: int, instances: int, beam: int, rounds: int, repeats: int, threads: int) -> Measured:
    """Sampling with the network of the paper, untrained."""
    keep_freed_memory()
    models.blocks.ATTENTION_BUDGET = 2**60  # no parts
    torch.set_num_threads(threads)
    device = torch.device("cpu")
    problem = JSSP([[jobs, machines]], [jobs, machines])
    torch.manual_seed(0)
    policy = JobShop(64, blocks=3, heads=8, feedforward=256, lookahead=False, order_loss=0)
    small = problem.generate(1, torch.Generator().manual_seed(0))
    batch = problem.generate(instances, torch.Generator().manual_seed(1))
    seconds = []
    with autocast(device, resolve_precision("auto", device)), torch.no_grad():
        policy(small, problem.reset(small))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        many = problem.generate(ROWS, torch.Generator().manual_seed(2))
        policy(many, problem.reset(many))
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        for _ in range(repeats):
            start = time.perf_counter()
            search(problem, policy, batch, methods.gumbeldore(beam, rounds, step_size=0.05), torch.Generator())
            seconds.append((time.perf_counter() - start) / (rounds * jobs * machines))
    return Measured(statistics.median(seconds), peak)


def main(sizes, instances, beam, rounds, repeats, threads) -> None:
    print(f"{instances} instances, {beam} x {rounds}, width 64, 7 layers; {hardware(torch.device('cpu'))}, {threads=}")
    print("each column after the size: the figure, and its ratio to the first size's")
    print(f"{'size':>8} {'ms per step':>18} {f'MiB, {ROWS} rows':>16} {'J*M':>14} {'J*M*(J+M)':>16} {'(J*M)^2':>18}")
    first = None
    for size in sizes.split(","):
        jobs, machines = map(int, size.split("x"))
        with multiprocessing.get_context("spawn").Pool(1) as process:
            found = process.apply(measure, (jobs, machines, instances, beam, rounds, repeats, threads))
        ops = jobs * machines
        figures = [1e3 * found.per_step, found.peak / 2**20, ops, ops * (jobs + machines), ops**2]
        first = first or figures
        print(f"{size:>8}" + "".join(f" {x:10.1f} {x / y:6.2f}" for x, y in zip(figures, first, strict=True)))
