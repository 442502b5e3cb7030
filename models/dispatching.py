"""Priority dispatching rules for the JSSP as policies: baselines that need no training [Haupt 1989]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from problems.jssp import State
from problems.jssp_types import Instance

PRIORITIES = {  # what the next operation of each job (all [R, J] float64) is preferred for: the larger, the better
    "SPT": lambda time, work, operations, ready: -time,  # shortest processing time
    "LPT": lambda time, work, operations, ready: time,  # longest processing time
    "MWR": lambda time, work, operations, ready: work,  # most work remaining in the job, with this operation
    "LWR": lambda time, work, operations, ready: -work,  # least work remaining
    "MOR": lambda time, work, operations, ready: operations,  # most operations remaining
    "LOR": lambda time, work, operations, ready: -operations,  # least operations remaining
    "FIFO": lambda time, work, operations, ready: -ready,  # the job that is ready first
}
GENERATIONS = ("non_delay", "active")
RULES = [(rule, generation) for generation in GENERATIONS for rule in PRIORITIES]
BEHIND = 1000  # the logits of operations out of the question are lower by this than all others
STEPS = 100  # per unit of time: scaled times that are equal in truth differ in float32, which must not decide


class DispatchingRule(nn.Module):
    """Logits whose order is that of a rule, so that greedy search schedules by it; there are no weights.

    Arguments:
        rule: a key of PRIORITIES. Of equal jobs the first is preferred.
        generation: which operations are compared [Giffler and Thompson 1960]; the same to FIFO, but for ties.
            "non_delay": those that can start first of all, so that no machine waits while it has something to do.
            "active": those that could start on one machine before the operation that can end first of all would end
                there; it is the machine of this operation.
    """

    def __init__(self, rule: str, generation: str):
        super().__init__()
        if rule not in PRIORITIES:
            raise ValueError(f"rule must be one of {', '.join(PRIORITIES)}, got {rule!r}")
        if generation not in GENERATIONS:
            raise ValueError(f"generation must be one of {', '.join(GENERATIONS)}, got {generation!r}")
        self.rule = rule
        self.generation = generation

    def encode(self, instance: Instance) -> Instance:
        """Nothing is worth keeping."""
        return instance

    def forward(self, context: Instance, state: State) -> Tensor:
        """Logits [R, J] float32, all finite: minus the rank of each job, finished jobs and others set back."""
        jobs, ops = context.times.shape[1:]
        legal = state.next_op < ops
        following = torch.arange(ops, device=legal.device) >= state.next_op[..., None]  # [R, J, M] not scheduled yet
        op = state.next_op.clamp(max=ops - 1)[..., None]
        time = context.times.gather(2, op).squeeze(2)
        machine = context.machines.gather(2, op).squeeze(2)  # [R, J]
        begin = torch.maximum(state.job_free, state.machine_free.gather(1, machine))
        work = _steps((context.times.double() * following).sum(dim=2))
        priority = PRIORITIES[self.rule](_steps(time), work, following.sum(dim=2).double(), _steps(state.job_free))
        order = priority.argsort(dim=1, descending=True, stable=True)
        rank = torch.empty_like(order).scatter_(1, order, torch.arange(jobs, device=order.device).expand_as(order))
        begin = begin.masked_fill(~legal, torch.inf)
        candidate = self._candidates(_steps(begin), _steps(begin + time), machine)
        return -(rank + (BEHIND + jobs) * ~candidate).float()

    def _candidates(self, begin: Tensor, end: Tensor, machine: Tensor) -> Tensor:
        """Which next operations [R, J] the rule compares; they begin and end at inf where a job is finished."""
        if self.generation == "non_delay":
            return begin == begin.amin(dim=1, keepdim=True)
        first = end.argmin(dim=1, keepdim=True)
        conflicting = (machine == machine.gather(1, first)) & (begin < end.gather(1, first))
        return conflicting.scatter(1, first, True)  # itself, too, if it takes no time


def _steps(time: Tensor) -> Tensor:
    """Times in steps that are large compared with the rounding errors of float32, as whole numbers in float64."""
    return (time.double() * STEPS).round()


class Rules:
    """All dispatching rules, of which an evaluation shows the best."""

    problem = "jssp"

    def policies(self) -> dict[str, nn.Module]:
        return {f"{rule} ({generation})": DispatchingRule(rule, generation) for rule, generation in RULES}
