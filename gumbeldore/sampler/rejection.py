"""Sampling with rejection: samples that an instance has already are dropped, until it has enough."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gumbeldore.sampler.solutions import first_occurrences, solution_hash
from gumbeldore.sampler.trie import Trie


class Rejection:
    """Drops samples from one round after the other.

    Arguments:
        wanted: different solutions per instance
        copies: beams of width 1 that are the samples of one instance
    """

    def __init__(self, wanted: int, copies: int):
        self.wanted, self.copies = wanted, copies
        self.codes: Tensor | None = None  # [b, C * rounds] hashes of the samples so far
        self.kept: Tensor | None = None  # [b, C * rounds]
        self.rejected: int | Tensor = 0  # summed up on the device

    def __call__(self, trie: Trie, valid: Tensor, actions: Tensor) -> Tensor:
        """Which samples of a round are kept [B, 1]. An instance that has enough solutions is not sampled further.

        Arguments:
            trie: the beams of an instance that has enough solutions lose their mass
            valid: which of them are solutions [B, 1]
            actions: [B, 1, T]
        """
        drawn = valid.view(-1, self.copies)
        count = drawn.shape[1]
        new = solution_hash(actions.view(*drawn.shape, -1))
        every = new if self.codes is None else torch.cat([self.codes, new], dim=1)
        drawn = drawn if self.kept is None else torch.cat([self.kept, drawn], dim=1)
        first = first_occurrences(every, drawn)
        kept = first & (first.cumsum(dim=1) <= self.wanted)
        self.rejected = self.rejected + (drawn & ~kept).sum()
        enough = kept.sum(dim=1, keepdim=True) >= self.wanted  # [b, 1]
        trie.log_mass[0][enough.expand(-1, self.copies).flatten()] = -math.inf
        self.codes, self.kept = every, kept
        return kept[:, -count:].reshape_as(valid)
