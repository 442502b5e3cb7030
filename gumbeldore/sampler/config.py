"""How to search: one configuration for every method [SBS; GD]."""

from __future__ import annotations

from dataclasses import dataclass

from gumbeldore.runtime.checked import check_switches, is_integer, is_number
from gumbeldore.sampler.updates import Update


@dataclass(frozen=True)
class SearchConfig:
    """How to search; `gumbeldore.sampler.methods` names the usual combinations.

    Arguments:
        beam_width: K, solutions per round
        num_rounds: n; at most n * K solutions per instance
        update: what happens to the trie between rounds; None leaves it alone (rounds are then independent)
        stochastic: perturb with Gumbel noise; otherwise the beam keeps the most likely prefixes
        replacement: K independent samples per round instead of a beam
        top_p_start, top_p_end: nucleus of the first and of the last round, linear in between [GD, section 4.2.2]: each
            node keeps its smallest set of most likely actions of that probability; one round alone uses the end
        first_round_deterministic: round 1 is a plain beam search, whose leaves leave the trie but do not shift it
        sampled_root: draw the root's Gumbel, which makes the unnormalised estimator unbiased; False fixes it to 0
        time_limit: seconds per instance; rounds go on until it has passed, whatever num_rounds is, or until the trie
            would outgrow the memory it may take. The round that lasts longer is abandoned.
    """

    beam_width: int
    num_rounds: int = 1
    update: Update | None = None
    stochastic: bool = True
    replacement: bool = False
    top_p_start: float = 1.0
    top_p_end: float = 1.0
    first_round_deterministic: bool = False
    sampled_root: bool = True
    time_limit: float | None = None

    def __post_init__(self) -> None:
        for name, count in (("beam_width", self.beam_width), ("num_rounds", self.num_rounds)):
            if not (is_integer(count) and count >= 1):
                raise ValueError(f"{name} must be an integer of at least 1, got {count!r}")
        check_switches(self, "stochastic", "replacement", "first_round_deterministic", "sampled_root")
        for name, top_p in (("top_p_start", self.top_p_start), ("top_p_end", self.top_p_end)):
            if not (is_number(top_p) and 0 < top_p <= 1):
                raise ValueError(f"{name} must be a probability in (0, 1], got {top_p!r}")
        if self.update is not None and not callable(self.update):
            raise ValueError(f"update must be a function of (trie, leaves, objective) or None, got {self.update!r}")
        if self.time_limit is not None and not (is_number(self.time_limit) and self.time_limit > 0):
            raise ValueError(f"time_limit must be positive seconds per instance, got {self.time_limit!r}")
        if self.replacement and (self.update is not None or not self.stochastic):
            raise ValueError("sampling with replacement is stochastic and has no update between rounds")

    @property
    def copies(self) -> int:
        """Beams of an instance: independent samples are beams of width 1."""
        return self.beam_width if self.replacement else 1

    @property
    def width(self) -> int:
        """Of each of them."""
        return self.beam_width // self.copies


def nucleus_of(config: SearchConfig, round_: int) -> float:
    """The nucleus of a round [GD, section 4.2.2]; rounds beyond num_rounds (anytime use) stay at the end value."""
    if round_ >= config.num_rounds - 1:
        return config.top_p_end
    return config.top_p_start + (config.top_p_end - config.top_p_start) * round_ / (config.num_rounds - 1)
