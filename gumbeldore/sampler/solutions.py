"""What a search found."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.sampler.beam import Count
from gumbeldore.sampler.transpositions import state_hash


class Round(NamedTuple):
    """The solutions of one round: what is kept of its leaves (`Leaves` says more)."""

    decisions: Tensor  # [B, K, T'] those below the root
    actions: Tensor  # [B, K, T] all of them
    cost: Tensor  # [B, K] float64
    log_prob: Tensor  # [B, K]
    phi: Tensor  # [B, K]
    gumbel: Tensor  # [B, K]
    valid: Tensor  # [B, K]
    states: Count  # how they got their action probabilities
    rejected: int | Tensor = 0  # samples that were dropped


class SearchStats(NamedTuple):
    """Totals over all instances of a call."""

    evaluations: int  # states the network was asked about
    forced: int  # new states with a single legal action, which need no network
    reused: int  # states whose probabilities an earlier round had left in the trie
    repeated: int  # new states that another sequence of decisions had reached, too
    rejected: int  # samples that were dropped: repeated ones, and in the last round those beyond the number wanted
    rounds: int  # 0: the time limit has left no time for more than the greedy solution
    full: bool  # whether a search with a time limit ended before it, as the trie would have outgrown the memory

    @property
    def states(self) -> Count:
        """How all states got their action probabilities."""
        return Count(self.evaluations, self.forced, self.reused, self.repeated)

    def plus(self, count: Count) -> SearchStats:
        """With the states of a further part of the search."""
        evaluations, forced, reused, repeated = map(int, self.states.plus(count))
        return self._replace(evaluations=evaluations, forced=forced, reused=reused, repeated=repeated)


class Solutions(NamedTuple):
    """What a search found, round by round; in a round beam by beam (equivalents, samples, groups).

    A beam's solutions are in decreasing order of what it ranks them by: their perturbed log-probability, less the
    penalty of `diverse_beam`. The first entry may be a given start; the last entries may be the greedy solution of a
    search with a time limit, and the reconstructed one, each valid only where it is the best so far. These were not
    sampled, their log-probabilities are NaN, and `sampled` leaves them out; NaN are also those of greedy solutions
    for which a forward pass gave several decisions. `gumbeldore.sampler.estimators` says which solutions each estimator
    needs.
    """

    actions: Tensor  # [B, L, T] int64
    costs: Tensor  # [B, L] float64, lower is better
    log_probs: Tensor  # [B, L] float64 of all decisions under the policy (with the temperature of the search)
    round_log_probs: Tensor  # [B, L] under the distribution of the round, given its root; what the estimators need
    gumbels: Tensor  # [B, L] perturbed log-probabilities
    valid: Tensor  # [B, L] False: the instance had no further solution (the entry means nothing)
    round: Tensor  # [B, L] int64 round of each solution, from 0
    stats: SearchStats

    @classmethod
    def of(cls, rounds: list[Round], batch: int, states: Count, full: bool = False) -> Solutions:
        """Rounds side by side; the beams of each of the instances (samples, groups, equivalents) become one row.

        Arguments:
            batch: the number of instances
            states: of a round that was abandoned
            full: whether the trie would have outgrown the memory
        """

        def join(tensors: list[Tensor]) -> Tensor:
            return torch.cat([t.reshape(batch, -1, *t.shape[2:]) for t in tensors], dim=1)

        for each in rounds:
            states = states.plus(each.states)
        rejected = int(sum(each.rejected for each in rounds))
        stats = SearchStats(0, 0, 0, 0, rejected, len(rounds), full).plus(states)
        return cls(
            actions=join([each.actions for each in rounds]),
            costs=join([each.cost for each in rounds]),
            log_probs=join([each.log_prob for each in rounds]),
            round_log_probs=join([each.phi for each in rounds]),
            gumbels=join([each.gumbel for each in rounds]),
            valid=join([each.valid for each in rounds]),
            round=join([torch.full_like(each.valid, r, dtype=torch.int64) for r, each in enumerate(rounds)]),
            stats=stats,
        )

    def best(self) -> tuple[Tensor, Tensor]:
        """The first of the cheapest solutions of each instance: actions [B, T] and cost [B]."""
        cost, place = cheapest(self.costs, self.valid)
        return solutions_at(place, self.actions), cost

    def best_few(self, count: int) -> Tensor:
        """So many of the cheapest solutions [B, count, T] of each instance; if it has fewer, the best one again."""
        cost, place = self.costs.masked_fill(~self.valid, math.inf).sort(dim=1, stable=True)
        place = place.where(cost < math.inf, place[:, :1])[:, :count]
        return self.actions.gather(1, place[..., None].expand(-1, -1, self.actions.shape[2]))

    def sampled(self) -> Solutions:
        """Without a given start, the greedy and the reconstructed solutions, which estimators must not count."""
        drawn = ~self.gumbels.isnan().all(dim=0)
        tensors: dict[str, Any] = {name: getattr(self, name)[:, drawn] for name in self._fields if name != "stats"}
        return self._replace(**tensors)

    def with_better(self, actions: Tensor, costs: Tensor) -> Solutions:
        """And one more solution of each instance, valid where it is better than all others; it was not sampled.

        Arguments:
            actions: [B, T]
            costs: [B]
        """
        unknown = torch.full_like(costs, math.nan)
        more = {
            "actions": actions,
            "costs": costs,
            "log_probs": unknown,
            "round_log_probs": unknown,
            "gumbels": unknown,
            "valid": costs < self.best()[1],
            "round": self.round.amax(dim=1) + 1,
        }
        joined: dict[str, Any] = {name: torch.cat([getattr(self, name), x[:, None]], dim=1) for name, x in more.items()}
        return self._replace(**joined)

    def after(self, states: Count, iterations: int) -> Solutions:
        """The same after a reconstruction, which asked for these states; an iteration counts as a round in time."""
        stats = self.stats.plus(states)
        return self._replace(stats=stats._replace(rounds=max(stats.rounds, min(1, iterations))))


def cheapest(costs: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Of solutions [B, L] the lowest valid cost [B], inf without one, and the place [B] of the first that has it."""
    return costs.masked_fill(~valid, math.inf).min(dim=1)


