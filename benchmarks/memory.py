"""Peak memory of a search beyond what the process had before it, and what its trie was allocated.

On a GPU (`device=cuda`) it is the memory of the GPU's tensors.
"""

from __future__ import annotations

import math

import torch

import models.micro_batches
from gumbeldore.batches import to
from gumbeldore.parallel.devices import resolve_device
from gumbeldore.runtime.memory import peak_memory
from gumbeldore.sampler import methods
from gumbeldore.sampler.rounds import trie_memory
from gumbeldore.sampler.search import search
from models.bq_tsp import BQ
from problems.tsp import TSP

DEFAULTS = {"nodes": 100, "instances": 16, "width": 128, "layers": 1, "heads": 8, "beam": 32, "rounds": 4} | {
    "device": "cpu"
}


def peak(device: torch.device) -> float:
    """The most memory so far, in GiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return peak_memory() / 2**30


def main(nodes, instances, width, layers, heads, beam, rounds, device) -> None:
    device = resolve_device(device)
    models.micro_batches.max_rows = lambda *_: math.inf  # no micro-batches
    problem = TSP(nodes)
    policy = BQ(width, layers, heads, 4 * width, canonical_coordinates=False, successor_loss=0).to(device)
    batch = to(problem.generate(instances, torch.Generator().manual_seed(0)), device)
    search(problem, policy, batch, methods.gumbeldore(2, 2, step_size=0.3), torch.Generator())
    # What the network's activations take at once, measured by one forward of all rows, is not the search's doing.
    with torch.no_grad():
        rows = to(problem.generate(instances * beam, torch.Generator()), device)
        policy(rows, problem.reset(rows))
    before = peak(device)
    config = methods.gumbeldore(beam, rounds, step_size=0.3)
    search(problem, policy, batch, config, torch.Generator().manual_seed(0))
    after = peak(device)
    size = instances * trie_memory(problem, policy, batch, config)
    print(f"TSP-{nodes}, {instances} instances, {beam} x {rounds}: trie {size / 2**30:.2f} GiB")
    print(f"peak beyond one forward pass: {after - before:.2f} GiB (the peak before: {before:.2f})")
