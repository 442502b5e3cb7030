"""Sampling with rejection: samples that an instance has already are dropped, until it has enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gumbeldore.sampler.methods.method import at_least_one
from gumbeldore.sampler.methods.sampling import Sampling
from gumbeldore.sampler.solutions import Round, first_occurrences, solution_hash
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie import Trie


@dataclass(frozen=True)
class Rejection(Sampling):
    """Independent samples, until beam_width * num_rounds of them are different.

    Arguments:
        max_rounds: rounds of beam_width samples; then the search ends, however many of them are different
    """

    max_rounds: int = at_least_one(20)

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        search = self.search(task)
        different = Different(self.beam_width * self.num_rounds, self.beam_width)
        while True:
            found = search.sample()[1]  # before the trie is looked at: it may have grown
            yield different(search.trie, found)
            if search.exhausted:
                return

    def count(self, horizon: int) -> int:
        return self.max_rounds

    def most_solutions(self, horizon: int) -> int:
        return self.beam_width * min(self.num_rounds, self.max_rounds)


class Different:
    """Keeps the samples of one round after the other that an instance does not have yet.

    Arguments:
        wanted: different solutions per instance
        copies: beams of width 1 that are the samples of one instance
    """

    def __init__(self, wanted: int, copies: int):
        self.wanted, self.copies = wanted, copies
        self.codes: Tensor | None = None  # [b, C * rounds] hashes of the samples so far
        self.kept: Tensor | None = None  # [b, C * rounds]

    def __call__(self, trie: Trie, found: Round) -> Round:
        """The round with those samples valid that are kept. An instance that has enough is not sampled further.

        Arguments:
            trie: the beams of an instance that has enough solutions lose their mass
            found: one sample [B, 1] of each beam
        """
        drawn = found.valid.view(-1, self.copies)
        count = drawn.shape[1]
        new = solution_hash(found.actions.view(*drawn.shape, -1))
        every = new if self.codes is None else torch.cat([self.codes, new], dim=1)
        drawn = drawn if self.kept is None else torch.cat([self.kept, drawn], dim=1)
        first = first_occurrences(every, drawn)
        kept = first & (first.cumsum(dim=1) <= self.wanted)
        enough = kept.sum(dim=1, keepdim=True) >= self.wanted  # [b, 1]
        trie.log_mass[0][enough.expand(-1, self.copies).flatten()] = -math.inf
        self.codes, self.kept = every, kept
        return found._replace(valid=kept[:, -count:].reshape_as(found.valid), rejected=(drawn & ~kept).sum())