def solutions_at(place: Tensor, actions: Tensor) -> Tensor:
    """The solution [B, T] at the place [B] of each instance, out of `actions` [B, L, T]."""
    return actions[torch.arange(len(place), device=place.device), place]


def known(actions: Tensor, costs: Tensor) -> Solutions:
    """One solution of each instance that was not sampled: actions [B, T] and costs [B] float64."""
    unknown, number = torch.full_like(costs, math.nan)[:, None], torch.zeros_like(actions[:, :1])
    stats = SearchStats(evaluations=0, forced=0, reused=0, repeated=0, rejected=0, rounds=0, full=False)
    valid = torch.ones_like(number, dtype=torch.bool)
    return Solutions(actions[:, None], costs[:, None], unknown, unknown, unknown, valid, number, stats)


def solution_hash(actions: Tensor) -> Tensor:
    """A hash int64 [B, L] of each solution [B, L, T], by which equal ones are found (`state_hash`)."""
    return state_hash((actions.flatten(0, 1),)).view(actions.shape[:2])


def first_occurrences(code: Tensor, valid: Tensor) -> Tensor:
    """bool [B, L]: the solutions with these hashes [B, L] that no earlier one of the same instance is equal to.

    Arguments:
        valid: which of them are solutions [B, L]; the others are never first
    """
    code, order = code.masked_fill(~valid, 0).sort(dim=1, stable=True)
    first = code != 0
    first[:, 1:] &= code[:, 1:] != code[:, :-1]
    return torch.zeros_like(valid).scatter_(1, order, first)
