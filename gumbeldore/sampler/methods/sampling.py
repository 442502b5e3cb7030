"""Independent samples, with replacement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from gumbeldore.runtime.checked import positive
from gumbeldore.sampler.methods.method import BeamRounds, at_least_one
from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie_search import Beams


@dataclass(frozen=True)
class Sampling(BeamRounds):
    """beam_width * num_rounds independent samples.

    Arguments:
        beam_width: samples that are drawn together
        temperature: tau, by which the policy's logits are divided [SBS, eq. 5]: estimates and reported
            log-probabilities are those of this distribution. Towards 0 the samples become greedy; auto: 1 for solutions
            of at most 50 decisions, 50 / T for those of T
    """

    beam_width: int = at_least_one(32)
    num_rounds: int = at_least_one(4)
    _: KW_ONLY
    temperature: float | str = positive(1.0, word="auto")

    @property
    def beams(self) -> Beams:
        """A sample is a beam of width 1."""
        return Beams(1, copies=self.beam_width, temperature=self.temperature)

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        search = self.search(task)
        while True:
            yield search.sample()[1]
