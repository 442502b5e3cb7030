"""Sampling solutions from a policy: rounds of one beam loop over one trie [SBS; GD, algorithm 2]."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.interfaces import Policy, Problem, batch_size, take
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.beam import (
    Count,
    Leaves,
    OutOfTime,
    Perturb,
    SearchContext,
    check_instances,
    sample_round,
)
from gumbeldore.sampler.config import SearchConfig, nucleus_of
from gumbeldore.sampler.gumbel import gumbel_with_maximum
from gumbeldore.sampler.updates import without_replacement
from gumbeldore.seeding import fold, gumbel_noise

GREEDY = SearchConfig(1, stochastic=False)


class SearchStats(NamedTuple):
    """Totals over all instances of a call."""

    evaluations: int  # states the network was asked about
    forced: int  # new states with a single legal action, which need no network
    reused: int  # states whose probabilities an earlier round had left in the trie
    repeated: int  # new states that another sequence of decisions had reached, too
    rounds: int
    exhausted: int  # beams (with replacement: samples) known to have no further solution at the end
    full: bool  # whether a search with a time limit ended before that, as the trie would have outgrown the memory
    seconds: float  # wall-clock of the call


class Solutions(NamedTuple):
    """What a search found; round by round, in each round by decreasing perturbed log-probability."""

    actions: Tensor  # [B, L, T] int64
    costs: Tensor  # [B, L] float64, lower is better
    log_probs: Tensor  # [B, L] float64 of all decisions under the policy
    round_log_probs: Tensor  # [B, L] under the distribution of the round; what the estimators need
    gumbels: Tensor  # [B, L] perturbed log-probabilities
    valid: Tensor  # [B, L] False: the instance had no further solution (the entry means nothing)
    round: Tensor  # [B, L] int64 round of each solution, from 0
    stats: SearchStats

    def best(self) -> tuple[Tensor, Tensor]:
        """The first of the cheapest solutions of each instance: actions [B, T] and cost [B]."""
        cost, index = self.costs.masked_fill(~self.valid, math.inf).min(dim=1)
        row = torch.arange(len(index), device=index.device)
        return self.actions[row, index], cost


@torch.no_grad()
def search(
    problem: Problem,
    policy: Policy,
    instances: Any,
    config: SearchConfig,
    generator: torch.Generator | None = None,
    *,
    keys: Tensor | None = None,
    memory: int | None = None,
) -> Solutions:
    """Sample or search solutions of a batch of instances of one size.

    Arguments:
        problem, policy: see `gumbeldore.interfaces`
        instances: NamedTuple of tensors [B, ...] on the policy's device
        config: the method
        generator: source of one random key per instance, drawn in their order
        keys: instead of a generator, the keys [B] int64 themselves: an instance's result depends on its own alone
        memory: bytes that the trie must not outgrow; a search with a time limit ends where it would

    A search with a time limit decodes greedily first: this is its one solution if not even one round ends in time.

    Raises ValueError without instances, or if not exactly one of generator and keys is given to a stochastic search,
    and InstanceError if the policy gives no usable probabilities or the problem no finite cost.
    """
    begin = time.perf_counter()
    batch = batch_size(instances)
    if batch == 0:
        raise ValueError("search needs at least one instance")
    keys = instance_keys = _checked_keys(keys, generator, batch, config).to(instances[0].device)
    greedy, deadline = None, math.inf
    if config.time_limit is not None:
        deadline = time.monotonic() + batch * config.time_limit
        greedy = search(problem, policy, instances, GREEDY, keys=keys)  # if not even one round ends in time
    if config.copies > 1:
        rows = torch.arange(batch, device=keys.device).repeat_interleave(config.copies)
        instances = take(instances, rows)
        keys = fold(keys[:, None], torch.arange(config.copies)).flatten()

    was_training = policy.training
    policy.eval()
    try:
        context = _search_context(problem, policy, instances, config.width, instance_keys, deadline)
        rounds, trie, count, full = _run_rounds(context, config, instances, keys, memory)
    finally:
        policy.train(was_training)
    if not rounds:
        assert greedy is not None
        return greedy._replace(stats=greedy.stats._replace(seconds=time.perf_counter() - begin))
    stats = SearchStats(
        evaluations=count.evaluated + (greedy.stats.evaluations if greedy else 0),
        forced=int(count.forced),
        reused=int(count.reused),
        repeated=int(count.repeated),
        rounds=len(rounds),
        exhausted=int((trie.log_mass[0][:, 0] == -math.inf).sum()),
        full=full,
        seconds=time.perf_counter() - begin,  # the numbers above have waited for the device
    )
    return _collect(rounds, batch, stats)


def _checked_keys(keys: Tensor | None, generator: torch.Generator | None, batch: int, config: SearchConfig) -> Tensor:
    """The keys [B] of the instances: those given, or drawn; zeros of a search without random numbers."""
    if keys is not None:
        if generator is not None:
            raise ValueError("give a generator or keys, not both")
        return keys
    if generator is None:
        if config.stochastic:
            raise ValueError("a stochastic search needs a generator or keys")
        return torch.zeros(batch, dtype=torch.int64)
    return torch.empty(batch, dtype=torch.int64).random_(generator=generator)


def _run_rounds(
    context: SearchContext, config: SearchConfig, instances: Any, keys: Tensor, memory: int | None
) -> tuple[list[tuple[Leaves, Tensor]], trie_ops.Trie, Count, bool]:
    """Round after round until the last one, the deadline, the end of all instances or of the memory.

    Arguments:
        instances: [B, ...] a beam each; independent samples are B / b beams of each of b instances
        keys: [B] of the beams
    """
    width = config.width
    trie = _empty_trie(context.problem, context.policy, instances, config, len(context.keys), keys.device)

    rounds, total, full = [], Count(), False
    for round_ in itertools.count():
        if (round_ + 1) * width > trie.parent.shape[2]:
            full = memory is not None and 2 * trie_ops.memory(trie) > memory
            if full:
                break
            trie = trie_ops.grow(trie, 2 * trie.parent.shape[2])
        deterministic = not config.stochastic or (config.first_round_deterministic and round_ == 0)
        perturb, root_gumbel = _most_likely(keys) if deterministic else _gumbel(keys, round_, config, context)
        try:
            nucleus = nucleus_of(config, round_)
            leaves, count = sample_round(context, trie, round_ * width, perturb, root_gumbel, nucleus)
        except OutOfTime:
            break
        cost = context.problem.cost(context.instance, leaves.actions.flatten(0, 1)).double().view(context.batch, width)
        wrong = (leaves.valid & ~cost.isfinite()).any(dim=1)
        check_instances(context, wrong, "the cost of a solution is NaN or infinite")
        rounds.append((leaves, cost))
        total = total.plus(count)
        if config.time_limit is None and round_ + 1 >= config.num_rounds:
            break
        if config.update is not None:
            # The leaves of a deterministic first round are no sample, of which nothing can be estimated.
            update = without_replacement if config.first_round_deterministic and round_ == 0 else config.update
            update(trie, leaves, -cost)  # the one place where costs become objectives
            if not (trie.log_mass[0][:, 0] > -math.inf).any():
                break
    return rounds, trie, total, full


def trie_memory(problem: Problem, policy: Policy, instances: Any, config: SearchConfig) -> int:
    """Bytes that the trie of each of the instances will take."""
    return trie_ops.memory(_empty_trie(problem, policy, instances, config, 1, "meta"))


def _empty_trie(
    problem: Problem, policy: Policy, instances: Any, config: SearchConfig, count: int, device
) -> trie_ops.Trie:
    """The trie of `count` instances."""
    slots = config.num_rounds * config.width
    reread = config.num_rounds > 1 or config.time_limit is not None
    horizon, actions = problem.horizon(instances), problem.num_actions(instances)
    batch, dtype = count * config.copies, _log_prob_dtype(policy)
    return trie_ops.create(batch, horizon, slots, actions, dtype, device, keep=reread, copies=config.copies)


def _search_context(
    problem: Problem, policy: Policy, instances: Any, width: int, keys: Tensor, deadline: float = math.inf
) -> SearchContext:
    batch = batch_size(instances)
    rows = torch.arange(batch, device=instances[0].device).repeat_interleave(width)
    instance = take(instances, rows)
    return SearchContext(
        problem=problem,
        policy=policy,
        instance=instance,
        encoded=policy.encode(instances),
        state=problem.reset(instance),
        keys=keys,
        batch=batch,
        width=width,
        horizon=problem.horizon(instances),
        actions=problem.num_actions(instances),
        deadline=deadline,
    )


def _gumbel(keys: Tensor, round_: int, config: SearchConfig, context: SearchContext) -> tuple[Perturb, Tensor]:
    """Gumbel noise of one round: the beam becomes a sample without replacement [SBS, algorithm 1]."""
    first = round_ * (context.horizon + 1)

    def perturb(phi: Tensor, parent: Tensor, depth: int) -> Tensor:
        return gumbel_with_maximum(phi, parent, gumbel_noise(keys, first + 1 + depth, phi.shape[1:]))

    root = gumbel_noise(keys, first, ()).flatten()
    return perturb, root if config.sampled_root else torch.zeros_like(root)


def _most_likely(keys: Tensor) -> tuple[Perturb, Tensor]:
    """No noise: a plain beam search."""
    return lambda phi, parent, depth: phi, torch.zeros(len(keys), dtype=torch.float64, device=keys.device)


def _log_prob_dtype(policy: Policy) -> torch.dtype:
    """Stored log-probabilities are as precise as the policy's weights; float64 for a policy without any."""
    dtypes = [parameter.dtype for parameter in policy.parameters() if parameter.is_floating_point()]
    return torch.float64 if not dtypes or torch.float64 in dtypes else torch.float32


def _collect(rounds: list[tuple[Leaves, Tensor]], batch: int, stats: SearchStats) -> Solutions:
    """Rounds side by side; independent copies of an instance become its beam again."""

    def join(tensors: list[Tensor]) -> Tensor:
        return torch.cat([t.reshape(batch, -1, *t.shape[2:]) for t in tensors], dim=1)

    leaves = [leaves for leaves, _ in rounds]
    return Solutions(
        actions=join([x.actions for x in leaves]),
        costs=join([cost for _, cost in rounds]),
        log_probs=join([x.log_prob for x in leaves]),
        round_log_probs=join([x.phi for x in leaves]),
        gumbels=join([x.gumbel for x in leaves]),
        valid=join([x.valid for x in leaves]),
        round=join([torch.full_like(x.valid, r, dtype=torch.int64) for r, x in enumerate(leaves)]),
        stats=stats,
    )
