"""What the networks for job shops share: states whose times count from now on, and the tokens of next operations."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from models.policy import TokenPolicy
from problems.jssp import State
from problems.jssp.instances import work_bound


class CanonicalState(State):
    """A state that `canonical_state` has made, so that it need not be made again."""


class ShopPolicy(TokenPolicy):
    """Tokens are those of the operations in view, job by job; the network itself is fed with a `CanonicalState`."""

    context: ClassVar[Any]  # a NamedTuple of fields of the problem's Instance, `bound`, `before` and `after`

    def encode(self, instance: Any) -> Any:
        known = self.known(instance)
        return self.context(*(known[name] for name in self.context._fields))

    def known(self, instance: Any) -> dict[str, Tensor]:
        """What networks know of the instance, by name: its fields, and what stays the same at every step."""
        return instance._asdict() | {"bound": work_bound(instance)} | around(instance.shortest(), instance.waits)

    def forward(self, context: Any, state: State) -> Tensor:
        return super().forward(context, self._canonical(context, state))

    def with_auxiliary_loss(self, context: Any, state: State, remaining_actions: Tensor) -> tuple[Tensor, Tensor]:
        return super().with_auxiliary_loss(context, self._canonical(context, state), remaining_actions)

    def _canonical(self, context: Any, state: State) -> State:
        return state if isinstance(state, CanonicalState) else self.canonical_state(context, state)


def around(times: Tensor, waits: Tensor) -> dict[str, Tensor]:
    """Work and waits of the job before and after each operation [R, J * O], of times and waits [R, J, O]."""
    before = (times + waits).cumsum(dim=2) - times - waits
    after = (times + waits).sum(dim=2, keepdim=True) - before - times
    return {"before": before.flatten(1), "after": after.flatten(1)}


def heads_of(context: Any, state: State) -> tuple[Tensor, Tensor]:
    """Earliest starts [R, n] of the job's next operation, and of each operation that remains after those before it."""
    ops = context.waits.shape[2]
    first = state.next_op.clamp(max=ops - 1) + ops * torch.arange(state.next_op.shape[1], device=state.next_op.device)
    job = state.remaining // ops
    start = state.job_free.gather(1, job)
    done = context.before.gather(1, first).gather(1, job)
    return start, start + (context.before.gather(1, state.remaining) - done)


def limit_waits(times: Tensor, releases: Tensor, limit: Tensor) -> Tensor:
    """The times [R, n] at which jobs or machines are free, `limit` [R, 1] at most for those that await a release.

    What lies farther away than the work takes is to change no decision of today, and no training has shown it. For the
    makespan of job shops, plans are shorter without the limit (docs/decisions.md).

    Arguments:
        releases: [R, n] from when on they could be free; those that are free no later wait for nothing else
    """
    return torch.where(times <= releases, torch.minimum(times, limit), times)


def first_tokens(x: Tensor, left: Tensor) -> Tensor:
    """The token [R, J, width] of each job's next operation, among those x [R, v, width] of the operations in view.

    Arguments:
        left: [R, J] operations of each job in view; of a job without one, the token is any
    """
    first = (left.cumsum(dim=1) - left).clamp(max=x.shape[1] - 1)
    return x.gather(1, first[..., None].expand(-1, -1, x.shape[-1]))
