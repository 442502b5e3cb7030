"""Peak memory of a search beyond what the process had before it, and what its trie was allocated."""

from __future__ import annotations

import math
import resource

import torch

import models.micro_batches
from gumbeldore.sampler import methods
from gumbeldore.sampler.rounds import search, trie_memory
from models.bq_tsp import BQ
from problems.tsp import TSP

DEFAULTS = {"nodes": 100, "instances": 16, "width": 128, "layers": 1, "heads": 8, "beam": 32, "rounds": 4}


def main(nodes, instances, width, layers, heads, beam, rounds) -> None:
    models.micro_batches.max_rows = lambda *_: math.inf  # no micro-batches
    problem = TSP(nodes)
    policy = BQ(width, layers, heads, 4 * width, canonical_coordinates=False, successor_loss=0)
    batch = problem.generate(instances, torch.Generator().manual_seed(0))
    search(problem, policy, batch, methods.gumbeldore(2, 2, step_size=0.3), torch.Generator())
    # What the network's activations take at once, measured by one forward of all rows, is not the search's doing.
    with torch.no_grad():
        rows = problem.generate(instances * beam, torch.Generator())
        policy(rows, problem.reset(rows))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    config = methods.gumbeldore(beam, rounds, step_size=0.3)
    search(problem, policy, batch, config, torch.Generator().manual_seed(0))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = instances * trie_memory(problem, policy, batch, config)
    print(f"TSP-{nodes}, {instances} instances, {beam} x {rounds}: trie {size / 2**30:.2f} GiB")
    print(f"peak beyond one forward pass: {(after - before) / 2**20:.2f} GiB (the peak before: {before / 2**20:.2f})")
