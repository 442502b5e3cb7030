"""Threads against workers: solutions per second of the CPU preset's sampling, interleaved."""

from __future__ import annotations

import statistics
import time

import torch

from gumbeldore import methods
from gumbeldore.cluster import available_cores
from gumbeldore.memory import keep_freed_memory
from gumbeldore.precision import resolve_precision
from gumbeldore.workers import SearchPool
from models.bq import BQ
from problems.tsp import TSP

DEFAULTS = {"nodes": 20, "instances": 128, "repeats": 5, "beam": 16, "rounds": 2, "chunk_rows": 1024}


def main(nodes, instances, repeats, beam, rounds, chunk_rows) -> None:
    keep_freed_memory()
    cores = available_cores()
    problem, policy = TSP(nodes), BQ(width=64, layers=4, heads=4, feedforward=256, own_frame=True, successor_loss=0)
    precision = resolve_precision("auto", torch.device("cpu"))
    batch, keys = problem.generate(instances, torch.Generator().manual_seed(0)), torch.arange(instances)
    config = methods.gumbeldore(beam, rounds, step_size=0.3)
    layouts = {(0, 1): [], (0, cores): [], (cores, 1): [], (1, cores): []}
    pools = {
        layout: SearchPool(problem, policy, layout[0], chunk_rows, "cpu", precision, layout[1]) for layout in layouts
    }
    for repeat in range(repeats + 1):
        for layout, rates in layouts.items():
            pools[layout].load(policy.state_dict())
            start = time.perf_counter()
            count = sum(int(solutions.valid.sum()) for _, solutions in pools[layout].map(batch, keys, config))
            if repeat:
                rates.append(count / (time.perf_counter() - start))
    for pool in pools.values():
        pool.close()
    for (workers, threads), rates in layouts.items():
        print(f"workers={workers} worker_threads={threads}: median {statistics.median(rates):,.0f} solutions/s")
