"""Sizes of the parts in which large batches go through a network (models/parts.py): the time of each, measured anew.

Networks of the paper, untrained, after a third of the decisions. What searches have measured and kept is left alone.
"""

from __future__ import annotations

import time

import torch

from benchmarks.machine import CPU, sized, untrained
from gumbeldore.memory import keep_freed_memory
from gumbeldore.precision import autocast, resolve_precision
from gumbeldore.terminal import hardware
from models import parts

DEFAULTS = {"cases": "tsp20,tsp100,cvrp20,cvrp50,jssp6x6,jssp10x10", "rows": 256, "precision": "auto"} | {
    "threads": torch.get_num_threads()
}


def main(cases, rows, precision, threads) -> None:
    keep_freed_memory()
    torch.set_num_threads(threads)
    precision = resolve_precision(precision, CPU)
    print(f"{hardware(CPU)}, {threads} threads, {precision}; times against parts of {parts.USUAL:,} numbers")
    print(f"{'':12}" + "".join(f"{size:>11,}" for size in parts.SIZES) + f"{'to use':>12}{'measured in':>13}")
    for name in cases.split(","):
        problem, _ = sized(name)
        network = untrained(problem.name)
        generator = torch.Generator().manual_seed(0)
        instances = problem.generate(rows, generator)
        state = problem.reset(instances)
        for _ in range(problem.horizon(instances) // 3):
            legal = problem.mask(instances, state)
            state = problem.step(instances, state, (legal * torch.rand(legal.shape, generator=generator)).argmax(dim=1))
        with torch.no_grad(), autocast(CPU, precision):
            start = time.perf_counter()
            times = parts.measured(network, network.encode(instances), state)
            took = time.perf_counter() - start
        figures = "".join(f"{times[size]:11.3f}" for size in parts.SIZES)
        print(f"{name:12}{figures}{parts.fastest(times):12,}{took:11.1f} s", flush=True)
