"""Self-improvement training [GD, algorithm 1]: sample, keep the best, imitate, validate.

`self_improvement` is the whole loop; it neither prints nor logs, but yields one report per epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gumbeldore import methods
from gumbeldore.dataset import Example, PseudoExperts
from gumbeldore.interfaces import Benchmark, Problem, batch_size, take, to
from gumbeldore.precision import autocast
from gumbeldore.search import SearchConfig, Solutions, TopP
from gumbeldore.seeding import fold, generator
from gumbeldore.settings import TrainSettings
from gumbeldore.stopping import Stopped
from gumbeldore.workers import SearchPool

Progress = Callable[[str, int, int], None]  # (phase, done, total)
Stop = Callable[[], bool]


@dataclass
class Learner:
    """All that changes during training; `state_dict` and the best weights are everything needed to go on."""

    policy: nn.Module  # pi, being trained
    best: nn.Module  # pi_best, the one that samples
    optimizer: torch.optim.Optimizer
    dataset: PseudoExperts
    epoch: int = 0  # finished ones
    best_cost: float = math.inf  # mean greedy cost of pi_best on the validation set
    best_gap: float = math.nan  # its mean gap, NaN without references
    totals: dict[str, float] = field(default_factory=lambda: {"seconds": 0.0, "batches": 0, "solutions": 0})

    def state_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "dataset": [shard.name for shard in self.dataset.shards],
            "epoch": self.epoch,
            "best_cost": self.best_cost,
            "best_gap": self.best_gap,
            "totals": dict(self.totals),
        }

    def load_state_dict(self, state: dict[str, Any], best: dict[str, Tensor], instance_type: type) -> None:
        self.policy.load_state_dict(state["policy"])
        self.best.load_state_dict(best)
        self.optimizer.load_state_dict(state["optimizer"])
        self.dataset.restore(state["dataset"], instance_type)
        self.epoch, self.totals = state["epoch"], dict(state["totals"])
        self.best_cost, self.best_gap = state["best_cost"], state["best_gap"]


class Report(NamedTuple):
    """What one epoch did. `metrics` are numbers by TensorBoard tag; `complete` is False if it was cut short."""

    epoch: int
    metrics: dict[str, float]
    improved: bool
    complete: bool


class Experts(NamedTuple):
    actions: Tensor  # [n, T]
    costs: Tensor  # [n]
    metrics: dict[str, float]


def self_improvement(
    problem: Problem,
    learner: Learner,
    settings: TrainSettings,
    search: SearchConfig,
    pool: SearchPool,
    validation: Benchmark,
    *,
    seed: int,
    device: torch.device,
    precision: str,
    progress: Progress = lambda phase, done, total: None,
    stop: Stop = lambda: False,
) -> Iterator[Report]:
    """Train until settings.epochs are done or `stop()` holds; yields a report per epoch.

    Every random number comes from (seed, purpose, epoch), so a run continued from a checkpoint taken at a complete
    report repeats nothing and skips nothing. The last report is incomplete if the epoch was stopped while training:
    its policy has been validated, but the learner is not to be continued from.
    """
    if learner.epoch == 0:
        pool.load(learner.best.state_dict())
        learner.best_cost, learner.best_gap = validate(pool, validation, progress)
    while learner.epoch < settings.epochs and not stop():
        epoch = learner.epoch
        clock = Clock()
        instances = problem.generate(settings.instances_per_epoch, generator(seed, "instances", epoch))
        keys = fold(seed, "sampling", epoch, torch.arange(settings.instances_per_epoch))
        pool.load(learner.best.state_dict())
        try:
            nucleus = search.top_p if epoch >= settings.nucleus_after else TopP()
            experts = sample_experts(pool, instances, keys, replace(search, top_p=nucleus), progress, stop)
        except Stopped:
            return
        learner.dataset.add(f"epoch_{epoch + 1:06d}", instances, experts.actions, experts.costs)
        clock.lap("sampling")

        complete, fitted = fit(problem, learner, settings, seed, device, precision, progress, stop)
        clock.lap("training")

        pool.load(learner.policy.state_dict())
        cost, gap = validate(pool, validation, progress)
        clock.lap("validation")
        improved = cost < learner.best_cost
        if improved:
            learner.best.load_state_dict(learner.policy.state_dict())
            learner.best_cost, learner.best_gap = cost, gap
            learner.dataset.clear()
        learner.epoch += 1
        learner.totals["seconds"] += sum(clock.seconds.values())
        learner.totals["batches"] += settings.batches_per_epoch
        learner.totals["solutions"] += experts.metrics["sampling/solutions"]
        metrics = {
            **experts.metrics,
            **fitted,
            "quality/greedy_cost": cost,
            "quality/best_greedy_cost": learner.best_cost,
            **({} if math.isnan(gap) else {"quality/greedy_gap": gap, "quality/best_greedy_gap": learner.best_gap}),
            "sampling/solutions_per_second": experts.metrics["sampling/solutions"] / clock.seconds["sampling"],
            "training/dataset_size": len(learner.dataset),
            **{f"seconds/{phase}": seconds for phase, seconds in clock.seconds.items()},
            **{f"totals/{name}": value for name, value in learner.totals.items()},
        }
        yield Report(learner.epoch, metrics, improved, complete)
        if not complete:
            return


def sample_experts(
    pool: SearchPool, instances: Any, keys: Tensor, search: SearchConfig, progress: Progress, stop: Stop
) -> Experts:
    """The best of the sampled solutions of each instance, and how the sampling went."""
    count = batch_size(instances)
    parts: dict[int, dict[str, Tensor]] = {}
    evaluations = done = 0
    progress("sampling", 0, count)
    for chunk, solutions in pool.map(instances, keys, search, stop):
        actions, cost = solutions.best()
        parts[chunk.start] = {"actions": actions, "best": cost, **_per_instance(solutions)}
        evaluations += solutions.stats.evaluations
        done += len(cost)
        progress("sampling", done, count)
    greedy = torch.empty(count, dtype=torch.float64)
    for chunk, solutions in pool.map(instances, keys, methods.greedy(), stop):
        greedy[chunk] = solutions.costs[:, 0]
    # In the order of the instances, whatever order the chunks came back in: sums do not depend on it.
    ordered = [parts[start] for start in sorted(parts)]
    merged = {name: torch.cat([part[name] for part in ordered]) for name in ordered[0]}
    total = merged["samples"].sum().item()
    metrics = {
        "sampling/best_cost": merged["best"].mean().item(),
        "sampling/mean_cost": (merged["cost_sum"].sum() / total).item(),
        "sampling/greedy_cost": greedy.mean().item(),
        "sampling/improvement_over_greedy": 1 - (merged["best"] / greedy).mean().item(),
        "sampling/distinct_share": merged["distinct"].sum().item() / total,
        "sampling/solutions": total,
        "sampling/evaluations": evaluations,
    }
    return Experts(merged["actions"], merged["best"], metrics)


def _per_instance(solutions: Solutions) -> dict[str, Tensor]:
    """Sums [B] over the solutions of each instance; distinct ones are told apart by a hash of their actions."""
    code = fold(torch.zeros((), dtype=torch.int64), *solutions.actions.unbind(dim=2))
    code = code.masked_fill(~solutions.valid, 0).sort(dim=1).values
    first = torch.ones_like(code, dtype=torch.bool)
    first[:, 1:] = code[:, 1:] != code[:, :-1]
    return {
        "samples": solutions.valid.sum(dim=1),
        "distinct": (first & (code != 0)).sum(dim=1),
        "cost_sum": solutions.costs.masked_fill(~solutions.valid, 0.0).sum(dim=1),
    }


def fit(
    problem: Problem,
    learner: Learner,
    settings: TrainSettings,
    seed: int,
    device: torch.device,
    precision: str,
    progress: Progress,
    stop: Stop,
) -> tuple[bool, dict[str, float]]:
    """One epoch of imitation; (False, ...) if stopped before its last batch. Raises ValueError on a NaN loss."""
    draws = generator(seed, "batches", learner.epoch)
    rate = learning_rate(settings, learner.epoch)
    for group in learner.optimizer.param_groups:
        group["lr"] = rate
    learner.policy.train()
    losses, norms, hits = [], [], []
    for index in range(settings.batches_per_epoch):
        progress("training", index, settings.batches_per_epoch)
        if stop():
            break
        example = learner.dataset.batch(problem, settings.batch_size, draws)
        example = Example(to(example.instance, device), to(example.state, device), example.target.to(device))
        logits = imitation_logits(problem, learner.policy, example, precision)
        loss = F.cross_entropy(logits, example.target)
        learner.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(learner.policy.parameters(), settings.gradient_clip))
        learner.optimizer.step()
        losses.append(loss.detach())
        hits.append((logits.argmax(dim=1) == example.target).float().mean())
    complete = len(losses) == settings.batches_per_epoch
    means = [torch.stack(values).mean().item() if values else math.nan for values in (losses, norms, hits)]
    if losses and not math.isfinite(means[0]):
        raise ValueError(f"the loss became {means[0]} in epoch {learner.epoch + 1}; the last checkpoint is intact")
    names = ("training/loss", "training/gradient_norm", "training/accuracy")
    return complete, {**dict(zip(names, means, strict=True)), "training/learning_rate": rate}


def imitation_logits(problem: Problem, policy: nn.Module, example: Example, precision: str) -> Tensor:
    """float32 logits [R, A] of the examples' states, illegal actions at -inf: what the search samples from."""
    device = example.target.device
    with autocast(device, precision):
        logits = policy(policy.encode(example.instance), example.state)
    return logits.float().masked_fill(~problem.mask(example.instance, example.state), -math.inf)


