"""The usual search methods by name: each is the one search with other settings.

The command line chooses a method by `method=` and gives it those keys of `search` that are its parameters.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from gumbeldore.sampler.config import GREEDY, Reconstruction, SearchConfig
from gumbeldore.sampler.updates import Gumbeldore, Theory, without_replacement


def greedy(equivalents: int = 1) -> SearchConfig:
    """The most likely action at each step."""
    return replace(GREEDY, equivalents=equivalents)


def sampling(
    beam_width: int,
    num_rounds: int = 1,
    time_limit: float | None = None,
    temperature: float = 1.0,
    equivalents: int = 1,
) -> SearchConfig:
    """beam_width * num_rounds independent samples, with replacement."""
    return SearchConfig(
        beam_width,
        num_rounds,
        replacement=True,
        time_limit=time_limit,
        temperature=temperature,
        equivalents=equivalents,
    )


def rejection(
    beam_width: int,
    num_rounds: int = 1,
    max_rounds: int = 20,
    time_limit: float | None = None,
    temperature: float = 1.0,
    equivalents: int = 1,
) -> SearchConfig:
    """Independent samples without those that are there already, until beam_width * num_rounds are different.

    Arguments:
        max_rounds: of beam_width samples; then the search ends, however many of them are different
    """
    drawn = sampling(beam_width, max_rounds, time_limit, temperature, equivalents)
    return replace(drawn, distinct=beam_width * num_rounds)


def beam(beam_width: int, equivalents: int = 1) -> SearchConfig:
    """Beam search: the most likely prefixes."""
    return SearchConfig(beam_width, stochastic=False, equivalents=equivalents)


def diverse_beam(beam_width: int, groups: int = 4, diversity: float = 0.5, equivalents: int = 1) -> SearchConfig:
    """Beam search in groups that avoid each other's actions [Vijayakumar et al. 2018].

    Arguments:
        beam_width: of all groups together
        groups: how many there are
        diversity: lambda, by how much a log-probability is lower for each time that earlier groups have chosen the
            same action at this step
    """
    return SearchConfig(beam_width, stochastic=False, groups=groups, diversity=diversity, equivalents=equivalents)


def wor(
    beam_width: int,
    num_rounds: int = 1,
    top_p_start: float = 1.0,
    top_p_end: float = 1.0,
    time_limit: float | None = None,
    sampled_root: bool = True,
    temperature: float = 1.0,
    equivalents: int = 1,
) -> SearchConfig:
    """Sampling without replacement in rounds of stochastic beam search [SBS]."""
    return SearchConfig(
        beam_width,
        num_rounds,
        update=without_replacement,
        top_p_start=top_p_start,
        top_p_end=top_p_end,
        time_limit=time_limit,
        sampled_root=sampled_root,
        temperature=temperature,
        equivalents=equivalents,
    )


def tasar(
    beam_width: int,
    num_rounds: int = 1,
    replan_steps: int = 10,
    top_p_end: float = 1.0,
    time_limit: float | None = None,
    temperature: float = 1.0,
    equivalents: int = 1,
) -> SearchConfig:
    """Take a step and reconsider: sampling without replacement along the best solution so far [TASAR].

    Arguments:
        num_rounds: from each root
        replan_steps: decisions from one root to the next
        top_p_end: nucleus, the same in all rounds
    """
    rounds = wor(
        beam_width, num_rounds, top_p_end, top_p_end, time_limit, temperature=temperature, equivalents=equivalents
    )
    return replace(rounds, replan_steps=replan_steps)


def gumbeldore(
    beam_width: int,
    num_rounds: int,
    step_size: float,
    top_p_start: float = 1.0,
    top_p_end: float = 1.0,
    time_limit: float | None = None,
    baseline: str = "estimate",
    sampled_root: bool = True,
    temperature: float = 1.0,
    equivalents: int = 1,
) -> SearchConfig:
    """Rounds without replacement, each shifted toward what was better than expected [GD, algorithm 2]."""
    rounds = wor(
        beam_width,
        num_rounds,
        top_p_start,
        top_p_end,
        time_limit,
        sampled_root,
        temperature,
        equivalents,
    )
    return replace(rounds, update=Gumbeldore(step_size, baseline))


def theory(
    beam_width: int,
    num_rounds: int,
    step_size: float,
    top_p_start: float = 1.0,
    top_p_end: float = 1.0,
    time_limit: float | None = None,
    sampled_root: bool = True,
    temperature: float = 1.0,
    equivalents: int = 1,
) -> SearchConfig:
    """Rounds without replacement with the policy update that provably improves [GD, eq. 1 and 5]."""
    rounds = wor(
        beam_width,
        num_rounds,
        top_p_start,
        top_p_end,
        time_limit,
        sampled_root,
        temperature,
        equivalents,
    )
    return replace(rounds, update=Theory(step_size))


SEARCHES = {
    each.__name__: each for each in (greedy, sampling, rejection, beam, diverse_beam, wor, tasar, gumbeldore, theory)
}


def reconstruct(
    start: str | SearchConfig = "greedy",
    iterations: int = 100,
    longest_piece: int | None = None,
    time_limit: float | None = None,
    beam_width: int = 32,
    num_rounds: int = 4,
    step_size: float | None = None,
    top_p_start: float = 1.0,
    top_p_end: float = 1.0,
    temperature: float = 1.0,
    equivalents: int = 1,
) -> SearchConfig:
    """Random reconstruction of the best solution that another method finds [RRC].

    Arguments:
        start: the other method: its name, or what it gives, without a time limit of its own
        iterations: of decoding all pieces of the best solution anew, if there is no time limit
        longest_piece: decisions in a piece, at most; None: all
        time_limit: seconds per instance, the other method included
        beam_width, ..., equivalents: of the other method, if `start` is its name
    """
    if not isinstance(start, SearchConfig):
        start = _named(
            start,
            beam_width=beam_width,
            num_rounds=num_rounds,
            step_size=step_size,
            top_p_start=top_p_start,
            top_p_end=top_p_end,
            temperature=temperature,
            equivalents=equivalents,
        )
    if start.time_limit is not None or start.reconstruction is not None:
        raise ValueError(
            "start must have neither a time_limit, which reconstruct takes, nor a reconstruction of its own"
        )
    how = Reconstruction(iterations, longest=longest_piece)
    return replace(start, time_limit=time_limit, reconstruction=how)


def _named(name: str, **settings: Any) -> SearchConfig:
    """The method of this name, given those settings that are its parameters."""
    if not isinstance(name, str) or name not in SEARCHES:
        raise ValueError(f"start must be one of {', '.join(SEARCHES)}, got {name!r}")
    parameters = inspect.signature(SEARCHES[name]).parameters
    return SEARCHES[name](**{key: value for key, value in settings.items() if key in parameters})
