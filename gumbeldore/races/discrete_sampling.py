"""One sample from a discrete distribution with many factors, most of which are not looked at [MAB, section 2]."""

from __future__ import annotations

import torch
from torch import Tensor

from gumbeldore.races.outcome import Identify, Outcome, check_task
from gumbeldore.races.rewards import Rewards, look


def sample_discrete(
    log_factors: Rewards,
    num_states: int,
    num_factors: int,
    delta: float,
    *,
    identify: Identify,
    generator: torch.Generator,
) -> Outcome:
    """A state i drawn from p(i) ~ exp(sum_j f_ij), up to a total variation distance of delta [MAB, proposition 2.2].

    The state with the highest sum_j f_ij + g_i, g_i standard Gumbel draws, is distributed as p. It is the best arm of a
    race with the rewards f_ij + g_i / N; an arm that is wrong with probability delta, for any g, moves the distribution
    by no more than delta.

    Arguments:
        log_factors: (state, indices [m]) -> f_ij [m], unnormalised; their range is also that of the rewards
        num_states: D, at least 1
        num_factors: N, at least 1
        delta: allowed distance, in (0, 1)
        identify: `race` or `lil_ucb` with arguments of their own, e.g. functools.partial(race, bound=Normal())
        generator: draws the Gumbels, then the order of the factors

    Returns the outcome of the race: `arm` is the sample; `means` are those of the rewards, Gumbels included.
    """
    check_task(num_states, num_factors, delta, generator)
    gumbels = -torch.empty(num_states, dtype=torch.float64).exponential_(generator=generator).log()
    offsets = (gumbels / num_factors).tolist()

    def perturbed(state: int, indices: Tensor) -> Tensor:
        return look(log_factors, state, indices) + offsets[state]  # in float64: the offset is small

    return identify(perturbed, num_states, num_factors, delta, generator=generator)
