"""Beam search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from gumbeldore.sampler.methods.method import BeamRounds, at_least_one
from gumbeldore.sampler.noise import no_noise
from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie_search import Beams


class OneRound(BeamRounds):
    """One round of beams without noise: the most likely prefixes."""

    random: ClassVar[bool] = False
    endless: ClassVar[bool] = False
    num_rounds: ClassVar[int] = 1  # type: ignore[misc]

    @property
    def beams(self) -> Beams:
        return Beams(self.beam_width, noise=no_noise)

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        yield self.search(task).sample()[1]


@dataclass(frozen=True)
class Beam(OneRound):
    """Beam search: the most likely prefixes.

    Arguments:
        beam_width: K, solutions per instance
    """

    beam_width: int = at_least_one(32)
