"""The instance of the flexible job shop as networks and searches see it."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from problems.formats.fjs import CANNOT
from problems.jssp import instances as job_shops
from problems.jssp.instances import (
    DUE,
    TIMES,
    at_the_end,
    is_there,
    lengths_of,
    mirrored_places,
    mirrored_waits,
    numbers_of,
    of_jobs_and_machines,
)
from problems.jssp.schedules import check_jobs, operations_of

# The times of Song et al. [2023]: an operation's mean is uniform, on its machines the times are close to the mean.
LARGEST_MEAN = 20
SPREAD = 0.2
LARGEST_TIME = 99  # of Wang et al. [2024], whose times are uniform


class Instance(NamedTuple):
    """R flexible job shops with the same number T of operations, J jobs, M machines, at most O operations per job.

    An operation goes to one of the machines that can do it. Its place is that of `problems.jssp.Instance`: jobs end at
    place O - 1. As there, an operation of time 0 takes no machine.
    """

    times: Tensor  # [R, J, O, M] float32 on each machine, inf where the machine cannot do it; 0 where no operation is
    operations: Tensor  # [R, T] int64 the numbers j * O + o of all operations, ascending
    release: Tensor  # [R, J] float32 no operation of the job starts before; without operations: 0
    machine_release: Tensor  # [R, M] float32 no operation starts on the machine before
    waits: Tensor  # [R, J, O] float32 from an operation's end to the start of its job's next one at least; last: 0
    due: Tensor  # [R, J] float32 when the job should have ended; may be below 0
    weight: Tensor  # [R, J] float32 what a unit of time later costs; 0: no due date

    def stored(self) -> dict[str, Tensor]:
        """The fields that files of experts hold. Time -1: the machine cannot do the operation, or none is there."""
        cannot = self.times.isinf() | ~is_there(self)[..., None]
        fields = self._replace(times=self.times.masked_fill(cannot, CANNOT))._asdict()
        return {name: fields[name] for name in (*TIMES, *DUE)}

    @classmethod
    def restored(cls, fields: dict[str, Tensor]) -> Instance:
        """Instances of these fields; times suffice. Raises ValueError if they are missing."""
        if "times" not in fields:
            raise ValueError("it lacks the array instance.times")
        return flexible_shop(**fields)

    def shortest(self) -> Tensor:
        """The time of each operation where it takes the least [R, J, O]."""
        return self.times.amin(dim=3)

    def options(self) -> tuple[Tensor, Tensor]:
        """Times and machines [R, T, M] of all operations; inf: the machine cannot do it."""
        machines = torch.arange(self.times.shape[3], device=self.times.device)
        times = self.times.flatten(1, 2).gather(1, self.operations[..., None].expand(-1, -1, len(machines)))
        return times, machines.expand_as(times)

    def lower_bound(self) -> Tensor:
        """What no makespan [R] is below: a job's release, work and waits; all work, evenly spread over the machines."""
        work = self.shortest()
        chains = self.release + (work + self.waits).sum(dim=2)
        return torch.maximum(chains.amax(dim=1), work.sum(dim=(1, 2)) / self.times.shape[3])

    def assigned(self, actions: Tensor) -> tuple[job_shops.Instance, Tensor]:
        """The job shops in which each operation has the machine that it is given, and the jobs of the decisions [R, q].

        Operations without a decision take no time. Raises ValueError if a machine cannot do its operation, and as
        `check_jobs` does if there are T decisions.
        """
        rows, jobs, ops, count = self.times.shape
        job = actions // count
        if actions.shape[-1] == self.operations.shape[1]:
            check_jobs(self, job)
        operations = operations_of(self, job)
        machines = torch.zeros(rows, jobs * ops, dtype=torch.int64, device=actions.device)
        machines.scatter_(1, operations, actions % count)
        undecided = torch.ones_like(machines, dtype=torch.bool).scatter_(1, operations, False)
        times = self.times.flatten(1, 2).gather(2, machines[..., None]).squeeze(2).masked_fill(undecided, 0)
        if times.isinf().any():
            row, number = times.isinf().nonzero()[0].tolist()
            op = number % ops - ops + int(lengths_of(self)[row, number // ops])
            where = f"row {row}: machine {int(machines[row, number])}"
            raise ValueError(f"{where} cannot do operation {op} of job {number // ops}")
        times, machines = times.view(rows, jobs, ops), machines.view(rows, jobs, ops)
        queues = machines.new_zeros(rows, count, 0)  # which the network of the job shop alone reads
        _, operations, *shared = self
        return job_shops.Instance(times, machines, operations, *shared, queues), job

    def backwards(self, which: Tensor) -> Instance:
        """The instances, those of `which` bool [R] with the operations of every job in reverse order."""
        mirrored = mirrored_places(self, which)
        times = self.times.gather(2, mirrored[..., None].expand_as(self.times))
        return self._replace(times=times, waits=mirrored_waits(self, which, mirrored))


def flexible_shop(
    times: Tensor,
    release: Tensor | None = None,
    machine_release: Tensor | None = None,
    waits: Tensor | None = None,
    due: Tensor | None = None,
    weight: Tensor | None = None,
) -> Instance:
    """Instances of these fields, 0 where they are missing. Times [n, J, O, M], below 0: the machine cannot do it.

    Where no machine can, there is no operation. Raises ValueError for shapes that do not go together, MixedSizesError
    unless all instances have equally many operations.
    """
    if times.dim() != 4:
        raise ValueError(f"times must be [n, J, O, M], got {list(times.shape)}")
    given = {"release": release, "machine_release": machine_release, "waits": waits, "due": due, "weight": weight}
    there = (times >= 0).any(dim=3)
    shared = of_jobs_and_machines(there, times.shape[3], given, times.dtype)
    there, times = at_the_end(there, there, times)
    times = times.masked_fill(times < 0, torch.inf).masked_fill(~there[..., None], 0)
    return Instance(times, numbers_of(there), **shared)


def random_instances(n: int, jobs: int, machines: int, similar: bool, generator: torch.Generator) -> Instance:
    """n instances with J * M operations, each on 1..M machines drawn at random.

    Arguments:
        similar: as Song et al. [2023] draw them (SD1): an operation's mean time is uniform in 1..20, its times are
            whole numbers within 20% of the mean, 20 at most; jobs have 0.8 M to 1.2 M operations, here in pairs that
            have 2 M, so that all instances have equally many. False: as Wang et al. [2024] do (SD2): times uniform in
            1..99, jobs of M operations
    """

    def uniform(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=generator)

    def share(*shape: int) -> Tensor:
        return torch.rand(shape, dtype=torch.float32, generator=generator)

    extra = round(SPREAD * machines)
    most = machines + extra
    more = uniform(-extra, extra, n, jobs // 2) * similar
    lengths = F.pad(torch.cat([machines + more, machines - more], dim=1), (0, jobs % 2), value=machines)
    there = torch.arange(most) >= most - lengths[..., None]  # [n, J, O]
    shape = n, jobs, most, machines
    if similar:
        mean = uniform(1, LARGEST_MEAN, *shape[:3], 1)
        low = ((1 - SPREAD) * mean).round().clamp(min=1)
        high = ((1 + SPREAD) * mean).round().clamp(max=LARGEST_MEAN)
        times = low + (share(*shape) * (high - low + 1)).floor()
    else:
        times = uniform(1, LARGEST_TIME, *shape).float()
    rank = share(*shape).argsort(dim=3).argsort(dim=3)
    able = (rank < uniform(1, machines, *shape[:3], 1)) & there[..., None]
    return flexible_shop(times.masked_fill(~able, CANNOT))
