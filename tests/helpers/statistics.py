"""A chi-square test without further packages."""

from __future__ import annotations

import math


def chi_square_limit(freedom: int, z: float = 4.5) -> float:
    """The value a chi-square variable exceeds with probability about P(N(0,1) > z); 4.5: 3.4e-6 (Wilson-Hilferty)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + z * math.sqrt(spread)) ** 3


def assert_frequencies(counts: dict, probabilities: dict, trials: int) -> None:
    """The counts are a plausible sample of the probabilities; cells expected less than 10 times are pooled."""
    impossible = set(counts) - set(probabilities)
    assert not impossible, f"seen though impossible: {impossible}"
    assert abs(sum(probabilities.values()) - 1) < 1e-9
    statistic, cells, rest, rest_seen = 0.0, 0, 0.0, 0
    for outcome, probability in probabilities.items():
        expected, seen = trials * probability, counts.get(outcome, 0)
        if expected < 10:
            rest, rest_seen = rest + expected, rest_seen + seen
        else:
            statistic, cells = statistic + (seen - expected) ** 2 / expected, cells + 1
    if rest >= 10:
        statistic, cells = statistic + (rest_seen - rest) ** 2 / rest, cells + 1
    assert statistic < chi_square_limit(cells - 1), f"chi-square {statistic:.1f} with {cells - 1} degrees of freedom"


def binomial_limit(trials: int, probability: float, false_alarm: float = 1e-6) -> int:
    """The smallest count that a binomial variable exceeds with probability at most `false_alarm`."""
    above = 0.0
    for count in range(trials, -1, -1):
        log_ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
        above += math.exp(log_ways + count * math.log(probability) + (trials - count) * math.log1p(-probability))
        if above > false_alarm:
            return count
    raise AssertionError("the chances of all counts add up to 1")
