"""The beams of a search, the trie that they grow, and the root from which they start."""

from __future__ import annotations

from typing import NamedTuple

import torch

from gumbeldore.batches import repeated
from gumbeldore.interfaces import Policy
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.beam import (
    NO_COST,
    Count,
    Leaves,
    Root,
    SearchContext,
    Select,
    check_instances,
    most_likely,
    sample_round,
)
from gumbeldore.sampler.noise import Noise, gumbel
from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.updates import Update

UNTEMPERED = 50  # decisions of a solution: up to so many, the temperature auto is 1


class TrieFull(Exception):
    """The next round would not fit into the memory that the trie may take."""


class Beams(NamedTuple):
    """The beams of an instance in one round; by default one stochastic beam [SBS]."""

    width: int  # K, of each beam
    copies: int = 1  # how many beams an instance has
    noise: Noise = gumbel
    temperature: float | str = 1.0  # tau, by which the policy's logits are divided [SBS, eq. 5]
    select: Select = most_likely


def beginning(task: SearchTask, width: int) -> Root:
    """The root of solutions without a decision."""
    slot = torch.zeros(task.batch, dtype=torch.int64, device=task.keys.device)
    state = task.problem.reset(repeated(task.instances, width))
    return Root(slot, state, task.horizon, lambda decisions: decisions)


class Size(NamedTuple):
    """How large a trie is at first."""

    horizon: int  # decisions below the root
    rounds: int  # for which it has room
    once: bool  # one round alone is searched: the trie need not remember its probabilities


class TrieSearch:
    """Searches round by round.

    Arguments:
        root: where the rounds start; None: at the beginning of a solution
    """

    def __init__(self, task: SearchTask, beams: Beams, size: Size, root: Root | None = None):
        self.task, self.beams = task.repeated(beams.copies), beams
        instance, root = repeated(self.task.instances, beams.width), root or beginning(self.task, beams.width)
        temperature = temperature_of(beams.temperature, task.horizon)
        self.context = SearchContext(self.task, instance, root, beams.width, temperature, beams.select)
        self.trie = _empty_trie(self.task, beams, size, self.task.batch, task.keys.device)
        self.draws = 1 + size.horizon  # of a round: for the root and each depth, whichever are left
        self.number = 0  # of the next round

    def sample(self, top_p: float = 1.0) -> tuple[Leaves, Round]:
        """The next round, with a nucleus.

        Raises OutOfTime at the deadline, TrieFull, and InstanceError if the policy gives no usable probabilities or the
        problem no finite cost.
        """
        filled = self.number * self.beams.width  # slots, by earlier rounds
        if filled + self.beams.width > self.trie.slots:
            self._double()
        perturb, root_gumbel = self.beams.noise(self.task.keys, self.number * self.draws)
        leaves, states = sample_round(self.context, self.trie, filled, perturb, root_gumbel, top_p)
        self.number += 1
        return leaves, self._round(leaves, states)

    def learn(self, update: Update, leaves: Leaves, found: Round) -> None:
        """What a round teaches the next ones: the one place where costs become objectives.

        Raises InstanceError where the update breaks the trie.
        """
        update(self.trie, leaves, -found.cost)
        broken = (~self.trie.advantage.isfinite() | self.trie.log_mass.isnan()).any(dim=2).any(dim=0)
        check_instances(self.task, broken, "the update made log-probabilities of the trie NaN or infinite")

    @property
    def exhausted(self) -> bool:
        """Whether all solutions below all roots have been sampled."""
        return not trie_ops.unsampled(self.trie, self.context.root.slot).any()

    def move(self, root: Root, depth: int, rounds: int) -> None:
        """Start from a node that lies so many decisions below the present root, for so many rounds."""
        self.context = self.context._replace(root=root)
        self.trie = trie_ops.below(self.trie, depth)
        if (slots := (self.number + rounds) * self.beams.width) > self.trie.slots:
            self.trie = trie_ops.grow(self.trie, slots)

    def _double(self) -> None:
        budget = self.task.trie_budget
        if budget is not None and 2 * trie_ops.memory(self.trie) > budget:
            raise TrieFull
        self.trie = trie_ops.grow(self.trie, 2 * self.trie.slots)

    def _round(self, leaves: Leaves, states: Count) -> Round:
        """The solutions of the leaves, with their costs."""
        actions = self.context.root.complete(leaves.actions.flatten(0, 1))
        cost = self.task.problem.cost(self.context.instance, actions).double().view(leaves.valid.shape)
        wrong = (leaves.valid & ~cost.isfinite()).any(dim=1)
        check_instances(self.task, wrong, NO_COST)
        actions = actions.view(*leaves.valid.shape, -1)
        return Round(leaves.actions, actions, cost, leaves.log_prob, leaves.phi, leaves.gumbel, leaves.valid, states)


def temperature_of(temperature: float | str, horizon: int) -> float:
    """tau; "auto" is 1 for solutions of at most 50 decisions, and 50 / T for those of T.

    At tau = 1 without a nucleus, samples of long solutions are worse than the greedy one (docs/decisions.md): they
    differ from it in many decisions. 50 / T is meant to keep this number about the same. Not in the papers.
    """
    return min(1.0, UNTEMPERED / horizon) if isinstance(temperature, str) else temperature


def trie_bytes(task: SearchTask, beams: Beams, size: Size) -> int:
    """Bytes that the tries of each of the task's instances take."""
    return trie_ops.memory(_empty_trie(task, beams, size, beams.copies, "meta"))


def _empty_trie(task: SearchTask, beams: Beams, size: Size, batch: int, device: torch.device | str) -> trie_ops.Trie:
    """The trie of so many beams."""
    return trie_ops.create(
        batch=batch,
        horizon=size.horizon,
        slots=size.rounds * beams.width,
        actions=task.problem.num_actions(task.instances),
        dtype=_log_prob_dtype(task.policy),
        device=device,
        keep=not size.once,
        copies=beams.copies,
    )


def _log_prob_dtype(policy: Policy) -> torch.dtype:
    """Stored log-probabilities are as precise as the policy's weights; float64 for a policy without any."""
    dtypes = [parameter.dtype for parameter in policy.parameters() if parameter.is_floating_point()]
    return torch.float64 if not dtypes or torch.float64 in dtypes else torch.float32
