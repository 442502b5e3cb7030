"""Training steps of the presets: examples and tokens (decisions still to come) per second, and seconds per epoch.

The dataset is of random solutions, so the figures are those of the network and the batches alone. Medians of
`repeats` turns of so many batches each, or of fewer turns where these would take longer than `seconds`. On a GPU
(`device=cuda`) the clock waits for it at both ends of a turn, and `GiB` is the most memory that its tensors took.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import torch

from benchmarks.machine import seconds_at, turns, write
from gumbeldore.cli.configuration import Configuration
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.devices import resolve_device
from gumbeldore.runtime.compiling import compile_layers
from gumbeldore.runtime.hardware import hardware
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import dtype_of, resolve_precision
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.training.dataset import PseudoExperts, Shard
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.state import TrainState

DEFAULTS = {"problems": "tsp,cvrp,jssp", "batches": 10, "repeats": 5, "seconds": 120.0} | {
    "threads": torch.get_num_threads(),
    "device": "cpu",
    "precision": "auto",
    "compile": 0,
    "out": "",
}


class UniformPolicy(Policy):
    """Every action is as likely: random solutions."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, context, state):
        return self.mask(context, state).float()


def learner_of(problem: str, batches: int, device: torch.device, precision: str, compiled: bool):
    """The preset's problem, settings and a train_state with random solutions of an epoch's instances."""
    config = Configuration.of_training(f"problem={problem}", f"train.batches_per_epoch={batches}")
    made = config.part("problem", Problem)
    settings = config.algorithm()
    torch.manual_seed(0)
    policy = config.part("model", Policy).to(device)
    if compiled:
        compile_layers(policy)
    train_state = TrainState(policy, policy, optimizer_of(policy, settings, dtype_of(precision)), PseudoExperts())
    instances = made.generate(256, torch.Generator().manual_seed(0))
    found = search(made, UniformPolicy(made.mask), instances, methods.Sampling(1, 1), torch.Generator().manual_seed(1))
    train_state.dataset.add(Shard("random", instances, *found.best()))
    return made, settings, train_state


def decisions_to_come(horizon: int, last_choice: int) -> float:
    """The tokens left to decide on at a step drawn from those with a choice, on average."""
    return horizon - last_choice / 2


def measured(cases: dict, batches: int, repeats: int, seconds: float, execution: Execution) -> tuple[dict, dict]:
    """Seconds for a batch in each turn, and on a GPU the most memory in GiB, of every case."""
    device, on_gpu = execution.device, execution.device.type == "cuda"
    took: dict[str, list[float]] = {name: [] for name in cases}
    memory = dict.fromkeys(cases, 0.0)
    for turn in turns(repeats + 1, seconds):
        for name, (problem, settings, train_state) in cases.items():
            if on_gpu:
                torch.cuda.reset_peak_memory_stats(device)
            start = seconds_at(device)
            fit(problem, train_state, settings, torch.Generator().manual_seed(turn), execution)
            took[name].append((seconds_at(device) - start) / batches)
            if on_gpu:
                memory[name] = max(memory[name], torch.cuda.max_memory_allocated(device) / 2**30)
    if turn:
        took = {name: found[1:] for name, found in took.items()}  # the first warms up
    return took, memory


def main(problems, batches, repeats, seconds, threads, device, precision, compile, out) -> None:
    keep_freed_memory()
    torch.set_num_threads(threads)
    device = resolve_device(device)
    precision = resolve_precision(precision, device)
    on_gpu = device.type == "cuda"
    cases = {name: learner_of(name, batches, device, precision, bool(compile)) for name in problems.split(",")}
    took, memory = measured(cases, batches, repeats, seconds, Execution(device=device, precision=precision))
    layers = ", compiled layers" if compile else ""
    counted = len(next(iter(took.values())))
    print(f"{hardware(device)}, {threads} threads, {precision}{layers}; medians of {counted}, interleaved")
    print(
        f"{'preset':8}{'batch':>7}{'ms/batch':>10}{'examples/s':>12}{'tokens/s':>12}{'s/epoch (training)':>20}"
        + f"{'GiB':>8}" * on_gpu
    )
    table = {}
    for name, (problem, settings, train_state) in cases.items():
        step = statistics.median(took[name])
        example = train_state.dataset.shards[0].instances
        tokens = decisions_to_come(problem.horizon(example), problem.last_choice(example))
        per_epoch = Configuration.of_training(f"problem={name}").cfg.train.batches_per_epoch
        table[name] = {
            "examples_per_second": settings.batch_size / step,
            "tokens_per_second": settings.batch_size * tokens / step,
            "seconds_per_epoch": per_epoch * step,
        }
        print(
            f"{name:8}{settings.batch_size:7}{1e3 * step:10.1f}"
            + "{:12,.0f}{:12,.0f}{:20.1f}".format(*table[name].values())
            + f"{memory[name]:8.2f}" * on_gpu
        )
        if on_gpu:
            table[name]["gpu_gib"] = memory[name]
    if out:
        write(Path(out), {"threads": threads, "training": table})
