"""Rounds of one beam loop over one trie [SBS; GD, algorithm 2]."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, repeated
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.beam import (
    Count,
    Leaves,
    OutOfTime,
    Perturb,
    SearchContext,
    check_instances,
    most_likely,
    sample_round,
)
from gumbeldore.sampler.config import SearchConfig, nucleus_of
from gumbeldore.sampler.diverse import diverse
from gumbeldore.sampler.gumbel import gumbel_with_maximum
from gumbeldore.sampler.rejection import Rejection
from gumbeldore.sampler.solutions import Round, SearchStats, Solutions
from gumbeldore.sampler.tasar import Roots
from gumbeldore.seeding import gumbel_noise


class Rounds(NamedTuple):
    """What the rounds found."""

    rounds: list[Round]
    states: Count  # how they got their action probabilities
    rejected: int | Tensor
    full: bool  # a search with a time limit ended before it, as the trie would have outgrown the memory


def run_rounds(context: SearchContext, config: SearchConfig, keys: Tensor, memory: int | None = None) -> Rounds:
    """Round after round until the last one, the deadline, the end of all instances or of the memory.

    Arguments:
        context: the search from the first root
        keys: [B] of the beams; independent samples and groups are B / b beams of each of b instances
        memory: bytes that the trie must not outgrow if rounds go on until the deadline
    """
    trie = _trie(context.batch, context.horizon, context.actions, context.policy, config, keys.device)
    roots = Roots(context, config)
    rejection = Rejection(config.distinct, config.copies) if config.distinct else None
    removes_leaves = config.update is not None or rejection is not None
    rounds: list[Round] = []
    total, full = Count(), False

    for round_ in itertools.count():
        slots = trie.parent.shape[2]
        if (round_ + 1) * config.width > slots:
            certain = roots.rounds == 0  # from a new root num_rounds are; until a deadline, nobody knows how many more
            full = not certain and memory is not None and 2 * trie_ops.memory(trie) > memory
            if full:
                break
            trie = trie_ops.grow(trie, slots + (config.num_rounds * config.width if certain else slots))
        context = roots.context
        place = round_ * (roots.horizon + 1)  # a draw for the root and each depth, whichever are left
        perturb, root_gumbel = _gumbel(keys, place, config) if config.stochastic else _unperturbed(keys)
        nucleus = nucleus_of(config, roots.rounds)
        try:
            leaves, count = sample_round(context, trie, round_ * config.width, perturb, root_gumbel, nucleus)
        except OutOfTime as late:
            total = total.plus(late.count)
            break
        total = total.plus(count)
        found = _solutions(context, leaves)
        if rejection:
            found = found._replace(valid=rejection(trie, leaves.valid, found.actions))
        rounds.append(found)
        roots.add(found, leaves)
        if roots.finished and roots.last:
            break
        if config.update is not None:
            config.update(trie, leaves, -found.cost)  # the one place where costs become objectives
            broken = (~trie.advantage.isfinite() | trie.log_mass.isnan()).any(dim=2).any(dim=0)
            check_instances(context, broken, "the update made log-probabilities of the trie NaN or infinite")
        if removes_leaves and not trie_ops.unsampled(trie, context.root).any():
            break
        if roots.finished and not roots.last:  # the time of the last one may have ended during the update
            roots.move()
            trie = trie_ops.below(trie, roots.steps)
    return Rounds(rounds, total, rejection.rejected if rejection else 0, full)


def _solutions(context: SearchContext, leaves: Leaves) -> Round:
    """The leaves of a round with their costs. Raises InstanceError for one that is not finite."""
    actions = context.complete(leaves.actions.flatten(0, 1))
    cost = context.problem.cost(context.instance, actions).double().view(context.batch, context.width)
    wrong = (leaves.valid & ~cost.isfinite()).any(dim=1)
    check_instances(context, wrong, "the cost of a solution is NaN or infinite")
    actions = actions.view(context.batch, context.width, -1)
    return Round(leaves.actions, actions, cost, leaves.log_prob, leaves.phi, leaves.gumbel, leaves.valid)


def root_context(
    problem: Problem,
    policy: Policy,
    instances: Any,
    encoded: Any,
    config: SearchConfig,
    keys: Tensor,
    deadline: float = math.inf,
) -> SearchContext:
    """The search from the beginning of solutions.

    Arguments:
        instances: [B, ...] a beam each
        encoded: what the policy's `encode` makes of them
        keys: [b] the random keys that the instances came with, for messages
        deadline: on the clock `time.monotonic`
    """
    batch = batch_size(instances)
    device = instances[0].device
    instance = repeated(instances, config.width)
    return SearchContext(
        problem=problem,
        policy=policy,
        instance=instance,
        encoded=encoded,
        root=torch.zeros(batch, dtype=torch.int64, device=device),
        state=problem.reset(instance),
        complete=lambda decisions: decisions,
        keys=keys,
        batch=batch,
        width=config.width,
        horizon=problem.horizon(instances),
        actions=problem.num_actions(instances),
        temperature=config.temperature,
        select=diverse(config.groups, config.diversity) if config.groups > 1 else most_likely,
        deadline=deadline,
    )


def trie_memory(problem: Problem, policy: Policy, instances: Any, config: SearchConfig) -> int:
    """Bytes that the tries of each of the instances will take at most: every root has fewer depths but more nodes."""
    beams = config.copies * config.equivalents
    horizon, actions = problem.horizon(instances), problem.num_actions(instances)
    steps = config.replan_steps or horizon
    largest = max(range(math.ceil(horizon / steps)), key=lambda root: ((root + 1) * (horizon - root * steps), root))
    return trie_ops.memory(_trie(beams, horizon, actions, policy, config, "meta", largest))


def _trie(
    batch: int, horizon: int, actions: int, policy: Policy, config: SearchConfig, device, root: int = 0
) -> trie_ops.Trie:
    """The empty trie of so many beams below a root, with room for the rounds from it and from those before.

    Arguments:
        horizon: decisions below the first root
        root: from 0 on
    """
    keep = config.rounds(horizon) > 1 or config.anytime
    height, slots = horizon - root * (config.replan_steps or 0), (root + 1) * config.num_rounds * config.width
    return trie_ops.create(batch, height, slots, actions, _log_prob_dtype(policy), device, keep, config.copies)


def _gumbel(keys: Tensor, place: int, config: SearchConfig) -> tuple[Perturb, Tensor]:
    """Gumbel noise of one round: the beam becomes a sample without replacement [SBS, algorithm 1].

    Arguments:
        place: of its first draws among those of an instance
    """

    def perturb(phi: Tensor, parent: Tensor, depth: int) -> Tensor:
        return gumbel_with_maximum(phi, parent, gumbel_noise(keys, place + 1 + depth, phi.shape[1:]))

    root = gumbel_noise(keys, place, ()).flatten()
    return perturb, root if config.sampled_root else torch.zeros_like(root)


def _unperturbed(keys: Tensor) -> tuple[Perturb, Tensor]:
    """No noise: a plain beam search."""
    return lambda phi, parent, depth: phi, torch.zeros(len(keys), dtype=torch.float64, device=keys.device)


def _log_prob_dtype(policy: Policy) -> torch.dtype:
    """Stored log-probabilities are as precise as the policy's weights; float64 for a policy without any."""
    dtypes = [parameter.dtype for parameter in policy.parameters() if parameter.is_floating_point()]
    return torch.float64 if not dtypes or torch.float64 in dtypes else torch.float32


def as_solutions(found: Rounds, batch: int) -> Solutions:
    """Rounds side by side; the beams of each of b instances (samples, groups, equivalents) become one row."""

    def join(tensors: list[Tensor]) -> Tensor:
        return torch.cat([t.reshape(batch, -1, *t.shape[2:]) for t in tensors], dim=1)

    stats = SearchStats(
        evaluations=found.states.evaluated,
        forced=int(found.states.forced),
        reused=int(found.states.reused),
        repeated=int(found.states.repeated),
        rejected=int(found.rejected),
        rounds=len(found.rounds),
        full=found.full,
    )
    return Solutions(
        actions=join([each.actions for each in found.rounds]),
        costs=join([each.cost for each in found.rounds]),
        log_probs=join([each.log_prob for each in found.rounds]),
        round_log_probs=join([each.phi for each in found.rounds]),
        gumbels=join([each.gumbel for each in found.rounds]),
        valid=join([each.valid for each in found.rounds]),
        round=join([torch.full_like(each.valid, r, dtype=torch.int64) for r, each in enumerate(found.rounds)]),
        stats=stats,
    )
