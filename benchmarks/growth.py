"""How sampling grows with the size of the instances: like the operations of the network, nothing on top.

Each size runs in a process of its own, so that its peak memory is its own. A problem's sizes are compared
with its first.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
from typing import NamedTuple

import torch

import models.micro_batches
from benchmarks.machine import flop_counter, sized, untrained
from benchmarks.sampling import Case, measure
from gumbeldore.reporting.console import hardware
from gumbeldore.runtime.memory import keep_freed_memory, peak_memory
from gumbeldore.runtime.precision import InPrecision, resolve_precision
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search

DEFAULTS = {"cases": "tsp50,tsp100,tsp200,jssp10x10,jssp20x20,jssp30x30", "instances": 2, "beam": 8, "rounds": 2} | {
    "repeats": 3,
    "threads": 1,
}

ROWS = 256
CPU = torch.device("cpu")


class Grown(NamedTuple):
    """What one size takes."""

    decisions: int
    operations: float  # of the network, in a whole search
    forward: float  # seconds in the network, the median
    outside: float  # seconds in everything else, the median
    memory: int  # bytes that one forward pass of ROWS first states takes, all at once


def grown(name: str, instances: int, beam: int, rounds: int, repeats: int, threads: int) -> Grown:
    """Sampling with the network of the paper, untrained."""
    keep_freed_memory()
    models.micro_batches.max_rows = lambda *_: math.inf  # no micro-batches
    torch.set_num_threads(threads)
    problem, step_size = sized(name)
    case = Case(name, problem, untrained(problem.name), step_size)
    precision = resolve_precision("auto", CPU)
    policy = InPrecision(case.policy, CPU, precision)
    batch = problem.generate(instances, torch.Generator().manual_seed(1))
    config = methods.gumbeldore(beam, rounds, step_size)
    with torch.no_grad():
        policy(batch, problem.reset(batch))
        before = peak_memory()
        many = problem.generate(ROWS, torch.Generator().manual_seed(2))
        policy(many, problem.reset(many))
        memory = peak_memory() - before
    with flop_counter() as counter:
        search(problem, policy, batch, config, keys=torch.arange(instances))
    runs = [measure(case, batch, config, precision) for _ in range(repeats)]
    return Grown(
        problem.horizon(batch),
        counter.get_total_flops(),
        statistics.median(run.parts["forward"] for run in runs),
        statistics.median(run.seconds - run.parts["forward"] for run in runs),
        memory,
    )


def main(cases, instances, beam, rounds, repeats, threads) -> None:
    print(f"{instances} instances, {beam} x {rounds}, networks of the paper; {hardware(CPU)}, {threads=}")
    print("each figure with its ratio to the problem's first size; memory: of a forward pass of 256 rows")
    header = ("GFLOP", "s in the forward", "s outside", "decisions", "memory, MiB")
    print(f"{'':10}" + "".join(f"{title:>24}" for title in header))
    first: dict[str, list[float]] = {}
    for name in cases.split(","):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            found = process.apply(grown, (name, instances, beam, rounds, repeats, threads))
        figures = [found.operations / 1e9, found.forward, found.outside, found.decisions, found.memory / 2**20]
        base = first.setdefault(name.rstrip("0123456789x"), figures)
        print(
            f"{name:10}" + "".join(f"{x:15.1f} ({x / y:5.2f})" for x, y in zip(figures, base, strict=True)), flush=True
        )
