"""Search with a policy: rounds of a beam, of equivalent instances too, then reconstruction."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, repeated
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.runtime.memory import physical_memory
from gumbeldore.sampler.beam import Count
from gumbeldore.sampler.config import GREEDY, SearchConfig
from gumbeldore.sampler.reconstruct import reconstruct
from gumbeldore.sampler.rounds import Rounds, as_solutions, root_context, run_rounds, trie_memory
from gumbeldore.sampler.solutions import Round, Solutions, known
from gumbeldore.seeding import fold


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
    start: Tensor | None = None,
) -> Solutions:
    """Sample or search solutions of a batch of instances of one size.

    Arguments:
        problem, policy: see `gumbeldore.interfaces`
        instances: NamedTuple of tensors [B, ...] on the policy's device
        config: the method
        generator: source of one random key per instance, drawn in their order
        keys: instead of a generator, the keys [B] int64 themselves: an instance's result depends on its own alone
        memory: bytes that the trie must not outgrow; a search with a time limit ends where it would
        start: solutions [B, T] from which a reconstruction begins, instead of the best ones of the rounds, which are
            left out; they are the first solutions found

    A search with a time limit decodes greedily first: this is its one solution if not even one round ends in time, and
    one more where it is better than all of the rounds.

    Raises ValueError without instances, for a method that the problem does not offer, for keys or a start of another
    shape or type, for a start of a method without reconstruction, or if not exactly one of generator and keys is given
    to a stochastic search; and InstanceError if the policy gives no usable probabilities or the problem no finite cost.
    """
    batch = batch_size(instances)
    if batch == 0:
        raise ValueError("search needs at least one instance")
    check_offered(problem, policy, instances, config)
    if start is not None:
        _check_start(start, (batch, problem.horizon(instances)), config)
    keys = _checked_keys(keys, generator, batch, config).to(instances[0].device)
    limit = config.time_limit
    deadline = math.inf if limit is None else time.monotonic() + batch * limit

    was_training = policy.training
    policy.eval()
    try:
        encoded = policy.encode(instances)
        further_states, in_time = Count(), limit is None
        if start is not None:
            solutions = known(start, problem.cost(instances, start).double())
        elif limit is None:
            sampled = _rounds(problem, policy, instances, encoded, config, keys, deadline, memory)
            solutions = as_solutions(sampled, batch)
        else:  # whatever the deadline cuts off, there is a solution
            greedy = _rounds(problem, policy, instances, encoded, GREEDY, keys, math.inf, None)
            solutions = as_solutions(greedy, batch)
            if not _is_greedy(config):
                sampled = _rounds(problem, policy, instances, encoded, config, keys, deadline, memory)
                further_states = sampled.states
                if sampled.rounds:
                    solutions = as_solutions(sampled, batch).with_better(*solutions.best())
                    further_states, in_time = greedy.states, True
        if config.reconstruction is not None:
            after = reconstruct(problem, policy, instances, encoded, config, keys, *solutions.best(), deadline)
            solutions = solutions.with_better(after.actions, after.cost)
            further_states, in_time = further_states.plus(after.states), in_time or after.iterations > 0
    finally:
        policy.train(was_training)
    stats = solutions.stats.plus(further_states)  # waits for the device
    rounds = stats.rounds if in_time else 0
    return solutions._replace(stats=stats._replace(rounds=rounds))


def _is_greedy(config: SearchConfig) -> bool:
    """Whether the rounds are what a search with a time limit begins with."""
    return replace(config, time_limit=None, reconstruction=None) == GREEDY


def check_offered(problem: Problem, policy: Policy, instances: Any, config: SearchConfig) -> None:
    """Raises ValueError if the problem or the machine does not offer what the method needs for instances of this size.

    A machine offers its memory to the trie, which grows with the square of the size.
    """
    most = problem.num_equivalents(instances)
    if config.equivalents > most:
        rule = f"equivalents must be at most {most} for {problem.name} instances of this size"
        raise ValueError(f"{rule}, got {config.equivalents}")
    if config.reconstruction is not None and type(problem).pieces is Problem.pieces:
        raise ValueError(f"there is no random reconstruction for {problem.name}: it does not define pieces")
    needed, there = (size / 2**30 for size in (trie_memory(problem, policy, instances, config), physical_memory()))
    if needed > there:
        large = f"the trie of an instance of {problem.horizon(instances)} decisions takes up to {needed:,.0f} GiB"
        raise ValueError(f"{large}, this machine has {there:,.0f}; a smaller beam width takes less, greedy has none")


def _check_start(start: Tensor, shape: tuple[int, int], config: SearchConfig) -> None:
    if config.reconstruction is None:
        raise ValueError("a start is for a search with a reconstruction, which improves it")
    if start.shape != shape or start.dtype != torch.int64:
        found = f"{start.dtype} of shape {list(start.shape)}"
        raise ValueError(f"start must be torch.int64 actions of shape {list(shape)}, got {found}")


def _checked_keys(keys: Tensor | None, generator: torch.Generator | None, batch: int, config: SearchConfig) -> Tensor:
    """The keys [B] of the instances: those given, or drawn; zeros of a search without random numbers."""
    if keys is not None:
        if generator is not None:
            raise ValueError("give a generator or keys, not both")
        if keys.shape != (batch,) or keys.dtype != torch.int64:
            found = f"{keys.dtype} of shape {list(keys.shape)}"
            raise ValueError(f"keys must be one torch.int64 of each of the {batch} instances, got {found}")
        return keys
    if generator is None:
        if config.random:
            raise ValueError("a stochastic search needs a generator or keys")
        return torch.zeros(batch, dtype=torch.int64)
    return torch.empty(batch, dtype=torch.int64).random_(generator=generator)


def _rounds(
    problem: Problem,
    policy: Policy,
    instances: Any,
    encoded: Any,
    config: SearchConfig,
    keys: Tensor,
    deadline: float,
    memory: int | None,
) -> Rounds:
    """All rounds of all equivalents of the instances: solutions and costs of the instances themselves."""
    beam_instances, beam_keys, restored = instances, keys, None
    if config.equivalents > 1:
        beam_instances, restored = problem.equivalents(instances, config.equivalents)
        encoded = policy.encode(beam_instances)
        others = fold(keys[:, None], "equivalents", torch.arange(1, config.equivalents))
        beam_keys = torch.cat([keys[:, None], others], dim=1).flatten()
    if config.copies > 1:
        beam_instances, encoded = (repeated(each, config.copies) for each in (beam_instances, encoded))
        beam_keys = fold(beam_keys[:, None], torch.arange(config.copies)).flatten()
    context = root_context(problem, policy, beam_instances, encoded, config, keys, deadline)
    found = run_rounds(context, config, beam_keys, memory)
    if restored is None:
        return found
    instance_of_each = repeated(instances, config.rows)

    def of_instances(round_: Round) -> Round:
        actions = restored(round_.actions.view(len(keys) * config.equivalents, config.beam_width, -1))
        cost = problem.cost(instance_of_each, actions.flatten(0, 1)).double()
        return round_._replace(actions=actions.view_as(round_.actions), cost=cost.view_as(round_.cost))

    return found._replace(rounds=[of_instances(round_) for round_ in found.rounds])
