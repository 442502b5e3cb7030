"""The usual search methods by name: each is the one search with other settings.

The command line chooses a method by `method=` and gives it those keys of `search` that are its parameters.
"""

from __future__ import annotations

from gumbeldore.sampler.config import SearchConfig
from gumbeldore.sampler.updates import Gumbeldore, Theory, without_replacement


def greedy() -> SearchConfig:
    """The most likely action at each step."""
    return SearchConfig(beam_width=1, stochastic=False)


def sampling(beam_width: int, num_rounds: int = 1, time_limit: float | None = None) -> SearchConfig:
    """beam_width * num_rounds independent samples, with replacement."""
    return SearchConfig(beam_width, num_rounds, replacement=True, time_limit=time_limit)


def beam(beam_width: int) -> SearchConfig:
    """Beam search: the most likely prefixes."""
    return SearchConfig(beam_width, stochastic=False)


def wor(
    beam_width: int,
    num_rounds: int = 1,
    top_p_start: float = 1.0,
    top_p_end: float = 1.0,
    time_limit: float | None = None,
    first_round_deterministic: bool = False,
    sampled_root: bool = True,
) -> SearchConfig:
    """Sampling without replacement in rounds of stochastic beam search [SBS]."""
    return SearchConfig(
        beam_width,
        num_rounds,
        update=without_replacement,
        top_p_start=top_p_start,
        top_p_end=top_p_end,
        time_limit=time_limit,
        first_round_deterministic=first_round_deterministic,
        sampled_root=sampled_root,
    )


def gumbeldore(
    beam_width: int,
    num_rounds: int,
    step_size: float,
    top_p_start: float = 1.0,
    top_p_end: float = 1.0,
    time_limit: float | None = None,
    baseline: str = "estimate",
    min_max: bool = False,
    divide_by_visits: bool = False,
    first_round_deterministic: bool = False,
    sampled_root: bool = True,
) -> SearchConfig:
    """Rounds without replacement, each shifted toward what was better than expected [GD, algorithm 2]."""
    return SearchConfig(
        beam_width,
        num_rounds,
        update=Gumbeldore(step_size, baseline, min_max, divide_by_visits),
        top_p_start=top_p_start,
        top_p_end=top_p_end,
        first_round_deterministic=first_round_deterministic,
        sampled_root=sampled_root,
        time_limit=time_limit,
    )


def theory(
    beam_width: int,
    num_rounds: int,
    step_size: float,
    top_p_start: float = 1.0,
    top_p_end: float = 1.0,
    time_limit: float | None = None,
    first_round_deterministic: bool = False,
    sampled_root: bool = True,
) -> SearchConfig:
    """Rounds without replacement with the policy update that provably improves [GD, eq. 1 and 5]."""
    return SearchConfig(
        beam_width,
        num_rounds,
        update=Theory(step_size),
        top_p_start=top_p_start,
        top_p_end=top_p_end,
        first_round_deterministic=first_round_deterministic,
        sampled_root=sampled_root,
        time_limit=time_limit,
    )
