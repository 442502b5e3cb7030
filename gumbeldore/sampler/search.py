"""Search with a policy: any method, on a batch of instances."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gumbeldore.batches import batch_size
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.runtime.memory import physical_memory
from gumbeldore.sampler.methods import Method
from gumbeldore.sampler.solutions import Solutions
from gumbeldore.sampler.task import SearchTask


@torch.no_grad()
def search(
    problem: Problem,
    policy: Policy,
    instances: Any,
    method: Method,
    generator: torch.Generator | None = None,
    *,
    keys: Tensor | None = None,
    trie_budget: int | None = None,
    start: Tensor | None = None,
) -> Solutions:
    """Sample or search solutions of a batch of instances of one size.

    Arguments:
        problem, policy: see `gumbeldore.interfaces`
        instances: NamedTuple of tensors [B, ...] on the policy's device
        method: how to search, of `gumbeldore.methods`
        generator: source of one random key per instance, drawn in their order
        keys: instead of a generator, the keys [B] int64 themselves: an instance's result depends on its own alone
        trie_budget: bytes that the trie must not outgrow; a search with a time limit ends where it would
        start: solutions [B, T] that an `Improvement` improves, instead of those of its own start, which is left out;
            they are the first solutions found

    Raises ValueError without instances, for what is no Method, for a method that the problem does not offer, for keys
    or a start of another shape or type, for a start of a method that improves none, or if not exactly one of
    generator and keys is given to a stochastic search; and InstanceError if the policy gives no usable probabilities or
    the problem no finite cost.
    """
    if batch_size(instances) == 0:
        raise ValueError("search needs at least one instance")
    if not isinstance(method, Method):
        raise ValueError(f"method must be a Method, such as methods.Greedy(), got {method!r}")
    check_offered(problem, policy, instances, method)
    keys = _checked_keys(keys, generator, batch_size(instances), method).to(instances[0].device)
    was_training = policy.training
    policy.eval()
    try:
        encoded = policy.encode(instances)
        start = _checked_start(start, method, problem.horizon(instances), len(keys))
        return method(SearchTask(problem, policy, instances, encoded, keys, keys, start=start, trie_budget=trie_budget))
    finally:
        policy.train(was_training)


def check_offered(problem: Problem, policy: Policy, instances: Any, method: Method) -> None:
    """Raises ValueError if the problem or the machine does not offer what the method needs for instances of this size.

    A machine offers its memory to the trie, which grows with the square of the size.
    """
    task = unsearched(problem, policy, instances)
    method.check(task)
    needed, there = method.trie_memory(task) / 2**30, physical_memory() / 2**30
    if needed > there:
        large = f"the trie of an instance of {task.horizon} decisions takes up to {needed:,.0f} GiB"
        raise ValueError(f"{large}, this machine has {there:,.0f}; a smaller beam width takes less, greedy has none")


def unsearched(problem: Problem, policy: Policy, instances: Any) -> SearchTask:
    """Instances that a method is asked about, before they are encoded and have keys."""
    nothing = torch.empty(0, dtype=torch.int64)
    return SearchTask(problem, policy, instances, encoded=None, keys=nothing, given_keys=nothing)


def _checked_start(start: Tensor | None, method: Method, horizon: int, batch: int) -> Tensor | None:
    """The start, if the method takes one and it has the right shape and type."""
    if start is None:
        return None
    if not method.takes_start:
        rule = "a start is for Reconstruct or LocalSearch, which improve it"
        raise ValueError(f"{rule}, not for {type(method).__name__}")
    if start.shape != (batch, horizon) or start.dtype != torch.int64:
        found = f"{start.dtype} of shape {list(start.shape)}"
        raise ValueError(f"start must be torch.int64 actions of shape {[batch, horizon]}, got {found}")
    return start


def _checked_keys(keys: Tensor | None, generator: torch.Generator | None, batch: int, method: Method) -> Tensor:
    """The keys [B] of the instances: those given, or drawn; zeros of a search without random numbers."""
    if keys is not None:
        if generator is not None:
            raise ValueError("give a generator or keys, not both")
        if keys.shape != (batch,) or keys.dtype != torch.int64:
            found = f"{keys.dtype} of shape {list(keys.shape)}"
            raise ValueError(f"keys must be one torch.int64 of each of the {batch} instances, got {found}")
        return keys
    if generator is None:
        if method.random:
            raise ValueError("a stochastic search needs a generator or keys")
        return torch.zeros(batch, dtype=torch.int64)
    return torch.empty(batch, dtype=torch.int64).random_(generator=generator)
