"""What the children of a beam are perturbed with in a round."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gumbeldore.sampler.beam import Perturb
from gumbeldore.sampler.gumbel import gumbel_with_maximum
from gumbeldore.seeding import gumbel_noise

# (keys [B], place of the round's first draws) -> how children are perturbed, and the root's perturbed log-probability
Noise = Callable[[Tensor, int], tuple[Perturb, Tensor]]


def gumbel(keys: Tensor, place: int) -> tuple[Perturb, Tensor]:
    """Gumbel noise: the beam becomes a sample without replacement [SBS, algorithm 1]."""

    def perturb(phi: Tensor, parent: Tensor, depth: int) -> Tensor:
        return gumbel_with_maximum(phi, parent, gumbel_noise(keys, place + 1 + depth, phi.shape[1:]))

    return perturb, gumbel_noise(keys, place, ())


def gumbel_below_zero(keys: Tensor, place: int) -> tuple[Perturb, Tensor]:
    """Gumbel noise, but for the root, whose perturbed log-probability is 0 as in the text of [GD]."""
    perturb, root = gumbel(keys, place)
    return perturb, torch.zeros_like(root)


def no_noise(keys: Tensor, place: int) -> tuple[Perturb, Tensor]:
    """A plain beam search."""
    return lambda phi, parent, depth: phi, torch.zeros(len(keys), dtype=torch.float64, device=keys.device)
