"""What a search is given."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, repeated
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.seeding import fold


class SearchTask(NamedTuple):
    """Instances of one size, the policy that searches them, their random numbers, and the limits of time and memory."""

    problem: Problem
    policy: Policy  # in the precision that it computes in
    instances: Any  # [B, ...]
    encoded: Any  # [B, ...] the policy's view of each instance (`Policy.encode`)
    keys: Tensor  # [B] int64 of the instances' random numbers
    given_keys: Tensor  # [b] those that the search was given; each of these b instances is here B / b times in a row
    deadline: float = math.inf  # on the clock `time.monotonic`
    start: Tensor | None = None  # [B, T] solutions to improve, where a method takes them instead of its own
    trie_budget: int | None = None  # bytes that a trie must not outgrow that grows until the deadline; None: any number

    @property
    def batch(self) -> int:
        """B, the number of instances."""
        return batch_size(self.instances)

    @property
    def horizon(self) -> int:
        """T, the number of decisions of a solution."""
        return self.problem.horizon(self.instances)

    def repeated(self, count: int) -> SearchTask:
        """Each instance `count` times in a row, each time with random numbers of its own."""
        if count == 1:
            return self
        keys = fold(self.keys[:, None], torch.arange(count, device=self.keys.device)).flatten()
        return self._replace(
            instances=repeated(self.instances, count), encoded=repeated(self.encoded, count), keys=keys
        )
