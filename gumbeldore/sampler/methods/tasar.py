"""Take a step and reconsider: the root of the rounds moves along the best solution so far [TASAR]."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import repeated
from gumbeldore.runtime.checked import positive
from gumbeldore.sampler.beam import Leaves, Root
from gumbeldore.sampler.methods.method import BeamRounds, at_least_one
from gumbeldore.sampler.solutions import Round, cheapest, solutions_at
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie import Trie
from gumbeldore.sampler.trie_search import Beams, TrieSearch, trie_bytes
from gumbeldore.sampler.updates import without_replacement


@dataclass(frozen=True)
class Tasar(BeamRounds):
    """Sampling without replacement from one root after the other, each a few decisions along the best solution so far.

    Until a deadline, the time left is shared out among the roots that are left.

    Arguments:
        beam_width: K, solutions per round
        num_rounds: rounds from each root
        replan_steps: decisions from one root to the next
        top_p_end: nucleus of all rounds
        temperature: tau, by which the policy's logits are divided [SBS, eq. 5]; auto: 1 for solutions of at most 50
            decisions, 50 / T for those of T
    """

    beam_width: int = at_least_one(32)
    num_rounds: int = at_least_one(4)
    replan_steps: int = at_least_one(10)
    _: KW_ONLY
    top_p_end: float = positive(1.0, highest=1)
    temperature: float | str = positive(1.0, word="auto")

    @property
    def beams(self) -> Beams:
        """One stochastic beam."""
        return Beams(self.beam_width, temperature=self.temperature)

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        search = TrieSearch(task, self.beams, self.size(task)._replace(rounds=self.num_rounds))
        best = Incumbent.none(task)
        for depth in range(0, task.horizon, self.replan_steps):
            if depth > 0:
                search.move(best.root(task, depth, self.beam_width), self.replan_steps, self.num_rounds)
            last = depth + self.replan_steps >= task.horizon
            until = self._until(task, depth)
            for number in itertools.count(1):
                leaves, found = search.sample(self.top_p_end)
                best = best.or_better(leaves, found, depth)
                yield found
                finished = number >= self.num_rounds if until is None else time.monotonic() >= until
                if finished and last:
                    return
                search.learn(self.update, leaves, found)
                if search.exhausted:
                    return
                if finished:
                    break

    def _until(self, task: SearchTask, depth: int) -> float | None:
        """When the time of the root at this depth is over; None: it has num_rounds rounds."""
        if task.deadline == math.inf:
            return None
        now = time.monotonic()
        return now + (task.deadline - now) / math.ceil((task.horizon - depth) / self.replan_steps)

    def count(self, horizon: int) -> int:
        return self.num_rounds * math.ceil(horizon / self.replan_steps)

    def trie_memory(self, task: SearchTask) -> int:
        """Every root has fewer depths below it, but more nodes."""
        steps, horizon = self.replan_steps, task.horizon
        roots = range(math.ceil(horizon / steps))
        largest = max(roots, key=lambda root: ((root + 1) * (horizon - root * steps), root))
        rounds = (largest + 1) * self.num_rounds
        return trie_bytes(task, self.beams, self.size(task)._replace(horizon=horizon - largest * steps, rounds=rounds))

    def update(self, trie: Trie, leaves: Leaves, objective: Tensor) -> None:
        """What the trie learns from a round: that its leaves are taken."""
        without_replacement(trie, leaves)


class Incumbent(NamedTuple):
    """The best solution so far of each beam: the first of the cheapest."""

    cost: Tensor  # [B] float64
    actions: Tensor  # [B, T]
    node: Tensor  # [T+1, B] trie slots along it

    @classmethod
    def none(cls, task: SearchTask) -> Incumbent:
        """Before the first round."""
        cost = torch.full((task.batch,), math.inf, dtype=torch.float64, device=task.keys.device)
        actions = cost.new_zeros(task.batch, task.horizon, dtype=torch.int64)
        return cls(cost, actions, actions.new_zeros(task.horizon + 1, task.batch))

    def or_better(self, leaves: Leaves, found: Round, depth: int) -> Incumbent:
        """After one more round from a root at this depth."""
        cost, place = cheapest(found.cost, leaves.valid)
        better = cost < self.cost
        beam = leaves.path.gather(2, place.expand(len(leaves.path), -1)[..., None])  # positions along the best leaf
        node = leaves.node.gather(2, beam).squeeze(2).where(better, self.node[depth:])
        return Incumbent(
            cost.where(better, self.cost),
            solutions_at(place, found.actions).where(better[:, None], self.actions),
            torch.cat([self.node[:depth], node]),  # the incumbent passes through the root
        )

    def root(self, task: SearchTask, depth: int, width: int) -> Root:
        """Commit to so many of its decisions: the node that they lead to."""
        prefix = self.actions[:, :depth].repeat_interleave(width, dim=0)  # [B*K, depth]
        state = task.problem.replay(repeated(task.instances, width), prefix)
        return Root(
            self.node[depth], state, task.horizon - depth, lambda decisions: torch.cat([prefix, decisions], dim=1)
        )
