"""Where the time of sampling goes: solutions per second and the share outside the network's forward passes.

An untrained network is the worst case: its samples share no prefixes, so every state is evaluated.
"""

from __future__ import annotations

import statistics
import time

import torch

from gumbeldore import methods
from gumbeldore.memory import keep_freed_memory
from gumbeldore.precision import autocast, resolve_precision
from gumbeldore.search import search
from gumbeldore.terminal import hardware
from models.bq import BQ
from problems.tsp import TSP

DEFAULTS = {"nodes": 100, "instances": 16, "width": 128, "layers": 9, "heads": 8, "beam": 32, "rounds": 4} | {
    "threads": torch.get_num_threads(),
    "repeats": 3,
    "precision": "auto",
}


class Timed(torch.nn.Module):
    """A policy that adds up the seconds of its forward passes."""

    def __init__(self, policy: torch.nn.Module):
        super().__init__()
        self.policy, self.seconds = policy, 0.0

    def encode(self, instance):
        return self.policy.encode(instance)

    def forward(self, context, state):
        start = time.perf_counter()
        logits = self.policy(context, state)
        self.seconds += time.perf_counter() - start
        return logits


def main(nodes, instances, width, layers, heads, beam, rounds, threads, repeats, precision) -> None:
    keep_freed_memory()
    torch.set_num_threads(threads)
    device = torch.device("cpu")
    precision = resolve_precision(precision, device)
    problem = TSP(nodes)
    torch.manual_seed(0)
    policy = Timed(BQ(width, layers, heads, 4 * width, own_frame=False, successor_loss=0))
    batch = problem.generate(instances, torch.Generator().manual_seed(0))
    print(f"TSP-{nodes}, {instances} instances, {beam} x {rounds}, width {width}, {layers} layers")
    print(f"{hardware(device)}, {threads} threads, {precision}; one line per repeat after a warm-up with a small beam")
    rates, shares = [], []
    for repeat in range(repeats + 1):
        config = methods.gumbeldore(beam if repeat else 2, rounds if repeat else 1, step_size=0.3)
        policy.seconds, start = 0.0, time.perf_counter()
        with autocast(device, precision):
            found = search(problem, policy, batch, config, torch.Generator().manual_seed(repeat))
        seconds = time.perf_counter() - start
        if repeat:
            rates.append(int(found.valid.sum()) / seconds)
            shares.append(1 - policy.seconds / seconds)
            print(f"{rates[-1]:8.1f} solutions/s   {shares[-1]:6.2%} outside the forward   {found.stats}")
    print(f"median: {statistics.median(rates):.1f} solutions/s, {statistics.median(shares):.2%} outside the forward")
