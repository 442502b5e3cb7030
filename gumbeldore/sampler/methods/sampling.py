"""Independent samples, with replacement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from gumbeldore.sampler.methods.method import BeamRounds, check_counts, check_positive
from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie_search import Beams


@dataclass(frozen=True)
class Sampling(BeamRounds):
    """beam_width * num_rounds independent samples.

    Arguments:
        beam_width: samples that are drawn together
        temperature: tau, by which the policy's logits are divided [SBS, eq. 5]: estimates and reported
            log-probabilities are those of this distribution. Towards 0 the samples become greedy.
    """

    beam_width: int = 32
    num_rounds: int = 4
    _: KW_ONLY
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_counts(self, "beam_width", "num_rounds")
        check_positive("temperature", self.temperature)

    @property
    def beams(self) -> Beams:
        """A sample is a beam of width 1."""
        return Beams(1, copies=self.beam_width, temperature=self.temperature)

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        search = self.search(task)
        while True:
            yield search.sample()[1]
