"""The network for the flexible job shop: operations attend within their job and to machines, machines to operations."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gumbeldore.runtime.checked import check_counts
from models.attention import bias_against, softmax
from models.layers import FullPrecisionLinear, Linears, ReZeroLayer
from models.micro_batches import RowSize
from models.shop_attention import attention_within_jobs, most_dense, slots_of_jobs
from models.shop_policy import CanonicalState, ShopPolicy, first_tokens, heads_of, limit_waits
from problems.common.groups import sizes_of
from problems.fjsp.instances import Instance
from problems.fjsp.state import next_starts, next_times
from problems.jssp.instances import work_bound
from problems.jssp.state import State, places_of_view

OPERATION_FEATURES = 6
MACHINE_FEATURES = 4
OPTION_FEATURES = 2  # of an operation on a machine
DECISION_FEATURES = 5  # of the next operation of a job on a machine


class FlexibleShopContext(NamedTuple):
    """What the network knows of R instances: fields as those of `Instance`, and what stays the same at every step."""

    times: Tensor  # [R, J, O, M]
    release: Tensor  # [R, J]
    machine_release: Tensor  # [R, M]
    waits: Tensor  # [R, J, O]
    bound: Tensor  # [R] what the work takes at least (`work_bound`); four units of the features
    before: Tensor  # [R, J * O] shortest work and waits of the job before each operation
    after: Tensor  # [R, J * O] and after it
    shortest: Tensor  # [R, J * O] time of each operation
    able: Tensor  # [R, J * O] int64 how many machines can do it
    evenly: Tensor  # [R, J * O, M] its work on each machine if it is spread evenly over these


class FlexibleShop(ShopPolicy):
    """Logits of the next job and its machine from the operations in view and the machines, a token each.

    A block: operations attend within their job, as in `models.job_shop`; then operations attend to the machines that
    can do them, and machines to the operations. In the last two, scores have a bias that is linear in the operation's
    time on the machine. The next operations and the machines then attend to each other, and a small network scores each
    pair of them. Times count from the first moment at which an operation can start, in quarters of what the work takes
    at least. So a policy is the same for small and large instances and for all units.

    The policy does not change when jobs or machines are numbered otherwise.

    Arguments:
        width: of the embeddings; a multiple of heads
        blocks: of the three kinds of attention
        heads, feedforward: of every layer
    """

    problem = "fjsp"
    context = FlexibleShopContext

    def __init__(self, width: int, blocks: int, heads: int, feedforward: int):
        check_counts(width=width, blocks=blocks, feedforward=feedforward)
        super().__init__()
        self.embed_operations = FullPrecisionLinear(OPERATION_FEATURES, width)
        self.embed_machines = FullPrecisionLinear(MACHINE_FEATURES, width)
        self.job_wise = nn.ModuleList([ReZeroLayer(width, heads, feedforward) for _ in range(blocks)])
        self.to_machines = nn.ModuleList([CrossLayer(width, heads, feedforward) for _ in range(blocks)])
        self.to_operations = nn.ModuleList([CrossLayer(width, heads, feedforward) for _ in range(blocks)])
        self.between = ReZeroLayer(width, heads, feedforward)
        self.of_next, self.of_machine = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.of_decision = FullPrecisionLinear(DECISION_FEATURES, width)
        self.head = FullPrecisionLinear(width, 1)

    def known(self, instance: Instance) -> dict[str, Tensor]:
        able = instance.times.isfinite()
        count = able.sum(dim=3).clamp(min=1)
        evenly = instance.times.masked_fill(~able, 0) / count[..., None]
        fields = {"shortest": instance.shortest(), "able": count, "evenly": evenly}
        return super().known(instance) | {name: field.flatten(1, 2) for name, field in fields.items()}

    def row_size(self, context: FlexibleShopContext, state: State) -> RowSize:
        _, jobs, ops, machines = context.times.shape
        tokens = state.view.shape[1]
        within_jobs = min(tokens**2, most_dense((jobs, ops)))
        scores = self.between.heads * max(within_jobs, tokens * machines, (jobs + machines) ** 2)
        return RowSize(scores, (tokens + machines + jobs * machines // 4) * self.head.in_features)

    def tokens(self, instance: FlexibleShopContext, state: State) -> list[Tensor]:
        """The tokens [R, v + M, width] of the operations in view and of the machines, after all blocks."""
        _, jobs, ops, _ = instance.times.shape
        view, heads = state.view, self.between.heads
        operations, machines, options = self._features(instance, state)
        cannot = options[..., 0].isinf()
        options, hidden = options.masked_fill(cannot[..., None], 0), bias_against(cannot)[:, None]
        x, y = self.embed_operations(operations), self.embed_machines(machines)
        slots, size = slots_of_jobs(state, jobs, ops)
        # On a GPU, too, where all are in view, unlike `attention_patterns`: nobody has measured what is faster there.
        dense = view.shape[1] ** 2 <= most_dense((jobs, size))
        within_jobs = attention_within_jobs(view, ops, heads, None if dense else (slots, jobs, size))
        for job_wise, to_machines, to_operations in zip(
            self.job_wise, self.to_machines, self.to_operations, strict=True
        ):
            x = job_wise(x, *within_jobs)
            x, y = to_machines(x, y, options, hidden), to_operations(y, x, options.transpose(1, 2), hidden.mT)
        return [torch.cat([x, y], dim=1)]

    def canonical_state(self, instance: Instance | FlexibleShopContext, state: State) -> State:
        """The state with times that count from the first moment at which an operation can start.

        A job is free when its next operation can start, a machine at once if no operation is left that it can do. Jobs
        and machines wait for their releases as long as the work takes, at most.
        """
        finished = state.next_op == instance.waits.shape[2]
        start = next_starts(instance, state).amin(dim=2)
        now = start.masked_fill(finished, torch.inf).amin(dim=1, keepdim=True)
        needed = remaining_times(instance, state).isfinite().any(dim=1)  # [R, M]
        # A search asks with the instance, `forward` with the context.
        bound = instance.bound if isinstance(instance, FlexibleShopContext) else work_bound(instance)
        limit = now + bound[:, None]
        released = state._replace(job_free=instance.release, machine_free=instance.machine_release)
        start = limit_waits(start, next_starts(instance, released).amin(dim=2), limit)
        machine_free = limit_waits(state.machine_free, instance.machine_release, limit)
        free = (start - now).masked_fill(finished, 0.0)
        busy = (machine_free - now).clamp(min=0.0).masked_fill(~needed, 0.0)
        return CanonicalState(*state._replace(job_free=free, machine_free=busy))

    def _features(self, context: FlexibleShopContext, state: State) -> tuple[Tensor, Tensor, Tensor]:
        """Of operations in view [R, v, 6], of machines [R, M, 4], of operations on machines [R, v, M, 2].

        All operations that remain count, in view or not.

        Of an operation: the earliest start of its job's next operation, its own earliest start, its shortest and its
        mean time, the shortest work and waits of its job after it, the share of the machines that can do it. Of a
        machine: how long it stays busy; the remaining work if each operation is spread evenly over the machines that
        can do it; the work that it alone can do; busy time and even work less the largest of all machines. Of an
        operation on a machine: the time, and how much longer it is than the shortest; inf if the machine cannot do it.
        """
        unit = context.bound[:, None] / 4
        times = remaining_times(context, state)  # [R, n, M]
        shortest, count, tail = (
            field.gather(1, state.remaining) for field in (context.shortest, context.able, context.after)
        )
        evenly = of_remaining(context.evenly, state)
        start, head = heads_of(context, state)
        share = count / times.shape[2] * unit
        of_operations = torch.stack([start, head, shortest, evenly.sum(dim=2), tail, share], dim=2)

        load = evenly.sum(dim=1)
        alone = evenly.masked_fill(count[..., None] > 1, 0).sum(dim=1)
        until = state.machine_free + load
        relative = until - until.amax(dim=1, keepdim=True)
        of_machines = torch.stack([state.machine_free, load, alone, relative], dim=2)

        options = torch.stack([times, times - shortest[..., None]], dim=3)
        if state.is_cropped:
            places = places_of_view(state)[..., None]
            of_operations = of_operations.gather(1, places.expand(-1, -1, OPERATION_FEATURES))
            options = options.gather(1, places[..., None].expand(-1, -1, *options.shape[2:]))
        unit = unit[..., None]
        return of_operations / unit, of_machines / unit, options / unit[..., None]

    def logits(self, instance: FlexibleShopContext, state: State, x: Tensor) -> Tensor:
        """[R, J * M]; the logits of jobs without an operation in view and of machines that cannot mean nothing."""
        _, jobs, ops, machines = instance.times.shape
        operations, machine = x[:, :-machines], x[:, -machines:]
        left = sizes_of(state.view // ops, jobs)  # [R, J] in view
        hidden = F.pad(left == 0, (0, machines))
        both = torch.cat([first_tokens(operations, left), machine], dim=1)
        both = self.between(both, bias_against(hidden)[:, None, None, :])
        heads, machine = both[:, :jobs], both[:, jobs:]
        pairs = self.of_next(heads)[:, :, None] + self.of_machine(machine)[:, None]
        pairs = pairs + self.of_decision(self._decisions(instance, state))
        return self.head(F.gelu(pairs)).flatten(1).float()

    def _decisions(self, instance: FlexibleShopContext, state: State) -> Tensor:
        """Features [R, J, M, 5] of the next operations on machines: start, time, end, time beyond the shortest, idling.

        The machine idles from its last operation to the start. Where it cannot do the operation, all are 0.
        """
        times, starts = next_times(instance, state), next_starts(instance, state)
        idle = (starts - state.machine_free[:, None]).clamp(min=0)
        beyond = times - times.amin(dim=2, keepdim=True)
        features = torch.stack([starts, times, starts + times, beyond, idle], dim=3)
        return features.masked_fill(times.isinf()[..., None], 0) / (instance.bound[:, None, None, None] / 4)


class CrossLayer(nn.Module):
    """A layer as `ReZeroLayer`, in which tokens attend to other tokens of their row.

    The bias of the scores is linear in features of the pairs of tokens.
    """

    def __init__(self, width: int, heads: int, feedforward: int):
        super().__init__()
        self.heads = heads
        self.query, self.key_value = nn.Linear(width, width), Linears(2, width, width)
        self.bias = FullPrecisionLinear(OPTION_FEATURES, heads, bias=False)
        self.output_projection = nn.Linear(width, width)
        self.up_projection = nn.Linear(width, feedforward)
        self.down_projection = nn.Linear(feedforward, width)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, y: Tensor, options: Tensor, hidden: Tensor) -> Tensor:
        """x [R, n, width] after it has attended to y [R, m, width].

        Arguments:
            options: features [R, n, m, f] of the pairs
            hidden: a bias [R, 1, n, m] that hides pairs
        """
        a = self.scale
        x = x + a * self.attention(x, y, options, hidden)
        x = x + a * self.down_projection(F.gelu(self.up_projection(x)))
        return x

    def attention(self, x: Tensor, y: Tensor, options: Tensor, hidden: Tensor) -> Tensor:
        query, key, value = (
            each.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for each in (self.query(x), *self.key_value(y).chunk(2, dim=2))
        )
        scores = query * key.shape[-1] ** -0.5 @ key.mT + self.bias(options).permute(0, 3, 1, 2) + hidden
        found = softmax(scores).to(value.dtype) @ value
        return self.output_projection(found.transpose(1, 2).flatten(2))


def remaining_times(instance: Instance | FlexibleShopContext, state: State) -> Tensor:
    """The times of the operations that remain on each machine [R, n, M], inf: it cannot do the operation."""
    return of_remaining(instance.times.flatten(1, 2), state)


def of_remaining(field: Tensor, state: State) -> Tensor:
    """A field [R, J * O, M] of the operations that remain [R, n, M]."""
    return field.gather(1, state.remaining[..., None].expand(-1, -1, field.shape[2]))
