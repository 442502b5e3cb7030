"""Searches by workers."""

from __future__ import annotations

import torch

from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler import methods
from models.bq_tsp import BQ
from problems.tsp import TSP

SEARCH = methods.Gumbeldore(4, 2, 0.3)
COUNT = 40


def network():
    torch.manual_seed(0)
    return BQ(width=16, layers=1, heads=2, feedforward=32, canonical_coordinates=False, successor_loss=0)


def found_by(problem, workers, policy=None, search_batch_rows=12):
    """The solutions of every instance, however the chunks came back; each exactly once."""
    with SearchPool(problem, policy or network(), workers, search_batch_rows) as pool:
        return of_all(pool)


def of_all(pool):
    instances = TSP(7).generate(COUNT, torch.Generator().manual_seed(0))
    chunks = dict((chunk.start, (chunk, found)) for chunk, found in pool.map(instances, torch.arange(COUNT), SEARCH))
    covered = [row for start in sorted(chunks) for row in range(chunks[start][0].start, chunks[start][0].stop)]
    assert covered == list(range(COUNT))
    return [torch.cat([getattr(chunks[start][1], field) for start in sorted(chunks)]) for field in ("actions", "costs")]
