"""Expectations from a sample without replacement [SBS, eq. 13-14; GD, eq. 3-4]."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gumbeldore.sampler.gumbel import log_survival


def importance_log_weights(log_probs: Tensor, gumbels: Tensor, valid: Tensor) -> Tensor:
    """log(p_i / q_i) [B, K] of the leaves of one round, -inf for those that only set the threshold.

    kappa is the smallest perturbed log-probability of the round, q_i = P(Gumbel(log p_i) > kappa). A round that
    returned fewer leaves than its width returned all there were: then kappa = -inf, q_i = 1 and estimates are exact.
    A single leaf has weight 1.

    Arguments:
        log_probs: log p_i [B, K] under the distribution the round sampled from, float64
        gumbels: perturbed log-probabilities [B, K] (`Solutions.gumbels`)
        valid: which entries are leaves [B, K]
    """
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


def estimate_entropy(
    log_probs: Tensor, gumbels: Tensor, valid: Tensor | None = None, normalised: bool = True
) -> Tensor:
    """Entropy [B] (nats) of the sampled distribution: the expectation of -log p."""
    return estimate_expectation(-log_probs, log_probs, gumbels, valid, normalised)
