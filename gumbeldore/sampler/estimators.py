"""Expectations under a policy from its samples [SBS, section 4.2, eq. 12-14; GD, eq. 3-4].

Each estimator needs the solutions of one search method, at a temperature of 1 or any other (the expectation is that of
the policy with this temperature), without a nucleus or equivalents; with a time limit or a reconstruction those that
`Solutions.sampled` keeps:

    monte_carlo            independent samples (`method=sampling`)
    estimate_expectation   one round without replacement (`method=wor`, `num_rounds=1`)
    estimate_over_rounds   all rounds of a search without replacement and without updates (`method=wor`)
    estimate_by_beam       the most likely prefixes (`method=beam`)

The expectation of f = -log p is the entropy (nats).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from gumbeldore.sampler.gumbel import log_survival


def importance_log_weights(log_probs: Tensor, gumbels: Tensor, valid: Tensor, kappa: Tensor | None = None) -> Tensor:
    """log(p_i / q_i) [B, K] of the leaves of one round, -inf for those that only set the threshold.

    kappa is the smallest perturbed log-probability of the round, q_i = P(Gumbel(log p_i) > kappa). A round that
    returned fewer leaves than its width returned all there were: then kappa = -inf, q_i = 1 and estimates are exact.
    A single leaf has weight 1.

    Arguments:
        log_probs: log p_i [B, K] under the distribution the round sampled from, float64
        gumbels: perturbed log-probabilities [B, K] (`Solutions.gumbels`)
        valid: which entries are leaves [B, K]
        kappa: other thresholds [.., B, K], for each leaf; the weights then are [.., B, K], too
    """
    if kappa is None:
        kappa = gumbels.masked_fill(~valid, math.inf).amin(dim=1, keepdim=True)  # [B, 1]
    sampled = log_probs - log_survival(kappa, log_probs)
    threshold = gumbels == kappa
    sampled = sampled.masked_fill(threshold, -math.inf)
    complete = ~valid.all(dim=1, keepdim=True)
    weights = torch.where(complete, log_probs, sampled)
    if gumbels.shape[1] == 1:
        weights = torch.zeros_like(log_probs)
    return weights.masked_fill(~valid, -math.inf)


def estimate_expectation(
    values: Tensor, log_probs: Tensor, gumbels: Tensor, valid: Tensor | None = None, normalised: bool = True
) -> Tensor:
    """E[f] [B] from one round's ordered sample without replacement.

    Arguments:
        values: f of each leaf [B, K]
        log_probs, gumbels, valid: as in `importance_log_weights`; `valid` defaults to all
        normalised: divide by the sum of the weights (biased, lower variance); else the unbiased estimate, whose
            mean is exact if the root's Gumbel was sampled (the default of `search`)

    An instance without any leaf has the estimate NaN.
    """
    valid = torch.ones_like(gumbels, dtype=torch.bool) if valid is None else valid
    log_weights = importance_log_weights(log_probs, gumbels, valid)
    values = values.double().masked_fill(~valid, 0.0)
    if normalised:
        return (log_weights.softmax(dim=1) * values).sum(dim=1)
    estimate = (log_weights.exp() * values).sum(dim=1)
    return torch.where(valid.any(dim=1), estimate, math.nan)


def monte_carlo(values: Tensor, valid: Tensor | None = None) -> Tensor:
    """E[f] [B] from independent samples, as their mean [SBS, eq. 12]. Unbiased.

    Arguments:
        values: f of each sample [B, L]
        valid: which entries are samples [B, L]; default: all
    """
    valid = torch.ones_like(values, dtype=torch.bool) if valid is None else valid
    return values.double().masked_fill(~valid, 0.0).sum(dim=1) / valid.sum(dim=1)


def estimate_by_beam(values: Tensor, log_probs: Tensor, valid: Tensor | None = None, normalised: bool = True) -> Tensor:
    """E[f] [B] from the leaves of a beam search, weighted with their probabilities [SBS, section 4.2].

    Arguments:
        values: f of each leaf [B, K]
        log_probs: log p of each leaf [B, K], float64
        valid: which entries are leaves [B, K]; default: all
        normalised: divide by the sum of the probabilities (biased, exact when all leaves are found); else the sum of
            p * f, a lower bound of the expectation if f is never negative
    """
    valid = torch.ones_like(log_probs, dtype=torch.bool) if valid is None else valid
    weights = log_probs.exp().masked_fill(~valid, 0.0)
    total = (weights * values.double().masked_fill(~valid, 0.0)).sum(dim=1)
    return total / weights.sum(dim=1) if normalised else total


def estimate_over_rounds(
    values: Tensor,
    log_probs: Tensor,
    round_log_probs: Tensor,
    gumbels: Tensor,
    rounds: int,
    valid: Tensor | None = None,
    normalised: bool = True,
    complete: bool = False,
) -> Tensor:
    """E[f] [B] from several rounds without replacement, as the mean of an estimate for each round.

    The estimate of a round: the leaves of earlier rounds count exactly, with their probabilities; the round's own
    leaves estimate the expectation over all other leaves, which have the probability that is left. Where a round found
    fewer leaves than its width, all leaves are known, and the expectation is exact.

    Arguments:
        values: f of each leaf [B, n * K], round by round
        log_probs: log p of each leaf [B, n * K] under the policy, float64
        round_log_probs, gumbels: of each leaf [B, n * K], see `Solutions`
        rounds: n, those that the search made (`SearchStats.rounds`), which may be fewer than it was asked for
        valid: which entries are leaves [B, n * K]; default: all
        normalised: as in `estimate_expectation`, for the leaves of each round
        complete: whether these are all leaves of all instances, as when the search has made fewer rounds

    Raises ValueError unless the leaves are those of so many rounds.
    """
    if gumbels.shape[1] % rounds:
        raise ValueError(f"{gumbels.shape[1]} leaves are not those of {rounds} rounds")
    valid = torch.ones_like(gumbels, dtype=torch.bool) if valid is None else valid
    batch, each = len(valid), valid.shape[1] // rounds
    p = log_probs.exp().masked_fill(~valid, 0.0)
    found = p * values.double().masked_fill(~valid, 0.0)
    mass, known = (x.view(batch, rounds, each).sum(dim=2).cumsum(dim=1) for x in (p, found))  # [B, n] round included
    f, phi, gumbel, is_leaf = (x.reshape(batch * rounds, each) for x in (values, round_log_probs, gumbels, valid))
    rest = estimate_expectation(f, phi, gumbel, is_leaf, normalised).view(batch, rounds)
    mass_before, known_before = (pad(x[:, :-1], (1, 0)) for x in (mass, known))
    estimates = known_before + (1 - mass_before).clamp(min=0.0) * rest.nan_to_num()  # NaN: the round found no leaf
    return torch.where(valid.all(dim=1) & (not complete), estimates.mean(dim=1), known[:, -1])
