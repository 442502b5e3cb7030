"""Random reconstruction [RRC], many pieces at once: the best solution is cut into pieces, which are decoded anew.

A piece that is better replaces the old one. [RRC] decodes one random piece at a time.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.interfaces import Pieces, Policy, Problem
from gumbeldore.sampler.beam import Count
from gumbeldore.sampler.config import Reconstruction, SearchConfig
from gumbeldore.sampler.rounds import root_context, run_rounds
from gumbeldore.sampler.solutions import Round
from gumbeldore.seeding import fold, uniform_noise

SCORES = 2**23  # of actions in all pieces that are decoded together: about 1.3 GB


class Reconstructed(NamedTuple):
    """The solutions after all iterations."""

    actions: Tensor  # [B, T]
    cost: Tensor  # [B] float64, not higher than before
    states: Count  # how they got their action probabilities
    iterations: int  # finished ones


def reconstruct(
    problem: Problem,
    policy: Policy,
    instances: Any,
    encoded: Any,
    config: SearchConfig,
    keys: Tensor,
    actions: Tensor,
    cost: Tensor,
    deadline: float = math.inf,
) -> Reconstructed:
    """Cut the solutions into pieces, decode all of these in few batches, keep those that are better; many times.

    The pieces of a solution have no decision in common, so that all that are better can be kept. All pieces of an
    iteration have one length, so that they fit one batch. It is a function of the iteration alone: a result does not
    depend on the instances beside it.

    Arguments:
        instances: [B, ...]
        encoded: what the policy's `encode` makes of them
        config: of the search, with a `reconstruction`
        keys: [B]
        actions, cost: the solutions [B, T] and their costs [B]
        deadline: on the clock `time.monotonic`; an iteration that lasts longer is abandoned
    """
    assert config.reconstruction is not None
    how, piece_search = config.reconstruction, config.reconstruction.search
    most = max(1, SCORES // (problem.num_actions(instances) * piece_search.rows))
    count = Count()
    for iteration in itertools.count():
        if time.monotonic() >= deadline or config.time_limit is None and iteration >= how.iterations:
            break
        own = fold(keys, "reconstruction", iteration)
        length = _length(how, iteration, actions.shape[1])
        pieces = problem.pieces(instances, actions, length, _draws(own))
        found = []
        for part in _portions(pieces, most):
            rows = torch.arange(len(part.row), device=part.row.device).repeat_interleave(piece_search.width)
            whole, view = take(instances, part.row), take(encoded, part.row)
            context = root_context(problem, policy, whole, view, piece_search, keys[part.row], deadline)
            context = context._replace(
                state=take(part.state, rows), horizon=length, complete=partial(part.with_one, rows)
            )
            found.append(run_rounds(context, piece_search, fold(own[part.row], part.first)))
        for each in found:
            count = count.plus(each.states)
        if not all(each.rounds for each in found):
            break
        piece, lowest = map(torch.cat, zip(*(_best_pieces(each.rounds) for each in found), strict=True))
        candidate = pieces.with_all(piece, lowest < cost[pieces.row])
        candidate_cost = problem.cost(instances, candidate).double()
        better = candidate_cost < cost  # a gain may have been a rounding error: the cost of the whole solution decides
        actions = candidate.where(better[:, None], actions)
        cost = candidate_cost.where(better, cost)
    return Reconstructed(actions, cost, count, iteration)


def _length(how: Reconstruction, iteration: int, horizon: int) -> int:
    """The number of decisions in each piece of an iteration, uniform."""
    longest = min(how.longest or horizon, horizon)
    shortest = min(how.shortest, longest)
    uniform = uniform_noise(torch.zeros(1, dtype=torch.int64), iteration, ()).item()
    return shortest + int(uniform * (longest - shortest + 1))


def _portions(pieces: Pieces, most: int) -> list[Pieces]:
    """So many pieces at most: those of many large instances would not fit into memory together."""
    slices = [slice(first, first + most) for first in range(0, len(pieces.row), most)]
    return [
        pieces._replace(row=pieces.row[part], state=take(pieces.state, part), first=pieces.first[part])
        for part in slices
    ]


def _draws(keys: Tensor) -> Callable[[int], Tensor]:
    """Uniform numbers: each call gives others."""
    place = itertools.count()
    return lambda count: uniform_noise(keys, next(place), (count,))


def _best_pieces(rounds: list[Round]) -> tuple[Tensor, Tensor]:
    """Of each piece the best decisions [P, m] and the cost [P] of the solution with them."""
    cost = torch.cat([each.cost.masked_fill(~each.valid, math.inf) for each in rounds], dim=1)
    decisions = torch.cat([each.decisions for each in rounds], dim=1)
    lowest, place = cost.min(dim=1)
    return decisions[torch.arange(len(place), device=place.device), place], lowest
