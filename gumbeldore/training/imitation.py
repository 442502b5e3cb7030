"""Next-token imitation: one epoch of cross-entropy on the decisions of the pseudo-experts."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gumbeldore.batches import take
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.runtime.errors import advice_on_memory
from gumbeldore.runtime.precision import InPrecision
from gumbeldore.runtime.stopping import Stopped
from gumbeldore.training.execution import Execution
from gumbeldore.training.optimizer import scale_rates
from gumbeldore.training.ranks import Ranks, lost_processes
from gumbeldore.training.settings import ImitationSettings
from gumbeldore.training.state import TrainState

OUT_OF_VIEW = -1  # target of a decision that is not imitated; the loss of a batch of such decisions alone is NaN
CHECK_EVERY = 50  # steps between two looks at the numbers on the device, for each of which the CPU waits


@advice_on_memory("training ran out of memory; lower train.batch_size", ValueError)
@lost_processes()
def fit(
    problem: Problem,
    train_state: TrainState,
    settings: ImitationSettings,
    draws: torch.Generator,
    execution: Execution = Execution(),
) -> dict[str, float]:
    """One epoch of imitation; returns its metrics.

    Arguments:
        draws: which decisions are imitated

    Raises Stopped if the training is to end before the last batch; and ValueError with the number of the first step
    whose loss or gradient is not finite, at most CHECK_EVERY steps later.
    """
    ranks = execution.ranks
    ranks.start_epoch(train_state, draws)
    factor = learning_rate_factor(settings, train_state.epoch)
    scale_rates(train_state.optimizer, factor)
    train_state.policy.train()
    policy = InPrecision(train_state.policy, execution.device, execution.precision)
    network = ranks.wrap(Imitation(problem, policy))
    rows = ranks.rows(settings.batch_size)
    steps = Steps(ranks, train_state.epoch)
    for index in range(settings.batches_per_epoch):
        execution.progress("training", index, settings.batches_per_epoch)
        if ranks.broadcast_stop(execution.stop()):
            break
        example = train_state.dataset.batch(problem, settings.batch_size, draws, execution.device)
        remaining_actions = example.remaining_actions[rows]
        logits, target, auxiliary = network(take(example.instance, rows), take(example.state, rows), remaining_actions)
        loss = F.cross_entropy(logits, target, ignore_index=OUT_OF_VIEW)
        train_state.optimizer.zero_grad(set_to_none=True)
        _nan_unless_finite(loss + auxiliary).backward()
        norm = nn.utils.clip_grad_norm_(train_state.policy.parameters(), settings.gradient_clip)
        train_state.optimizer.step()
        accuracy, unseen = (logits.argmax(dim=1) == target).float().mean(), (target == OUT_OF_VIEW).float().mean()
        steps.add(loss, auxiliary, norm, accuracy, unseen)
    metrics = steps.metrics()
    metrics["training/learning_rate"] = factor * settings.learning_rate
    metrics["training/dataset_size"] = len(train_state.dataset)
    if len(steps) < settings.batches_per_epoch:
        raise Stopped(metrics, len(steps))
    return metrics


class Steps:
    """What the steps of an epoch have shown. The numbers stay on the device: at each look at them the CPU waits."""

    names = ("loss", "auxiliary_loss", "gradient_norm", "accuracy", "out_of_view")

    def __init__(self, ranks: Ranks, epoch: int):
        self.ranks, self.epoch = ranks, epoch
        self.values: list[list[Tensor]] = [[] for _ in self.names]

    def __len__(self) -> int:
        return len(self.values[0])

    def add(self, *values: Tensor) -> None:
        """Add a step's numbers, by `names`. Raises ValueError as `refuse_bad`, every CHECK_EVERY steps."""
        for each, value in zip(self.values, values, strict=True):
            each.append(value.detach())
        if len(self) % CHECK_EVERY == 0:
            self.refuse_bad()

    def refuse_bad(self) -> None:
        """Raises ValueError for the first step whose gradient's norm is not finite."""
        losses, auxiliaries, norms, *_ = self.values
        if self.ranks.rank > 0 or not norms:
            return  # the first process speaks for all, and ends the others
        bad = (~torch.stack(norms).isfinite()).nonzero().flatten().tolist()
        if bad:
            step = bad[0]
            loss, auxiliary, norm = (values[step].item() for values in (losses, auxiliaries, norms))
            values = f"the loss is {loss}, the auxiliary loss {auxiliary}, the norm of their gradient {norm}"
            raise ValueError(f"step {step + 1} of epoch {self.epoch + 1} cannot be learnt from: {values}")

    def metrics(self) -> dict[str, float]:
        """Means over the steps and the processes, by TensorBoard tag. Raises ValueError as `refuse_bad`."""
        self.refuse_bad()
        means = [math.nan] * len(self.names)
        if len(self):
            means = self.ranks.mean(torch.stack([torch.stack(values).mean() for values in self.values])).tolist()
        found = {f"training/{name}": mean for name, mean in zip(self.names, means, strict=True)}
        for name in ("training/auxiliary_loss", "training/out_of_view"):
            if found[name] == 0:  # the policy has no such loss, the expert goes nowhere else
                del found[name]
        return found


def _nan_unless_finite(loss: Tensor) -> Tensor:
    """The loss, but a gradient of NaN if it is not finite: an infinite one may have a finite gradient.

    So the norm of the gradient tells good steps from bad ones, to all processes that average it.
    """
    return loss * torch.where(loss.detach().isfinite(), 1.0, math.nan)


class Imitation(nn.Module):
    """What a policy says of the states of an `Example`, and what it is to say; a module, as DDP takes modules alone."""

    def __init__(self, problem: Problem, policy: Policy):
        super().__init__()
        self.problem, self.policy = problem, policy

    def forward(self, instance: Any, state: Any, remaining_actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Float32 logits [R, A], illegal actions at -inf; the expert's actions; the policy's auxiliary loss [].

        The expert's actions are int64 [R], OUT_OF_VIEW where the policy does not see what they go to.
        """
        context = self.policy.encode(instance)
        logits, auxiliary = self.policy.with_auxiliary_loss(context, state, remaining_actions)
        target = remaining_actions[:, 0]
        target = target.masked_fill(~self.problem.sees(instance, state, target), OUT_OF_VIEW)
        return logits.float().masked_fill(~self.problem.mask(instance, state), -math.inf), target, auxiliary


def learning_rate_factor(settings: ImitationSettings, epoch: int) -> float:
    """Share of the learning rates in an epoch: 1, falling linearly to the end factor in the last `cooldown_epochs`.

    Without `cooldown_epochs`, or in a training that is not longer, it falls from the first epoch to the last.
    """
    last = settings.epochs - 1
    falling = min(last, settings.cooldown_epochs or last)
    fraction = max(0, epoch - (last - falling)) / max(1, falling)
    return 1 + fraction * (settings.learning_rate_end_factor - 1)
