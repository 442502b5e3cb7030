"""Solutions per second of every problem and size, where the time goes, and the share of the machine's matrix peak.

Untrained networks are the worst case: their samples share few states. `sharpness=1,100,1000` multiplies their logits:
100 is like a confident policy, 1000 like a very confident one, so that nobody needs a training to compare figures.
`models=bq,lehd` measures these options of train.py's `model=` instead of the paper's network, each on the cases of its
problem.
`checkpoints=run,run` adds trained ones, on the same sizes of their problem; `untrained=0` leaves the untrained ones
out. The cases take turns, every time with other instances, since kernels compiled for the numbers of rows of one search
are of little use to the next; each time is a median of `repeats` turns, or of fewer where these would take longer than
`seconds`; counts are totals of the turns. On a GPU (`device=cuda`) the clocks wait for it at both ends of every part:
their shares are right, the whole takes longer than without them. `out` is written as JSON.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks import machine
from benchmarks.machine import flop_counter, matrix_peak, numbers, precisions, seconds_at, turns, write
from gumbeldore.batches import to
from gumbeldore.evaluation.loading import load_policy
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.devices import resolve_device
from gumbeldore.runtime.checked import check_counts
from gumbeldore.runtime.hardware import hardware
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import InPrecision, resolve_precision
from gumbeldore.sampler import beam as beam_search
from gumbeldore.sampler import trie
from gumbeldore.sampler.methods import Gumbeldore, WithoutReplacement
from gumbeldore.sampler.search import search, unsearched
from gumbeldore.sampler.solutions import SearchStats

DEFAULTS = {
    "cases": "tsp20,cvrp20,jssp6x6",
    "models": "",
    "checkpoints": "",
    "untrained": 1,
    "sharpness": "1",
    "rows": 64,
    "beam": 32,
    "rounds": 4,
    "threads": torch.get_num_threads(),
    "repeats": 3,
    "seconds": 120.0,
    "device": "cpu",
    "precision": "auto",
    "out": "",
}
COLUMNS = {  # title, and the figure with its width and format
    "solutions/s": ("solutions_per_second", 12, ",.1f"),
    "forward": ("forward", 8, ".1%"),
    "beam": ("beam", 6, ".1%"),
    "trie": ("trie", 6, ".1%"),
    "states": ("states", 7, ".1%"),
    "GFLOPS": ("gflops", 7, ".0f"),
    "of peak": ("of_peak", 8, ".0%"),
    "evals/sol.": ("evaluations_per_solution", 11, ".2f"),
    "evaluated": ("evaluated", 10, ".1%"),
    "prefixes": ("prefixes", 9, ".1%"),
    "transpositions": ("transpositions", 15, ".1%"),
    "forced": ("forced", 7, ".1%"),
}
TRIE = ("read_children", "read_policy", "write_policy", "write_nodes")


class Sharpened(Policy):
    """A policy with its logits multiplied: the larger the factor, the more confident."""

    def __init__(self, policy: Policy, factor: float):
        super().__init__()
        self.policy, self.factor = policy, factor
        self.problem = policy.problem

    def encode(self, instance: Any) -> Any:
        return self.policy.encode(instance)

    def forward(self, context: Any, state: Any) -> Tensor:
        return self.factor * self.policy(context, state)

    def canonical_state(self, instance: Any, state: Any) -> Any:
        return self.policy.canonical_state(instance, state)


class Case(NamedTuple):
    name: str
    problem: Problem
    policy: Policy
    step_size: float


class Prepared(NamedTuple):
    """A case with the instances of each turn."""

    case: Case
    batches: list[Any]
    method: WithoutReplacement
    operations: float  # of the network, per evaluation


class Clock:
    """Seconds spent in named parts, without those of parts within them."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}
        self._within: list[float] = []

    def timed(self, part: str, function: Callable) -> Callable:
        def call(*arguments: Any, **options: Any) -> Any:
            start = seconds_at(self.device)
            self._within.append(0.0)
            result = function(*arguments, **options)
            took = seconds_at(self.device) - start
            self.seconds[part] = self.seconds.get(part, 0.0) + took - self._within.pop()
            if self._within:
                self._within[-1] += took
            return result

        return call


class Measured(NamedTuple):
    solutions: int
    seconds: float
    parts: dict[str, float]  # seconds in the network's forward, in the trie, in the problem's states; the rest: beam
    stats: SearchStats


def measure(case: Case, instances: Any, method: WithoutReplacement, precision: str) -> Measured:
    """One search, with clocks around the parts."""
    device = instances[0].device
    clock = Clock(device)
    problem, policy = case.problem, InPrecision(case.policy, device, precision)
    for name in ("reset", "step", "mask", "cost"):
        setattr(problem, name, clock.timed("states", getattr(type(problem), name).__get__(problem)))
    policy.encode, policy.forward = (clock.timed("forward", part) for part in (policy.encode, policy.forward))
    originals = {(trie, name): getattr(trie, name) for name in TRIE}
    originals[beam_search, "first_in_same_state"] = beam_search.first_in_same_state
    for (module, name), function in originals.items():
        setattr(module, name, clock.timed("trie", function))
    method = replace(method)
    object.__setattr__(method, "update", clock.timed("trie", method.update))
    try:
        start = seconds_at(device)
        found = search(problem, policy, instances, method, keys=torch.arange(len(instances[0])))
        seconds = seconds_at(device) - start
    finally:
        for (module, name), function in originals.items():
            setattr(module, name, function)
        for name in ("reset", "step", "mask", "cost"):
            delattr(problem, name)
    return Measured(int(found.valid.sum()), seconds, clock.seconds, found.stats)


