"""Greedy searches that validation=race saves in a training, and how often it decides otherwise than all instances.

The training (`words`, as of train.py; without Ray) begins with random weights, samples its experts and decides by all
validation instances. Each of its comparisons is then held as a race, with each delta, and the training goes on as all
instances have decided.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.machine import configuration, numbers
from gumbeldore.cli.setup import set_up
from gumbeldore.cli.training import arguments, start_pool
from gumbeldore.parallel.devices import cpu_threads
from gumbeldore.races.settings import RaceSettings
from gumbeldore.training.acceptance import policy_race
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.execution import Execution
from gumbeldore.training.recorder import Recorder
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import Quality
from train import self_improvement

DEFAULTS = {"words": "problem=tsp", "deltas": "0.01,0.05,0.2", "first_batch": 50}


@dataclass
class Remembering(TrainState):
    """Keeps the greedy costs of every comparison but the first, which has no best policy."""

    compared: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # [N] each: best policy, new policy

    def accept(self, quality: Quality, better: bool | None = None) -> bool:
        if len(self.best_costs):
            self.compared.append((self.best_costs, quality.each))
        return super().accept(quality, better)


class Silent(Recorder):
    """Writes nothing."""


class Raced(NamedTuple):
    """What races have come to."""

    searches: int
    otherwise: list[float]  # of each decision unlike that of all instances, how far apart the policies' mean costs are


def comparisons(words: str) -> tuple[list[tuple[Tensor, Tensor]], int]:
    """The greedy costs that a training compares in each of its epochs but the first, and its seed."""
    cfg = configuration(*words.split(), "workers=0")
    others = {"init": cfg.init, "resume": cfg.resume, "train=supervised": cfg.train.experts}
    others |= {"train=active_search": cfg.train.instances, "validation=race": cfg.train.race}
    if found := [word for word, value in others.items() if value is not None]:
        rule = "a training from random weights that samples its experts and decides by all of its validation instances"
        raise ValueError(f"words must be those of {rule}, without {', '.join(found)}")
    setup = set_up(cfg)
    state = Remembering(setup.policy, copy.deepcopy(setup.policy), setup.optimizer, PseudoExperts())
    with start_pool(setup) as pool, cpu_threads(setup.threads):
        self_improvement(**arguments(setup, state, pool, Execution(setup.device, setup.precision)), recorder=Silent())
    return state.compared, setup.run.seed


def raced(compared: list[tuple[Tensor, Tensor]], seed: int, settings: RaceSettings) -> Raced:
    """The comparisons as races; the costs of a best policy that an earlier one has looked at are known."""
    count = len(compared[0][0])
    known = torch.ones(count, dtype=torch.bool)  # the first policy is validated on all instances
    searches, otherwise = count, []
    for epoch, pair in enumerate(compared, 1):
        costs, seen = torch.stack(pair), torch.zeros(2, count, dtype=torch.bool)

        def rewards(arm: int, at: Tensor, costs=costs, seen=seen) -> Tensor:
            seen[arm, at] = True
            return -costs[arm, at]

        outcome = policy_race(rewards, count, settings, seed, epoch)
        searches += int((seen[0] & ~known).sum() + seen[1].sum())
        best, new = costs.mean(dim=1).tolist()
        if (outcome.arm == 1) != (new < best):
            otherwise.append(abs(new / best - 1))
        known = seen[1] if new < best else known | seen[0]
    return Raced(searches, otherwise)


def main(words, deltas, first_batch) -> None:
    settings = [RaceSettings(delta=delta, first_batch=first_batch) for delta in numbers("deltas", deltas, float)]
    compared, seed = comparisons(words)
    if not compared:
        raise ValueError("words must be those of a training of two epochs at least")
    count, epochs = len(compared[0][0]), len(compared) + 1
    better = sum(bool(new.mean() < best.mean()) for best, new in compared)
    print(f"{words}: {epochs} epochs, {count} validation instances, {better} of {epochs - 1} later policies are better")
    print(f"{'delta':>7} {'searches':>10} {'of all':>8} {'decided otherwise':>18} {'mean costs apart, at most':>26}")
    for each in settings:
        found = raced(compared, seed, each)
        share, apart = found.searches / (count * epochs), max(found.otherwise, default=0)
        print(f"{each.delta:7g} {found.searches:10,} {share:8.1%} {len(found.otherwise):18} {apart:26.2%}", flush=True)
