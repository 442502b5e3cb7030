"""Flexible job shops, with random solutions."""

from __future__ import annotations

import torch

from gumbeldore.testing import random_solution
from problems.fjsp import FJSP, Instance
from problems.fjsp.instances import random_instances


def one_size(jobs, machines, **options):
    return FJSP([[jobs, machines]], [[jobs, machines]], **options)


def drawn(n, jobs, machines, seed=0, general=True):
    """Instances, with releases and waits and times of 0 if general, and random solutions."""
    generator = torch.Generator().manual_seed(seed)
    instance = random_instances(n, jobs, machines, bool(seed % 2), generator)
    if general:

        def some(values):
            return torch.randint(1, 30, values.shape, generator=generator) * (
                torch.rand(values.shape, generator=generator) < 0.4
            )

        fields = instance.stored()
        zero = (torch.rand(instance.times.shape, generator=generator) < 0.2) & (fields["times"] > 0)
        fields = {name: some(fields[name]).float() for name in ("release", "machine_release", "waits")} | {
            "times": fields["times"].masked_fill(zero, 0)
        }
        instance = Instance.restored(fields)
    return instance, random_solution(one_size(jobs, machines), instance, generator)