def learning_rate(settings: TrainSettings, epoch: int) -> float:
    """Linear from learning_rate in the first epoch to final_learning_rate in the last."""
    share = epoch / max(1, settings.epochs - 1)
    return settings.learning_rate + share * (settings.final_learning_rate - settings.learning_rate)


def validation_set(problem: Problem, n: int, seed: int) -> Benchmark:
    """The problem's own validation set, or n random instances that only the seed decides."""
    if hasattr(problem, "validation"):
        return problem.validation(n)
    instances = problem.generate(n, generator(seed, "validation"))

    def true_cost(index: Tensor, actions: Tensor) -> Tensor:
        return problem.cost(take(instances, index), actions).double()

    names = [f"validation/{i}" for i in range(n)]
    return Benchmark(names, instances, true_cost, torch.full((n,), math.nan, dtype=torch.float64), None)


def validate(pool: SearchPool, validation: Benchmark, progress: Progress) -> tuple[float, float]:
    """Mean true cost of the pool's policy, greedily, and its mean gap (NaN unless every instance has a reference)."""
    count = len(validation.names)
    costs = torch.empty(count, dtype=torch.float64)
    done = 0
    for chunk, solutions in pool.map(validation.instances, torch.zeros(count, dtype=torch.int64), methods.greedy()):
        costs[chunk] = validation.true_cost(torch.arange(chunk.start, chunk.stop), solutions.actions[:, 0])
        done += chunk.stop - chunk.start
        progress("validation", done, count)
    return costs.mean().item(), (costs / validation.references - 1).mean().item()


class Clock:
    """Seconds since the last lap, by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = now - self._last
        self._last = now
