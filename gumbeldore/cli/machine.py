"""Where a command computes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from gumbeldore.cli.schema import MachineSettings
from gumbeldore.cli.words import command_line
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.devices import resolve_device, resolve_rows, resolve_workers
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.hardware import hardware
from gumbeldore.runtime.precision import resolve_precision


class Machine(NamedTuple):
    """Device, precision and workers, decided."""

    device: torch.device
    precision: str
    compiled: bool  # whether searches run with compiled layers: on CPUs these are slower
    workers: int
    worker_threads: int
    search_batch_rows: int

    @classmethod
    def of(cls, settings: MachineSettings) -> Machine:
        """As the settings say, with the cluster's room for workers if one has been joined.

        Raises ValueError for what is not there.
        """
        device = resolve_device(settings.device)
        return cls(
            device,
            resolve_precision(settings.precision, device),
            settings.compile and device.type == "cuda",
            resolve_workers(settings.workers, device, settings.worker_threads),
            settings.worker_threads,
            resolve_rows(settings.search_batch_rows, device),
        )

    def pool(self, problem: Problem, policy: Policy, beside_training: bool = False) -> SearchPool:
        """Where the searches with a policy run."""
        where = self.workers, self.search_batch_rows, str(self.device), self.precision, self.worker_threads
        return SearchPool(problem, policy, *where, compiled=self.compiled, beside_training=beside_training)

    @property
    def decided(self) -> dict[str, Any]:
        """What results depend on, by key."""
        rows = self.search_batch_rows
        return {"device": str(self.device), "precision": self.precision, "search_batch_rows": rows}

    def about(self, problem: Problem, seed: int, **source: Any) -> dict[str, Any]:
        """What results were computed with, for their files, after their `source`: checkpoint, instances, ..."""
        objective = {"objective": problem.objective} if problem.objective else {}
        where = {"hardware": str(self), "precision": self.precision}
        return {**source, **objective, **where, "seed": seed, "command": command_line()}

    def __str__(self) -> str:
        return f"{hardware(self.device)}, {self.precision}, {self.workers or 'no'} worker{'s' * (self.workers != 1)}"
