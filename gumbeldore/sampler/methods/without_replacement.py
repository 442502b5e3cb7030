"""Sampling without replacement in rounds of stochastic beam search, between which the trie learns [SBS; GD]."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from torch import Tensor

from gumbeldore.runtime.checked import at_least, one_of, positive
from gumbeldore.sampler import updates
from gumbeldore.sampler.beam import Leaves
from gumbeldore.sampler.methods.method import BeamRounds, at_least_one
from gumbeldore.sampler.noise import gumbel, gumbel_below_zero
from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie import Trie
from gumbeldore.sampler.trie_search import Beams


@dataclass(frozen=True)
class WithoutReplacement(BeamRounds):
    """At most beam_width * num_rounds different solutions [SBS].

    A method that learns more from a round is a subclass with another `update`.

    Arguments:
        beam_width: K, solutions per round
        num_rounds: n, rounds of a search
        top_p_start, top_p_end: nucleus of the first and of the last round, linear in between [GD, section 4.2.2]: each
            node keeps its smallest set of most likely actions of that probability; one round alone uses the end
        temperature: tau, by which the policy's logits are divided [SBS, eq. 5]: masses, estimates and reported
            log-probabilities are those of this distribution. Towards 0 the samples become greedy; auto: 1 for solutions
            of at most 50 decisions, 50 / T for those of T
        sampled_root: draw the root's Gumbel, which makes the unnormalised estimator unbiased; False fixes it to 0
    """

    beam_width: int = at_least_one(32)
    num_rounds: int = at_least_one(4)
    _: KW_ONLY
    top_p_start: float = positive(1.0, highest=1)
    top_p_end: float = positive(1.0, highest=1)
    temperature: float | str = positive(1.0, word="auto")
    sampled_root: bool = True

    @property
    def beams(self) -> Beams:
        """One stochastic beam."""
        noise = gumbel if self.sampled_root else gumbel_below_zero
        return Beams(self.beam_width, noise=noise, temperature=self.temperature)

    def nucleus(self, number: int) -> float:
        """The nucleus of a round [GD, section 4.2.2]. Rounds beyond num_rounds, until a deadline, stay at its end.

        Arguments:
            number: of the round, from 0 on
        """
        if number >= self.num_rounds - 1:
            return self.top_p_end
        return self.top_p_start + (self.top_p_end - self.top_p_start) * number / (self.num_rounds - 1)

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        """The rounds of algorithm 2 [GD], until every solution has been sampled."""
        search = self.search(task)
        for number in itertools.count():
            leaves, found = search.sample(self.nucleus(number))
            yield found
            search.learn(self.update, leaves, found)
            if search.exhausted:
                return

    def update(self, trie: Trie, leaves: Leaves, objective: Tensor) -> None:
        """What the trie learns from a round: here, that its leaves are taken. See `gumbeldore.sampler.updates`."""
        updates.without_replacement(trie, leaves)


@dataclass(frozen=True)
class Gumbeldore(WithoutReplacement):
    """Rounds without replacement, each shifted toward what was better than expected [GD, algorithm 2].

    Arguments:
        step_size: sigma >= 0, in units of 1 / cost; the paper's for the TSP
        baseline: of an advantage: "estimate" (of the round's expectation from its weights) or "none" (the raw outcome;
            for games)
    """

    step_size: float = at_least(0, 0.3)
    baseline: str = one_of(*updates.BASELINES)

    def update(self, trie: Trie, leaves: Leaves, objective: Tensor) -> None:
        updates.gumbeldore(trie, leaves, objective, self.step_size, self.baseline)


@dataclass(frozen=True)
class Theory(WithoutReplacement):
    """Rounds without replacement with the policy update that provably improves [GD, eq. 1 and 5].

    Arguments:
        step_size: sigma >= 0, in units of 1 / cost
        threshold: kappa of a node's importance weights: "node" or "round", see `updates.theory`
    """

    step_size: float = at_least(0, 0.3)
    threshold: str = one_of("node", "round")

    def update(self, trie: Trie, leaves: Leaves, objective: Tensor) -> None:
        updates.theory(trie, leaves, objective, self.step_size, self.threshold)
