"""Next-token imitation: one epoch of cross-entropy on the decisions of the pseudo-experts."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gumbeldore.dataset import Example
from gumbeldore.interfaces import Problem, to
from gumbeldore.learner import Learner
from gumbeldore.optimizer import scale_rates
from gumbeldore.precision import autocast
from gumbeldore.settings import TrainSettings
from gumbeldore.stopping import Progress, Stop


class Fitted(NamedTuple):
    complete: bool
    batches: int
    metrics: dict[str, float]


def fit(
    problem: Problem,
    learner: Learner,
    settings: TrainSettings,
    draws: torch.Generator,
    device: torch.device,
    precision: str,
    progress: Progress,
    stop: Stop,
) -> Fitted:
    """One epoch of imitation, unless stopped before its last batch. Raises ValueError on a NaN loss."""
    rate = learning_rate(settings, learner.epoch)
    scale_rates(learner.optimizer, rate / settings.learning_rate)
    learner.policy.train()
    losses, norms, hits = [], [], []
    for index in range(settings.batches_per_epoch):
        progress("training", index, settings.batches_per_epoch)
        if stop():
            break
        example = learner.dataset.batch(problem, settings.batch_size, draws)
        example = Example(to(example.instance, device), to(example.state, device), example.rest.to(device))
        target = example.rest[:, 0]
        logits, further = imitate(problem, learner.policy, example, precision)
        loss = F.cross_entropy(logits, target)
        learner.optimizer.zero_grad(set_to_none=True)
        (loss + further).backward()
        norms.append(nn.utils.clip_grad_norm_(learner.policy.parameters(), settings.gradient_clip))
        learner.optimizer.step()
        learner.average(settings.averaging, learner.totals["batches"] + index)
        losses.append(loss.detach())
        hits.append((logits.argmax(dim=1) == target).float().mean())
    complete = len(losses) == settings.batches_per_epoch
    means = [torch.stack(values).mean().item() if values else math.nan for values in (losses, norms, hits)]
    if losses and not math.isfinite(means[0]):
        raise ValueError(f"the loss became {means[0]} in epoch {learner.epoch + 1}; the last checkpoint is intact")
    names = ("training/loss", "training/gradient_norm", "training/accuracy")
    return Fitted(complete, len(losses), {**dict(zip(names, means, strict=True)), "training/learning_rate": rate})


def imitate(problem: Problem, policy: nn.Module, example: Example, precision: str) -> tuple[Tensor, Tensor | float]:
    """float32 logits [R, A] of the examples' states, illegal actions at -inf, and the policy's further loss if any."""
    with autocast(example.rest.device, precision):
        context = policy.encode(example.instance)
        if hasattr(policy, "imitate"):
            logits, further = policy.imitate(context, example.state, example.rest)
        else:
            logits, further = policy(context, example.state), 0.0
    return logits.float().masked_fill(~problem.mask(example.instance, example.state), -math.inf), further


def learning_rate(settings: TrainSettings, epoch: int) -> float:
    """Linear from learning_rate in the first epoch to final_learning_rate in the last."""
    share = epoch / max(1, settings.epochs - 1)
    return settings.learning_rate + share * (settings.final_learning_rate - settings.learning_rate)
