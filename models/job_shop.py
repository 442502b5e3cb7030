"""The network for the JSSP: attention within jobs and within machines in turn [GD, appendix D.4.2]."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gumbeldore.runtime.checked import check_counts
from models.attention import AttentionGroups, bias_against
from models.layers import FullPrecisionLinear, ReZeroLayer
from models.lookahead import FEATURES, lookahead
from models.micro_batches import RowSize
from models.order_loss import OrderLoss
from models.policy import TokenPolicy, check_weight
from problems.jssp import State
from problems.jssp.instances import Instance, machine_of

TIME_UNIT = 100.0  # times are divided by it [GD, eq. 33]
# Up to this ratio of its scores to the scores of the groups, full attention costs less on a CPU (docs/decisions.md).
MAX_DENSE_RATIO = 2


class CanonicalState(State):
    """A state that `canonical_state` has made, so that the features need not make it again: once a step in a search."""


class JobShop(TokenPolicy):
    """Logits of the next job from all operations that are not scheduled yet.

    The operations form a grid [J, O]. Attention within jobs is attention within the rows of the grid. Attention within
    machines is attention within the rows of a grid [M, S], which has the operations sorted by machine. In a classical
    job shop a pair of layers costs J * M * (J + M) attention scores instead of (J * M)^2.

    The policy does not change when jobs or machines are numbered otherwise.

    Arguments:
        width: of the embeddings; a multiple of heads
        blocks: pairs of a job-wise and a machine-wise layer, followed by one layer over the jobs
        heads, feedforward: of every layer
        lookahead: replace the index of an operation in its job by what the partial schedule implies for the operation:
            its earliest possible start, the work that its job has after it, how long its machine stays busy, and lower
            bounds on the makespan, all relative to the instance's bound. A policy trained on small instances then
            decides well in large ones. Not in the paper, which gives the index and the earliest start of the job's next
            operation (docs/decisions.md).
        order_loss: weight of the auxiliary loss: of every two unscheduled operations of a machine, which one does the
            expert schedule first. 0 leaves it out, as the paper does.
    """

    problem = "jssp"

    def __init__(self, width: int, blocks: int, heads: int, feedforward: int, lookahead: bool, order_loss: float):
        check_counts(width=width, blocks=blocks, feedforward=feedforward)
        check_weight("order_loss", order_loss)
        super().__init__()
        self.lookahead = lookahead
        self.embed = FullPrecisionLinear(1 + FEATURES if lookahead else 2, width)
        self.job_wise = nn.ModuleList([ReZeroLayer(width, heads, feedforward) for _ in range(blocks)])
        self.machine_wise = nn.ModuleList([ReZeroLayer(width, heads, feedforward) for _ in range(blocks)])
        self.between_jobs = ReZeroLayer(width, heads, feedforward)
        self.head = FullPrecisionLinear(width, 1)
        self.order_weight = order_loss
        self.order_loss = OrderLoss(width) if order_loss else None

    def row_size(self, context: Instance, state: State) -> RowSize:
        scores = self.between_jobs.heads * MAX_DENSE_RATIO * grouped_scores(context)
        return RowSize(scores, state.remaining.shape[1] * self.embed.out_features)

    def tokens(self, instance: Instance, state: State) -> list[Tensor]:
        """The tokens [R, n, width] of the operations that remain, after all pairs of layers."""
        ops = instance.times.shape[2]
        x = self.embed(self._features(instance, state))
        if not self.lookahead:
            x += F.embedding(state.remaining % ops, positional_encoding(ops, x.shape[-1], x.device))
        within_jobs, within_machines = attention_patterns(instance, state, self.between_jobs.heads)
        for job_wise, machine_wise in zip(self.job_wise, self.machine_wise, strict=True):
            x = machine_wise(job_wise(x, *within_jobs), *within_machines)
        return [x]

    def canonical_state(self, instance: Instance, state: State) -> State:
        """The state with times that count from the first moment at which an operation can start.

        A job is free when its next operation can start. A machine is free at once if no operation is left for it, and
        without lookahead, where the features do not tell how long a machine stays busy.
        """
        finished = state.next_op == instance.times.shape[2]
        start = earliest_starts(instance, state)
        now = start.masked_fill(finished, torch.inf).amin(dim=1, keepdim=True)
        busy = torch.zeros_like(state.machine_free)  # [R, M]
        if self.lookahead:
            needed = F.pad(torch.zeros_like(busy, dtype=torch.bool), (0, state.remaining.shape[1]))
            needed = needed.scatter_(1, machine_of(instance, state.remaining), True)[:, : busy.shape[1]]
            busy = (state.machine_free - now).clamp(min=0.0).masked_fill(~needed, 0.0)
        free = (start - now).masked_fill(finished, 0.0)
        return CanonicalState(*state._replace(job_free=free, machine_free=busy))

    def _features(self, instance: Instance, state: State) -> Tensor:
        """[R, n, 2]: processing times, and the earliest start of the job's next operation [GD, eq. 33].

        With lookahead [R, n, 1 + FEATURES]: processing times, and the features of `models.lookahead`.
        """
        if not isinstance(state, CanonicalState):
            state = self.canonical_state(instance, state)
        features = [instance.times.flatten(1).gather(1, state.remaining) / TIME_UNIT]
        if self.lookahead:
            features += lookahead(instance, state)
        else:
            features.append(state.job_free.gather(1, state.remaining // instance.times.shape[2]) / TIME_UNIT)
        return torch.stack(features, dim=-1)

    def logits(self, instance: Instance, state: State, x: Tensor) -> Tensor:
        """[R, J]; the logits of finished jobs mean nothing."""
        jobs, ops = instance.times.shape[1:]
        left = ops - state.next_op  # [R, J] operations of each job
        first = (left.cumsum(dim=1) - left).clamp(max=x.shape[1] - 1)  # token of the next one; any for a finished job
        heads = x.gather(1, first[..., None].expand(-1, -1, x.shape[-1]))  # [R, J, width]
        heads = self.between_jobs(heads, bias_against(left == 0)[:, None, None, :])
        return self.head(heads).squeeze(-1).float()

    def auxiliary_loss(
        self, instance: Instance, state: State, tokens: list[Tensor], remaining_actions: Tensor
    ) -> Tensor:
        """The weighted order loss."""
        (x,) = tokens
        if self.order_loss is None:
            return x.new_zeros(())
        return self.order_weight * self.order_loss(x, instance, state, remaining_actions)


def earliest_starts(instance: Instance, state: State) -> Tensor:
    """When the next operation of each job can start [R, J]; of a finished job, when its last one could come again."""
    next_op = state.next_op.clamp(max=instance.times.shape[2] - 1)[..., None]
    times, machine = (field.gather(2, next_op).squeeze(2) for field in (instance.times, instance.machines))
    busy = state.machine_free.gather(1, machine).masked_fill(times == 0, 0.0)
    return torch.maximum(state.job_free, busy)


def attention_patterns(
    instance: Instance, state: State, heads: int
) -> list[tuple[Tensor | None, AttentionGroups | None]]:
    """Bias and groups of attention within jobs, and of attention within machines, for the operations that remain.

    The bias within jobs is slope * index of the key: ALiBi [Press et al. 2022; GD, appendix D.4.2] without the term of
    the query, which changes no softmax.

    Attention in groups of one per job or machine saves scores (`grouped_scores`). Where few operations remain, full
    attention takes about as many; a bias then hides the pairs that are in different groups, with the same result. On a
    CPU that saves torch the copies into the groups. On a GPU the copies cost next to nothing, while every layer
    would read a bias for all pairs.
    """
    rows, jobs, ops = instance.times.shape
    job, index = state.remaining // ops, state.remaining % ops
    machine = machine_of(instance, state.remaining)
    slope = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1, dtype=torch.float32, device=job.device))
    few = state.remaining.shape[1] ** 2 <= MAX_DENSE_RATIO * grouped_scores(instance)
    if few and job.device.type == "cpu":
        same_job, same_machine = (group[:, :, None] == group[:, None, :] for group in (job, machine))
        hidden = [bias_against(~same)[:, None] for same in (same_job, same_machine)]
        return [(hidden[0] + slope[:, None, None] * index[:, None, None, :], None), (hidden[1], None)]
    row = torch.arange(rows, device=job.device)[:, None]
    by_job = AttentionGroups.of((row * jobs * ops + state.remaining).flatten(), rows * jobs, ops)
    machines, longest = instance.queues.shape[1:]
    slot = torch.arange(machines * longest, device=job.device).expand(rows, -1)
    slots = slot.new_zeros(rows, jobs * ops + 1).scatter_(1, instance.queues.flatten(1), slot)  # of all operations
    slots = row * machines * longest + slots.gather(1, state.remaining)
    by_machine = AttentionGroups.of(slots.flatten(), rows * machines, longest, alone=machine >= machines)
    return [(slope[:, None, None] * torch.arange(ops, device=job.device), by_job), (None, by_machine)]


def grouped_scores(instance: Instance) -> int:
    """The attention scores of a head in groups of one per job and one per machine, when all operations remain."""
    (jobs, ops), (machines, longest) = instance.times.shape[1:], instance.queues.shape[1:]
    return jobs * ops**2 + machines * longest**2


def positional_encoding(count: int, width: int, device: torch.device) -> Tensor:
    """Sinusoidal encoding [count, width] of an operation's index in its job [Vaswani et al. 2017]."""
    place = torch.arange(0, width, 2, dtype=torch.float32, device=device)
    rate = torch.exp(place * (-torch.log(torch.tensor(10_000.0, dtype=torch.float32)) / width))
    angle = torch.arange(count, device=device)[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]
