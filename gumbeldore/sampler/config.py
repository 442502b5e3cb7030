"""How to search: one configuration for every method [SBS; GD]."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gumbeldore.runtime.checked import check_integer, check_switches, is_number
from gumbeldore.sampler.updates import Update, needs_sample

MOST = 2**31 - 1  # solutions of an instance; more fit into no memory, and places in a trie are products of such numbers


@dataclass(frozen=True)
class SearchConfig:
    """How to search; `gumbeldore.sampler.methods` names the usual combinations.

    Raises ValueError for values out of range; of solutions there are at most 2^31 - 1 per instance (and root).

    Arguments:
        beam_width: K, solutions per round
        num_rounds: n; at most n * K solutions per instance (and per root, see `replan_steps`)
        update: what happens to the trie between rounds; None leaves it alone (rounds are then independent)
        stochastic: perturb with Gumbel noise; otherwise the beam keeps the most likely prefixes
        replacement: K independent samples per round instead of a beam
        top_p_start, top_p_end: nucleus of the first and of the last round, linear in between [GD, section 4.2.2]: each
            node keeps its smallest set of most likely actions of that probability; one round alone uses the end
        sampled_root: draw the root's Gumbel, which makes the unnormalised estimator unbiased; False fixes it to 0
        time_limit: seconds per instance; rounds go on until it has passed, whatever num_rounds is, or until the trie
            would outgrow the memory it may take. The round that lasts longer is abandoned. With a `reconstruction`
            there are num_rounds rounds, and reconstructions go on instead.
        temperature: tau, by which the policy's logits are divided [SBS, eq. 5]: masses, estimates and reported
            log-probabilities are those of this distribution. Towards 0 the samples become greedy.
        replan_steps: after num_rounds rounds, commit to so many next decisions of the best solution so far and go on
            with the rounds below them [TASAR], up to the end of the solution; None: all rounds start from the beginning
        groups, diversity: split a beam that is not stochastic into groups, which are filled one after the other at
            each step; a score is lower by `diversity` for each time that earlier groups have chosen the same action at
            this step [Vijayakumar et al. 2018]
        distinct: of samples with replacement, drop those that an instance has already, until it has so many different
            ones or num_rounds rounds have passed; None: drop none
        equivalents: instances with the same solutions, the instance included (`Problem.equivalents`), each of which
            is searched like this; the best of all solutions counts
        reconstruction: how the best solution is improved in the end; None: it is not
    """

    beam_width: int
    num_rounds: int = 1
    update: Update | None = None
    stochastic: bool = True
    replacement: bool = False
    top_p_start: float = 1.0
    top_p_end: float = 1.0
    sampled_root: bool = True
    time_limit: float | None = None
    temperature: float = 1.0
    replan_steps: int | None = None
    groups: int = 1
    diversity: float = 0.0
    distinct: int | None = None
    equivalents: int = 1
    reconstruction: Reconstruction | None = None

    def __post_init__(self) -> None:
        for name in ("beam_width", "num_rounds", "groups", "equivalents"):
            check_integer(name, getattr(self, name), 1, MOST)
        for name in ("replan_steps", "distinct"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1, MOST)
        # As Python's integers, which cannot overflow as NumPy's can.
        solutions = int(self.beam_width) * int(self.num_rounds) * int(self.equivalents)
        check_integer("beam_width * num_rounds * equivalents", solutions, 1, MOST)
        check_switches(self, "stochastic", "replacement", "sampled_root")
        for name, top_p in (("top_p_start", self.top_p_start), ("top_p_end", self.top_p_end)):
            if not (is_number(top_p) and 0 < top_p <= 1):
                raise ValueError(f"{name} must be a probability in (0, 1], got {top_p!r}")
        if self.update is not None and not callable(self.update):
            raise ValueError(f"update must be a function of (trie, leaves, objective) or None, got {self.update!r}")
        if self.time_limit is not None and not (is_number(self.time_limit) and self.time_limit > 0):
            raise ValueError(f"time_limit must be positive seconds per instance, got {self.time_limit!r}")
        if not (is_number(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature must be finite and above 0, got {self.temperature!r}")
        if not (is_number(self.diversity) and self.diversity >= 0):
            raise ValueError(f"diversity must be finite and at least 0, got {self.diversity!r}")
        if self.replacement and (self.update is not None or not self.stochastic):
            raise ValueError("sampling with replacement is stochastic and has no update between rounds")
        if not self.stochastic and needs_sample(self.update):
            raise ValueError(f"{self.update!r} estimates from a sample, which a beam that is not stochastic is not")
        if self.replacement and self.replan_steps is not None:
            raise ValueError("sampling with replacement has no replan_steps: its samples have no common root")
        if self.distinct is not None and not self.replacement:
            raise ValueError("distinct is for samples with replacement; others are different anyway")
        if self.groups > 1 and (
            self.stochastic or self.num_rounds > 1 or self.anytime or self.replan_steps is not None
        ):
            raise ValueError("groups are for one round of a beam search that is not stochastic, without a time_limit")
        if not self.stochastic and self.update is None and self.beam_width > 1 and self.anytime:
            raise ValueError(
                "a beam search that is not stochastic needs an update to find anything new in a time_limit"
            )
        if self.beam_width % self.groups:
            raise ValueError(f"groups must divide beam_width={self.beam_width}, got {self.groups}")
        if self.reconstruction is not None and not isinstance(self.reconstruction, Reconstruction):
            raise ValueError(f"reconstruction must be a Reconstruction or None, got {self.reconstruction!r}")

    @property
    def copies(self) -> int:
        """Beams of an instance: independent samples are beams of width 1, and each group is one."""
        return self.beam_width if self.replacement else self.groups

    @property
    def width(self) -> int:
        """Of each of them."""
        return self.beam_width // self.copies

    @property
    def rows(self) -> int:
        """Beam positions that are searched together for an instance."""
        return self.beam_width * self.equivalents

    @property
    def anytime(self) -> bool:
        """Whether rounds go on until a deadline."""
        return self.time_limit is not None and self.reconstruction is None

    @property
    def random(self) -> bool:
        """Whether the result depends on random numbers."""
        return self.stochastic or self.reconstruction is not None

    def most_solutions(self, horizon: int) -> int:
        """How many solutions of so many decisions there are at most; without a time limit."""
        sampled = self.beam_width * self.rounds(horizon)
        if self.distinct is not None:
            sampled = min(sampled, self.distinct)
        return sampled * self.equivalents + (self.reconstruction is not None)

    def rounds(self, horizon: int) -> int:
        """The number of rounds from all roots, for solutions of so many decisions; `num_rounds` without replanning."""
        return self.num_rounds * math.ceil(horizon / (self.replan_steps or horizon))


GREEDY = SearchConfig(1, stochastic=False)


@dataclass(frozen=True)
class Reconstruction:
    """Random reconstruction of the best solution [RRC]: all of its pieces are decoded anew, and kept if better.

    Arguments:
        iterations: of cutting all instances' solutions into pieces and decoding these; with a time limit of the
            search, they go on until it has passed
        shortest, longest: decisions of a piece. Each iteration draws a length, uniformly, from the shortest (or the
            longest, if that is less) to the longest; None: up to all decisions
        search: how a piece is decoded
    """

    iterations: int
    shortest: int = 4
    longest: int | None = None
    search: SearchConfig = GREEDY

    def __post_init__(self) -> None:
        check_integer("iterations", self.iterations, 1, MOST)
        check_integer("shortest", self.shortest, 1, MOST)
        if self.longest is not None:
            check_integer("longest", self.longest, 1, MOST)
        inner = self.search
        if inner.copies > 1 or inner.equivalents > 1 or inner.reconstruction is not None:
            raise ValueError("a piece is decoded by one beam of one instance, without a reconstruction of its own")
        if inner.replan_steps is not None:
            raise ValueError("a piece is decoded without replan_steps: all its rounds have one root")
        if inner.time_limit is not None:
            raise ValueError("a piece is decoded without a time_limit of its own")


def nucleus_of(config: SearchConfig, round_: int) -> float:
    """The nucleus of a round [GD, section 4.2.2]; rounds beyond num_rounds (anytime use) stay at the end value.

    Arguments:
        round_: from 0 on, of those from the same root
    """
    if round_ >= config.num_rounds - 1:
        return config.top_p_end
    return config.top_p_start + (config.top_p_end - config.top_p_start) * round_ / (config.num_rounds - 1)