def operations(case: Case, instances: Any, method: WithoutReplacement, precision: str) -> float:
    """Operations of the network per evaluation, counted in a search."""
    policy = InPrecision(case.policy, instances[0].device, precision)
    with flop_counter() as counter:
        found = search(case.problem, policy, instances, method, keys=torch.arange(len(instances[0])))
    return counter.get_total_flops() / found.stats.evaluations


def savings(stats: list[SearchStats], decisions: int) -> dict[str, float]:
    """What became of all decisions (solutions times horizon) of some searches: shares that sum to one.

    evaluated: their states went through the network
    prefixes: their states were shared with another solution of the round, or in the trie since an earlier round
    transpositions: another sequence of decisions had reached their states
    forced: there was one legal action
    """
    counts = {
        "evaluated": sum(each.evaluations for each in stats),
        "transpositions": sum(each.repeated for each in stats),
        "forced": sum(each.forced for each in stats),
    }
    counts["prefixes"] = decisions - sum(counts.values())
    return {name: count / decisions for name, count in counts.items()}


def summary(prepared: Prepared, runs: list[Measured], peak: float) -> dict[str, float]:
    """The figures of a case."""

    def median(figure: Callable[[Measured], float]) -> float:
        return statistics.median(figure(run) for run in runs)

    shares = {part: median(lambda run: run.parts[part] / run.seconds) for part in ("forward", "trie", "states")}  # noqa: B023
    gflops = median(lambda run: prepared.operations * run.stats.evaluations / run.parts["forward"] / 1e9)
    solutions = sum(run.solutions for run in runs)
    horizon = prepared.case.problem.horizon(prepared.batches[0])
    return {
        "solutions_per_second": median(lambda run: run.solutions / run.seconds),
        **shares,
        "beam": 1 - sum(shares.values()),
        "gflops": gflops,
        "of_peak": gflops / peak,
        "bytes_per_instance": prepared.method.trie_memory(
            unsearched(prepared.case.problem, prepared.case.policy, prepared.batches[0])
        ),
        "evaluations_per_solution": sum(run.stats.evaluations for run in runs) / solutions,
        **savings([run.stats for run in runs], solutions * horizon),
    }


def cases_of(names: str, models: str, checkpoints: str, untrained: bool, sharpness: str) -> list[Case]:
    """Every size with untrained networks of each sharpness, and with each policy trained for its problem."""
    factors = numbers("sharpness", sharpness, float) if untrained else []
    found = []
    for name in filter(None, names.split(",")):
        problem, step_size = machine.problem_and_step_size(name)
        for model, factor in itertools.product(models.split(","), factors):
            about = " ".join(filter(None, (name, model, "untrained" if factor == 1 else f"x{factor:g}")))
            policy = machine.untrained(problem.name, model)
            if policy.problem == problem.name:
                found.append(Case(about, problem, Sharpened(policy, factor), step_size))
        for path in filter(None, checkpoints.split(",")):
            known = load_policy(path)
            if known.problem.name == problem.name:
                found.append(Case(f"{name} {path}", problem, known.policy, step_size))
    return found


def prepare(
    case: Case, width: int, repeats: int, method: WithoutReplacement, device: torch.device, precision: str
) -> Prepared:
    """The case on the device, with `width` instances for each of `repeats` turns; it has been searched once."""
    generator = torch.Generator().manual_seed(0)
    *batches, other = (to(case.problem.generate(width, generator), device) for _ in range(repeats + 1))
    case.policy.to(device)
    return Prepared(case, batches, method, operations(case, other, method, precision))


def print_table(table: dict[str, dict[str, float]]) -> None:
    names = max(map(len, table))
    print(" " * names + "".join(f"{title:>{width}}" for title, (_, width, _) in COLUMNS.items()))
    for name, row in table.items():
        print(f"{name:{names}}" + "".join(f"{row[key]:{width}{form}}" for key, width, form in COLUMNS.values()))


def main(
    cases,
    models,
    checkpoints,
    untrained,
    sharpness,
    rows,
    beam,
    rounds,
    threads,
    repeats,
    seconds,
    device,
    precision,
    out,
) -> None:
    check_counts(rows=rows, beam=beam, rounds=rounds, threads=threads, repeats=repeats)
    keep_freed_memory()
    torch.set_num_threads(threads)
    device = resolve_device(device)
    precision = resolve_precision(precision, device)
    found = cases_of(cases, models, checkpoints, untrained, sharpness)
    if not found:
        raise ValueError("nothing to measure: no network of models= or checkpoints= is for a problem of cases=")
    print(f"{hardware(device)}, {threads} threads, {precision}, one process, {beam} x {rounds}", flush=True)
    width = max(1, rows // beam)  # instances together
    searches = [
        prepare(case, width, repeats, Gumbeldore(beam, rounds, case.step_size), device, precision) for case in found
    ]
    peaks: dict[str, list[float]] = {kind: [] for kind in precisions(precision, device)}
    runs: list[list[Measured]] = [[] for _ in searches]
    for turn in turns(repeats, seconds):
        for prepared, results in zip(searches, runs, strict=True):
            for kind, measured in peaks.items():
                measured.append(matrix_peak(kind, device))
            results.append(measure(prepared.case, prepared.batches[turn], prepared.method, precision))
    for kind, measured in peaks.items():
        between = f"median {statistics.median(measured):.0f}, {min(measured):.0f} to {max(measured):.0f}"
        print(f"matrix peak, {kind}: {between} GFLOPS")
    print(f"{rows} beam rows together; medians of {turn + 1}, interleaved")
    peak = statistics.median(peaks[precision])
    table = {x.case.name: summary(x, each, peak) for x, each in zip(searches, runs, strict=True)}
    print_table(table)
    if out:
        write(Path(out), {"peak_gflops": peak, "threads": threads, "sampling": table})
