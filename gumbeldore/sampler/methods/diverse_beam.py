"""Diverse beam search: groups of beams that avoid each other's actions [Vijayakumar et al. 2018]."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gumbeldore.runtime.checked import at_least
from gumbeldore.sampler.beam import Select
from gumbeldore.sampler.methods.beam import OneRound
from gumbeldore.sampler.methods.method import at_least_one
from gumbeldore.sampler.noise import no_noise
from gumbeldore.sampler.trie_search import Beams


@dataclass(frozen=True)
class DiverseBeam(OneRound):
    """Beam search in groups, which are filled one after the other at each step.

    Arguments:
        beam_width: of all groups together
        groups: groups of beams that share beam_width
        diversity: lambda, by how much a log-probability is lower for each time that earlier groups have chosen the
            same action at this step
    """

    beam_width: int = at_least_one(32)
    groups: int = at_least_one(4)
    diversity: float = at_least(0, 0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beam_width % self.groups:
            raise ValueError(f"groups must divide beam_width={self.beam_width}, got {self.groups}")

    @property
    def beams(self) -> Beams:
        select = diverse(self.groups, self.diversity)
        return Beams(self.beam_width // self.groups, copies=self.groups, noise=no_noise, select=select)


def diverse(groups: int, diversity: float) -> Select:
    """The selection of a step: one group after the other keeps its best children.

    A child's score is lower by `diversity` for every child with the same action that earlier groups have kept at this
    step. What a group carries on are the scores without that.

    Arguments:
        groups: G; the beams [b * G, K] of an instance are its groups
    """

    def select(score: Tensor) -> tuple[Tensor, Tensor]:
        width, actions = score.shape[1:]
        grouped = score.view(-1, groups, width, actions)
        chosen = score.new_zeros(len(grouped), actions)  # how often earlier groups have kept an action
        places = []
        for group in grouped.unbind(1):  # [b, K, A]
            place = (group - diversity * chosen[:, None]).flatten(1).topk(width, dim=1).indices
            kept = group.flatten(1).gather(1, place).isfinite()
            chosen.scatter_add_(1, place % actions, kept.to(chosen.dtype))
            places.append(place)
        place = torch.stack(places, dim=1).flatten(0, 1)  # [b * G, K]
        return score.flatten(1).gather(1, place), place

    return select
