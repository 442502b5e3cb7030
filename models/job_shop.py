"""The network for the JSSP: attention within jobs and within machines in turn [GD, appendix C.3]."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention import HIDDEN, Grid
from models.layers import ReZeroLayer, check_sizes
from models.lookahead import FEATURES, lookahead
from models.micro_batches import RowSize
from models.policy import TokenPolicy
from problems.jssp import State
from problems.jssp.instances import Instance

UNIT = 100.0  # times are divided by it [GD, eq. 33]
DENSE = 2  # on a CPU full attention costs less up to so many times the scores of the grid (docs/decisions.md)


class JobShop(TokenPolicy):
    """Logits of the next job from all operations that are not scheduled yet.

    Every job visits every machine once, so the operations are a grid [J, M], and the operations of a machine are the
    columns of the grid sorted by machine: attention within machines is attention within the rows of [M, J]. A step
    costs J * M * (J + M) scores instead of (J * M)^2.

    The policy does not change when jobs or machines are numbered otherwise.

    Arguments:
        width: of the embeddings; a multiple of heads
        blocks: pairs of a job-wise and a machine-wise layer, followed by one layer over the jobs
        heads, feedforward: of every layer
        lookahead: give each operation also its earliest possible start, the work that its job has after it, how long
            its machine stays busy, and lower bounds on the makespan, all relative to the instance's, and not its index
            in its job: a policy trained on small instances then decides well in large ones. Not in the paper, which
            gives the index and the earliest start of the job's next operation (docs/decisions.md).
        order_loss: weight of a further training loss: of every two unscheduled operations of a machine, which is
            first in the expert's schedule. 0 leaves it out, as the paper does.
    """

    problem = "jssp"

    def __init__(self, width: int, blocks: int, heads: int, feedforward: int, lookahead: bool, order_loss: float):
        check_sizes(width=width, blocks=blocks, feedforward=feedforward)
        super().__init__(order_loss=order_loss)
        self.lookahead = lookahead
        self.embed = nn.Linear(1 + FEATURES if lookahead else 2, width)
        self.job_wise = nn.ModuleList([ReZeroLayer(width, heads, feedforward) for _ in range(blocks)])
        self.machine_wise = nn.ModuleList([ReZeroLayer(width, heads, feedforward) for _ in range(blocks)])
        self.between_jobs = ReZeroLayer(width, heads, feedforward)
        self.head = nn.Linear(width, 1)
        if order_loss:
            self.earlier, self.later = nn.Linear(width, width), nn.Linear(width, width)

    def row_size(self, context: Instance, state: State) -> RowSize:
        jobs, ops = context.times.shape[1:]
        scores = self.between_jobs.heads * DENSE * jobs * ops * (jobs + ops)
        return RowSize(scores, state.remaining.shape[1] * self.embed.out_features, max(jobs, ops))

    def tokens(self, instance: Instance, state: State) -> list[Tensor]:
        """The transformed operations that remain [R, n, width], in the end only."""
        ops = instance.times.shape[2]
        with torch.autocast(instance.times.device.type, enabled=False):
            x = self.embed(self._features(instance, state))
            if not self.lookahead:
                x += F.embedding(state.remaining % ops, positions(ops, x.shape[-1], x.device))
        along, across = neighbourhoods(instance, state, self.between_jobs.heads)
        for job_wise, machine_wise in zip(self.job_wise, self.machine_wise, strict=True):
            x = machine_wise(job_wise(x, *along), *across)
        return [x]

    def seen(self, instance: Instance, state: State) -> State:
        """The state as the network sees it: times count from the first moment at which an operation can start.

        A job is free when its next operation can start; a machine no operation is left for, or of which the network
        is not told how long it stays busy, is free at once.
        """
        ops = instance.times.shape[2]
        next_op = state.next_op.clamp(max=ops - 1)[..., None]  # of a finished job: any, it is not used
        machine = instance.machines.gather(2, next_op).squeeze(2)
        finished = state.next_op == ops
        start = torch.maximum(state.job_free, state.machine_free.gather(1, machine))  # [R, J]
        now = start.masked_fill(finished, torch.inf).amin(dim=1, keepdim=True)
        busy = torch.zeros_like(state.machine_free)  # [R, M]
        if self.lookahead:
            needed = torch.zeros_like(busy, dtype=torch.bool)
            needed.scatter_(1, instance.machines.flatten(1).gather(1, state.remaining), True)
            busy = (state.machine_free - now).clamp(min=0.0).masked_fill(~needed, 0.0)
        return state._replace(job_free=(start - now).masked_fill(finished, 0.0), machine_free=busy)

    def _features(self, instance: Instance, state: State) -> Tensor:
        """[R, n, 2]: processing times, and the earliest start of the job's next operation [GD, eq. 33].

        With lookahead [R, n, 9]: processing times, and what is looked ahead to.
        """
        state = self.seen(instance, state)
        features = [instance.times.flatten(1).gather(1, state.remaining) / UNIT]
        if self.lookahead:
            features += lookahead(instance, state)
        else:
            features.append(state.job_free.gather(1, state.remaining // instance.times.shape[2]) / UNIT)
        return torch.stack(features, dim=-1)

    def logits(self, instance: Instance, state: State, x: Tensor) -> Tensor:
        """[R, J]; those of finished jobs mean nothing."""
        jobs, ops = instance.times.shape[1:]
        left = ops - state.next_op  # [R, J] operations of each job
        first = (left.cumsum(dim=1) - left).clamp(max=x.shape[1] - 1)  # where its next one is; if finished: anywhere
        heads = x.gather(1, first[..., None].expand(-1, -1, x.shape[-1]))  # [R, J, width]
        heads = self.between_jobs(heads, torch.where(left == 0, HIDDEN, 0.0)[:, None, None, :])
        return self.head(heads).squeeze(-1).float()

    def further_loss(self, instance: Instance, state: State, tokens: list[Tensor], rest: Tensor) -> Tensor:
        """Cross-entropy of which of two operations of a machine the expert schedules first."""
        (x,) = tokens
        rows, jobs, ops = instance.times.shape
        # The operation each remaining decision schedules: the k-th time its job occurs, k on from next_op.
        one_hot = F.one_hot(rest, jobs)  # [R, n, J]
        op = (one_hot.cumsum(dim=1) * one_hot).sum(dim=2) - 1 + state.next_op.gather(1, rest)
        order = (rest * ops + op).argsort(dim=1)  # [R, n] when each open operation is scheduled
        scores = (self.earlier(x) @ self.later(x).mT).float() * x.shape[-1] ** -0.5
        scores = scores - scores.mT
        machine = instance.machines.flatten(1).gather(1, state.remaining)
        pairs = (machine[:, :, None] == machine[:, None, :]) & (order[:, :, None] < order[:, None, :])
        return ((F.softplus(-scores) * pairs).sum(dim=(1, 2)) / pairs.sum(dim=(1, 2)).clamp(min=1)).mean()


def neighbourhoods(instance: Instance, state: State, heads: int) -> list[tuple[Tensor | None, Grid | None]]:
    """Bias and grid of attention within jobs and within machines, for the operations that remain.

    On a grid of one line per job (or machine) that is J * M * (J + M) scores in all. Where few operations remain, the
    scores of all pairs, with those apart hidden, are as many, and torch needs no copies to a grid on a CPU: the result
    is the same. On a GPU the copies are nothing beside a bias for all pairs, which every layer would read.
    """
    rows, jobs, ops = instance.times.shape
    job, index = state.remaining // ops, state.remaining % ops
    machine = instance.machines.flatten(1).gather(1, state.remaining)
    slope = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1, device=job.device))
    few = state.remaining.shape[1] ** 2 <= DENSE * jobs * ops * (jobs + ops)
    if few and job.device.type == "cpu":
        apart = [torch.where(group[:, :, None] == group[:, None, :], 0.0, HIDDEN)[:, None] for group in (job, machine)]
        return [(apart[0] + slope[:, None, None] * index[:, None, None, :], None), (apart[1], None)]
    row = torch.arange(rows, device=job.device)[:, None] * (jobs * ops)
    lines = Grid.of((row + state.remaining).flatten(), rows * jobs, ops)
    columns = Grid.of((row + machine * jobs + job).flatten(), rows * ops, jobs)
    later = slope[:, None, None] * torch.arange(ops, device=job.device)
    return [(later, lines), (None, columns)]


def positions(count: int, width: int, device: torch.device) -> Tensor:
    """Sinusoidal encoding [count, width] of an operation's index in its job [Vaswani et al. 2017]."""
    rate = torch.exp(torch.arange(0, width, 2, device=device) * (-torch.log(torch.tensor(10_000.0)) / width))
    angle = torch.arange(count, device=device)[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]
