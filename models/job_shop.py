"""The network for the JSSP: attention within jobs and within machines in turn [GD, appendix D.4.2]."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gumbeldore.runtime.checked import check_counts
from models.attention import bias_against
from models.layers import FullPrecisionLinear, ReZeroLayer
from models.lookahead import LOOKAHEAD_FEATURES, JobShopContext, due_date_features, makespan_features, own_machines
from models.micro_batches import RowSize
from models.order_loss import OrderLoss
from models.policy import check_weight
from models.shop_attention import attention_patterns, most_scores
from models.shop_policy import CanonicalState, ShopPolicy, first_tokens
from problems.common.groups import sizes_of
from problems.jssp import State
from problems.jssp.instances import Instance
from problems.jssp.state import earliest_starts

TIME_UNIT = 100.0  # times are divided by it [GD, eq. 33]


class JobShop(ShopPolicy):
    """Logits of the next job from the operations in view: all that are not scheduled yet, or those in the window.

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
        order_loss: weight of the auxiliary loss: of two operations of one machine, both in view, which one does the
            expert schedule first. 0 leaves it out, as the paper does.
        due_dates: for `problem.objective=weighted_tardiness` or `total_flow_time`: lookahead then tells how late the
            jobs will be at least, in the place of lower bounds on the makespan
    """

    problem = "jssp"
    context = JobShopContext

    def __init__(
        self,
        width: int,
        blocks: int,
        heads: int,
        feedforward: int,
        lookahead: bool,
        order_loss: float,
        due_dates: bool = False,
    ):
        check_counts(width=width, blocks=blocks, feedforward=feedforward)
        if due_dates and not lookahead:
            raise ValueError("due_dates needs lookahead: without it the network does not see when a job will end")
        check_weight("order_loss", order_loss)
        super().__init__()
        self.lookahead, self.due_dates = lookahead, due_dates
        self.embed = FullPrecisionLinear(1 + LOOKAHEAD_FEATURES if lookahead else 2, width)
        self.job_wise = nn.ModuleList([ReZeroLayer(width, heads, feedforward) for _ in range(blocks)])
        self.machine_wise = nn.ModuleList([ReZeroLayer(width, heads, feedforward) for _ in range(blocks)])
        self.between_jobs = ReZeroLayer(width, heads, feedforward)
        self.head = FullPrecisionLinear(width, 1)
        self.loss_weight = order_loss
        self.order_loss = OrderLoss(width) if order_loss else None

    def known(self, instance: Instance) -> dict[str, Tensor]:
        known = super().known(instance)
        return known | {"due": torch.maximum(instance.due, -known["bound"][:, None]), "machine": own_machines(instance)}

    def row_size(self, context: JobShopContext, state: State) -> RowSize:
        scores = self.between_jobs.heads * most_scores(context, state)
        return RowSize(scores, state.view.shape[1] * self.embed.out_features)

    def tokens(self, instance: JobShopContext, state: State) -> list[Tensor]:
        """The tokens [R, v, width] of the operations in view, after all pairs of layers."""
        ops = instance.times.shape[2]
        x = self.embed(self._features(instance, state))
        if not self.lookahead:
            x += F.embedding(state.view % ops, positional_encoding(ops, x.shape[-1], x.device))
        within_jobs, within_machines = attention_patterns(instance, state, self.between_jobs.heads)
        for job_wise, machine_wise in zip(self.job_wise, self.machine_wise, strict=True):
            x = machine_wise(job_wise(x, *within_jobs), *within_machines)
        return [x]

    def canonical_state(self, instance: Instance | JobShopContext, state: State) -> State:
        """The state with times that count from the first moment at which an operation can start.

        A job is free when its next operation can start. A machine is free at once if no operation is left for it, and
        without lookahead, where the features do not tell how long a machine stays busy. With due dates, times stay as
        they are: these dates do not move.
        """
        finished = state.next_op == instance.times.shape[2]
        start = earliest_starts(instance, state)
        now = start.masked_fill(finished, torch.inf).amin(dim=1, keepdim=True)
        busy = torch.zeros_like(state.machine_free)  # [R, M]
        if self.lookahead:
            fields = instance.machines, instance.times
            work = busy.scatter_add(1, *(field.flatten(1).gather(1, state.remaining) for field in fields))
            busy = (state.machine_free - now).clamp(min=0.0).masked_fill(work == 0, 0.0)
        if self.due_dates:
            now, busy = torch.zeros_like(now), busy + now
        free = (start - now).masked_fill(finished, 0.0)
        return CanonicalState(*state._replace(job_free=free, machine_free=busy))

    def _features(self, instance: JobShopContext, state: State) -> Tensor:
        """[R, v, 2]: processing times, and the earliest start of the job's next operation [GD, eq. 33].

        With lookahead [R, v, 1 + LOOKAHEAD_FEATURES]: processing times, and the features of `models.lookahead`.
        """
        features = [instance.times.flatten(1).gather(1, state.view) / TIME_UNIT]
        if self.lookahead:
            features += (due_date_features if self.due_dates else makespan_features)(instance, state)
        else:
            features.append(state.job_free.gather(1, state.view // instance.times.shape[2]) / TIME_UNIT)
        return torch.stack(features, dim=-1)

    def logits(self, instance: JobShopContext, state: State, x: Tensor) -> Tensor:
        """[R, J]; the logits of jobs without an operation in view mean nothing."""
        jobs, ops = instance.times.shape[1:]
        left = sizes_of(state.view // ops, jobs) if state.is_cropped else ops - state.next_op  # [R, J] in view
        heads = self.between_jobs(first_tokens(x, left), bias_against(left == 0)[:, None, None, :])
        return self.head(heads).squeeze(-1).float()

    def auxiliary_loss(
        self, instance: JobShopContext, state: State, tokens: list[Tensor], remaining_actions: Tensor
    ) -> Tensor:
        assert self.order_loss is not None  # its weight is not 0
        return self.order_loss(tokens[-1], instance, state, remaining_actions)


def positional_encoding(count: int, width: int, device: torch.device) -> Tensor:
    """Sinusoidal encoding [count, width] of an operation's index in its job [Vaswani et al. 2017]."""
    place = torch.arange(0, width, 2, dtype=torch.float32, device=device)
    rate = torch.exp(place * (-torch.log(torch.tensor(10_000.0, dtype=torch.float32)) / width))
    angle = torch.arange(count, device=device)[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]
