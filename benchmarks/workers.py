"""Workers against threads, and rows searched together: solutions per second of a trained policy, interleaved.

`workers=auto` and the default of `search_batch_rows` follow earlier measurements (docs/decisions.md); a machine with
larger or smaller caches may want another `search_batch_rows`.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack

import torch

from benchmarks.machine import check_counts, numbers
from gumbeldore.evaluation.loading import load_policy
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.parallel.ray_cluster import available_cores
from gumbeldore.reporting.console import hardware
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import resolve_precision
from gumbeldore.sampler import methods

DEFAULTS = {"checkpoint": "pretrained/tsp20", "instances": 256, "repeats": 5, "beam": 16, "rounds": 4} | {
    "search_batch_rows": "256,512,1024,2048"
}


def main(checkpoint, instances, repeats, beam, rounds, search_batch_rows) -> None:
    check_counts(instances=instances, repeats=repeats, beam=beam, rounds=rounds)
    rows_together = numbers("search_batch_rows", search_batch_rows, int)
    keep_freed_memory()
    cores, cpu = available_cores(), torch.device("cpu")
    known = load_policy(checkpoint)
    precision = resolve_precision("auto", cpu)
    batch = known.problem.generate(instances, torch.Generator().manual_seed(0))
    config = methods.gumbeldore(beam, rounds, known.config["search"]["step_size"])
    layouts = dict.fromkeys([(0, 1), (0, cores), (cores, 1), (1, cores)])
    with ExitStack() as stack:
        pools = {
            (workers, threads): stack.enter_context(
                SearchPool(known.problem, known.policy, workers, 1, "cpu", precision, threads)
            )
            for workers, threads in layouts
        }
        rates = {(layout, rows): [] for layout in layouts for rows in rows_together}
        for repeat in range(repeats + 1):
            for (layout, rows), found in rates.items():
                pools[layout].search_batch_rows = rows
                start = time.perf_counter()
                count = sum(
                    int(part.valid.sum()) for _, part in pools[layout].map(batch, torch.arange(instances), config)
                )
                if repeat:  # the first warms up
                    found.append(count / (time.perf_counter() - start))
    print(f"{checkpoint}, {instances} instances, {beam} x {rounds}; {hardware(cpu)}, {precision}; medians of {repeats}")
    for ((workers, threads), rows), found in rates.items():
        rate = statistics.median(found)
        print(f"workers={workers} worker_threads={threads} search_batch_rows={rows}: {rate:,.0f} solutions/s")
