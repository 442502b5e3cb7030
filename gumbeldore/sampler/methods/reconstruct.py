"""Random reconstruction [RRC], many pieces at once: the best solution is cut into pieces, which are decoded anew.

A piece that is better replaces the old one. [RRC] decodes one random piece at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.interfaces import HasPieces, Pieces
from gumbeldore.runtime.checked import at_least
from gumbeldore.runtime.errors import InstanceError
from gumbeldore.sampler.beam import Count, OutOfTime, Root
from gumbeldore.sampler.methods.improvement import Improvement
from gumbeldore.sampler.methods.method import MOST, at_least_one
from gumbeldore.sampler.noise import no_noise
from gumbeldore.sampler.solutions import Round, Solutions, cheapest, solutions_at
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie_search import Beams, Size, TrieSearch
from gumbeldore.seeding import fold, uniform_noise

SCORES = 2**23  # of actions in all pieces that are decoded together: about 1.3 GB


@dataclass(frozen=True)
class Reconstruct(Improvement):
    """Random reconstruction of the best solution that another method finds [RRC].

    Arguments:
        start: the method whose solutions are improved
        iterations: rounds of cutting all instances' solutions into pieces and decoding these; with a time limit they
            go on until it has passed
        longest_piece: decisions in a piece, at most; None: all. Each iteration draws a length, uniformly
        shortest_piece: decisions in a piece, at least (or the longest, if that is less)
        piece_width: beam width of the search that decodes a piece; 1: greedily
    """

    iterations: int = at_least_one(100)
    longest_piece: int | None = at_least(1, None, MOST)
    shortest_piece: int = at_least_one(4)
    piece_width: int = at_least_one(1)

    def check(self, task: SearchTask) -> None:
        super().check(task)
        if not isinstance(task.problem, HasPieces):
            raise ValueError(f"there is no random reconstruction for {task.problem.name}: it does not define pieces")

    def improved(self, task: SearchTask, solutions: Solutions) -> Solutions:
        """Given solutions, and one more where the reconstruction of the best is better.

        Cut the solutions into pieces, decode all of these in few batches, keep those that are better; many times. The
        pieces of a solution have no decision in common, so that all that are better can be kept.
        """
        actions, cost = solutions.best()
        states, done = Count(), 0
        try:
            for iteration in itertools.count() if task.deadline < math.inf else range(self.iterations):
                actions, cost, asked = self._iterate(task, iteration, actions, cost)
                states, done = states.plus(asked), iteration + 1
        except OutOfTime as late:
            states = states.plus(late.states)
        return solutions.with_better(actions, cost).after(states, done)

    def _iterate(self, task: SearchTask, iteration: int, actions: Tensor, cost: Tensor) -> tuple[Tensor, Tensor, Count]:
        """The solutions after an iteration, and how they got their action probabilities.

        All pieces have one length, so that they fit one batch. It is a function of the iteration alone: a result does
        not depend on the instances beside it.
        """
        keys = fold(task.keys, "reconstruction", iteration)
        length = self._length(iteration, task.horizon)
        assert isinstance(task.problem, HasPieces)
        pieces = task.problem.pieces(task.instances, actions, length, _draws(keys))
        decisions, costs, states = [], [], Count()
        for part in self._portions(task, pieces):
            found = self._decoded(task, part, keys, length, states)
            states = states.plus(found.states)
            lowest, place = cheapest(found.cost, found.valid)  # of the solutions with other decisions in the piece
            decisions.append(solutions_at(place, found.decisions))
            costs.append(lowest)
        candidate = pieces.with_all(torch.cat(decisions), torch.cat(costs) < cost[pieces.row])
        candidate_cost = task.problem.cost(task.instances, candidate).double()
        better = candidate_cost < cost  # a gain may have been a rounding error: the cost of the whole solution decides
        return candidate.where(better[:, None], actions), candidate_cost.where(better, cost), states

    def _length(self, iteration: int, horizon: int) -> int:
        """The number of decisions in each piece of an iteration, uniform."""
        longest = min(self.longest_piece or horizon, horizon)
        shortest = min(self.shortest_piece, longest)
        uniform = uniform_noise(torch.zeros(1, dtype=torch.int64), iteration, ()).item()
        return shortest + int(uniform * (longest - shortest + 1))

    def _portions(self, task: SearchTask, pieces: Pieces) -> list[Pieces]:
        """So many pieces at most: those of many large instances would not fit into memory together."""
        most = max(1, SCORES // (task.problem.num_actions(task.instances) * self.piece_width))
        slices = [slice(first, first + most) for first in range(0, len(pieces.row), most)]
        return [
            pieces._replace(row=pieces.row[part], state=take(pieces.state, part), first=pieces.first[part])
            for part in slices
        ]

    def _decoded(self, task: SearchTask, pieces: Pieces, keys: Tensor, length: int, before: Count) -> Round:
        """Each piece anew. Raises OutOfTime at the deadline, also of the states `before`, and InstanceError."""
        own = task._replace(
            instances=take(task.instances, pieces.row),
            encoded=take(task.encoded, pieces.row),
            keys=fold(keys[pieces.row], pieces.first),
            given_keys=task.given_keys[pieces.row],
        )
        rows = torch.arange(len(pieces.row), device=pieces.row.device).repeat_interleave(self.piece_width)
        root = Root(torch.zeros_like(pieces.row), take(pieces.state, rows), length, partial(pieces.with_one, rows))
        beams = Beams(self.piece_width, noise=no_noise)
        try:
            return TrieSearch(own, beams, Size(length, rounds=1, once=True), root).sample()[1]
        except OutOfTime as late:
            raise OutOfTime(before.plus(late.states)) from None
        except InstanceError as error:  # its index is that of a piece
            raise InstanceError(int(pieces.row[error.index]), error.key, error.rule) from None


def _draws(keys: Tensor) -> Callable[[int], Tensor]:
    """Uniform numbers: each call gives others."""
    place = itertools.count()
    return lambda count: uniform_noise(keys, next(place), (count,))
