"""Populations to race on, and a record of what was looked at."""

from __future__ import annotations

import torch
from torch import Tensor

from gumbeldore.seeding import generator as seeded


def drawn(kind: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Independent draws with about mean 0 and variance 1: normal, uniform or log-normal (sigma 1/2, skewness 1.75)."""
    if kind == "uniform":
        return (torch.rand(shape, dtype=torch.float64, generator=generator) - 0.5) * 12**0.5
    normal = torch.randn(shape, dtype=torch.float64, generator=generator)
    if kind == "normal":
        return normal
    assert kind == "lognormal"
    mean, spread = torch.tensor([0.125, 0.25], dtype=torch.float64).exp()
    return ((0.5 * normal).exp() - mean) / (mean * (spread - 1).sqrt())


def with_means(rewards: Tensor, means: list[float]) -> Tensor:
    """The rewards [D, N], moved so that every arm has the mean given here [D]."""
    return rewards - rewards.mean(dim=1, keepdim=True) + torch.tensor(means, dtype=torch.float64)[:, None]


def spread(rewards: Tensor) -> float:
    """The range of one reward: the largest of all arms."""
    return float((rewards.amax(dim=1) - rewards.amin(dim=1)).max())


class Recorded:
    """Rewards from a table [D, N] that remember which were looked at, and refuse to show one twice."""

    def __init__(self, table: Tensor):
        self.table = table
        self.looked_at = torch.zeros(table.shape, dtype=torch.bool)

    def __call__(self, arm: int, indices: Tensor) -> Tensor:
        assert not self.looked_at[arm, indices].any() and len(indices.unique()) == len(indices)
        self.looked_at[arm, indices] = True
        return self.table[arm, indices]


def generator(*parts: int | str) -> torch.Generator:
    return seeded(0, "races", *parts)
