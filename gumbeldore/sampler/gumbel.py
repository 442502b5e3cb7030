"""Numerics of Gumbel perturbed log-probabilities [SBS, appendices B.3 and C]. Everything is float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def log1mexp(x: Tensor) -> Tensor:
    """log(1 - exp(-x)) for x >= 0, accurate at both ends."""
    small = x < math.log(2)
    # Each branch only ever sees arguments it is accurate for.
    return torch.where(
        small,
        torch.log(-torch.expm1(-x)),
        torch.log1p(-torch.exp(-x.where(~small, math.log(2)))),
    )


def gumbel_with_maximum(phi: Tensor, maximum: Tensor, noise: Tensor) -> Tensor:
    """Gumbel(phi) variables conditioned on their maximum [SBS, eq. 22-24].

    Arguments:
        phi: log-probabilities [..., A] (-inf: impossible, stays -inf)
        maximum: the value [...] that the largest of them takes, exactly
        noise: independent standard Gumbel draws [..., A]
    """
    g = phi + noise
    z = g.amax(dim=-1, keepdim=True)
    maximum = maximum[..., None]
    # log1mexp(z - g) by the branch for small arguments alone: for large ones its relative error grows, but not its
    # absolute one, and it is a summand here.
    v = maximum - g + (g - z).expm1_().neg_().log_()
    perturbed = maximum - v.clamp(min=0) - v.abs_().neg_().exp_().log1p_()
    return perturbed.masked_fill(phi == -math.inf, -math.inf)  # also where nothing is possible


def log_survival(kappa: Tensor, phi: Tensor) -> Tensor:
    """log q(kappa; phi) = log P(Gumbel(phi) > kappa) = log(1 - exp(-exp(phi - kappa))) [SBS, section 4.2]."""
    x = kappa - phi
    y = torch.exp(-x)
    series = -x - y / 2 + y**2 / 24 - y**4 / 2880  # log1mexp(y) around y = 0
    return torch.where(x >= 10, series, log1mexp(y))
