"""The instance of the job shop as networks and searches see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from gumbeldore.instance_set import MixedSizesError
from problems.common.groups import ranks_of, sizes_of
from problems.common.remaining import unmarked

Shops = TypeVar("Shops", bound=tuple)  # instances of one class, those of the flexible job shop included

TIMES = ("times", "release", "machine_release", "waits")  # the fields that hold times, none negative
DUE = ("due", "weight")  # the fields that only the weighted tardiness asks for
TIME_RANGE = (50, 99)  # an instance's largest time is brought to 99 if it is outside


class Instance(NamedTuple):
    """R job shops with the same number T of operations, J jobs, M machines and at most O operations per job.

    A job of k operations has them in the last k of its O places, so that every job ends at place O - 1. In the places
    before there is nothing: time 0, wait 0, machine 0. Operation o of job j has the number j * O + o.

    An operation of time 0 takes no machine: it can start as soon as its job is ready, and no other operation waits for
    it. So a job skips the machines at which its time is 0.

    In the classical job shop every job visits every machine once: O = M, T = J * M, releases and waits are 0.
    """

    times: Tensor  # [R, J, O] float32 processing times, not negative (of random instances above 0), about 1..99
    machines: Tensor  # [R, J, O] int64 in 0..M-1
    operations: Tensor  # [R, T] int64 the numbers of all operations, ascending
    release: Tensor  # [R, J] float32 no operation of the job starts before; without operations: 0
    machine_release: Tensor  # [R, M] float32 no operation starts on the machine before
    waits: Tensor  # [R, J, O] float32 from an operation's end to the start of its job's next one at least; last: 0
    due: Tensor  # [R, J] float32 when the job should have ended; may be below 0
    weight: Tensor  # [R, J] float32 what a unit of time later costs; 0: no due date
    queues: Tensor  # [R, M, S] int64 the numbers of the operations of each machine, ascending, then J * O up to S

    def stored(self) -> dict[str, Tensor]:
        """The fields that files of experts hold, from which the others follow. Machine -1: no operation."""
        fields = self._replace(machines=self.machines.masked_fill(~is_there(self), -1))._asdict()
        return {name: fields[name] for name in ("times", "machines", "release", "machine_release", "waits", *DUE)}

    @classmethod
    def restored(cls, fields: dict[str, Tensor]) -> Instance:
        """Instances of these fields; times and machines suffice. Raises ValueError if one of the two is missing."""
        if lacking := {"times", "machines"} - set(fields):
            raise ValueError(f"it lacks the arrays {', '.join(f'instance.{name}' for name in sorted(lacking))}")
        return job_shop(**fields)

    def shortest(self) -> Tensor:
        """The time of each operation where it takes the least [R, J, O]."""
        return self.times

    def options(self) -> tuple[Tensor, Tensor]:
        """Times and machines [R, T, 1] of all operations, each of which has one choice."""
        return tuple(x.flatten(1).gather(1, self.operations)[..., None] for x in (self.times, self.machines))

    def lower_bound(self) -> Tensor:
        """What no makespan [R] is below: a job's release, work and waits, a machine's release and work."""
        load = torch.zeros_like(self.machine_release)
        load.scatter_add_(1, self.machines.flatten(1), self.times.flatten(1))
        chains = self.release + (self.times + self.waits).sum(dim=2)
        return torch.maximum(chains.amax(dim=1), (load + self.machine_release * (load > 0)).amax(dim=1))

    def assigned(self, jobs: Tensor) -> tuple[Instance, Tensor]:
        """The job shops in which each operation has the machine that the decisions [R, q] give it, and their jobs."""
        return self, jobs

    def backwards(self, which: Tensor) -> Instance:
        """The instances, those of `which` bool [R] with the operations of every job in reverse order."""
        mirrored = mirrored_places(self, which)
        _, jobs, ops = mirrored.shape
        numbers = mirrored + ops * torch.arange(jobs, device=which.device)[:, None]
        numbers = F.pad(numbers.flatten(1), (0, 1), value=jobs * ops)
        return self._replace(
            times=self.times.gather(2, mirrored),
            machines=self.machines.gather(2, mirrored),
            waits=mirrored_waits(self, which, mirrored),
            queues=numbers.gather(1, self.queues.flatten(1)).view_as(self.queues),
        )


def job_shop(
    times: Tensor,
    machines: Tensor,
    release: Tensor | None = None,
    machine_release: Tensor | None = None,
    waits: Tensor | None = None,
    due: Tensor | None = None,
    weight: Tensor | None = None,
) -> Instance:
    """Instances of these fields, 0 where they are missing. Places [n, J, O] where the machine is -1 have no operation.

    Raises ValueError for shapes that do not go together and machines that are not there, MixedSizesError unless all
    instances have equally many operations.
    """
    if times.dim() != 3 or machines.shape != times.shape:
        shapes = f"{list(times.shape)} and {list(machines.shape)}"
        raise ValueError(f"times and machines must have the same shape [n, J, O], got {shapes}")
    count = max(1, int(machines.max()) + 1) if machine_release is None else machine_release.shape[-1]
    if ((machines < -1) | (machines >= count)).any():
        raise ValueError(f"machines must be in 0..{count - 1}, or -1 for no operation")
    given = {"release": release, "machine_release": machine_release, "waits": waits, "due": due, "weight": weight}
    shared = of_jobs_and_machines(machines >= 0, count, given, times.dtype)
    times, machines = at_the_end(machines >= 0, times, machines)
    operations = numbers_of(machines >= 0)
    times, machines = times.masked_fill(machines < 0, 0), machines.clamp(min=0)
    return Instance(times, machines, operations, **shared, queues=queues_of(machines, operations, count))


def of_jobs_and_machines(
    there: Tensor, machines: int, given: Mapping[str, Tensor | None], dtype: torch.dtype
) -> dict[str, Tensor]:
    """The fields that tell of jobs and machines: 0 where they are not given, and where there are no operations.

    Arguments:
        there: bool [n, J, O] where operations are, at the places that they have in `given`
        machines: M
        given: release, due and weight [n, J]; machine_release [n, M]; waits [n, J, O]

    Raises ValueError for another shape.
    """
    n, jobs, _ = there.shape
    of_job = (n, jobs)
    shapes = {
        "release": of_job,
        "machine_release": (n, machines),
        "waits": there.shape,
        "due": of_job,
        "weight": of_job,
    }
    fields = {}
    for name, shape in shapes.items():
        field = given.get(name)
        fields[name] = torch.zeros(shape, dtype=dtype, device=there.device) if field is None else field
        if fields[name].shape != shape:
            raise ValueError(f"{name} must be {list(shape)}, got {list(fields[name].shape)}")
    idle = ~there.any(dim=2)
    fields |= {name: fields[name].masked_fill(idle, 0) for name in ("release", *DUE)}
    there, waits = at_the_end(there, there, fields["waits"])
    waits = torch.cat([waits[..., :-1], waits[..., -1:].clamp(max=0)], dim=2)  # after the last one nothing waits
    return fields | {"waits": waits.masked_fill(~there, 0)}


def at_the_end(there: Tensor, *fields: Tensor) -> list[Tensor]:
    """Fields [n, J, O, ...] with the operations of every job moved to its last places.

    Arguments:
        there: bool [n, J, O] where operations are
    """
    order = there.to(torch.uint8).argsort(dim=2, stable=True)
    return [field.gather(2, order.view(*order.shape, *[1] * (field.dim() - 3)).expand_as(field)) for field in fields]


def numbers_of(there: Tensor) -> Tensor:
    """The numbers [R, T] of the operations that are there, bool [R, J, O]. Raises ValueError if their counts differ."""
    sizes = there.flatten(1).sum(dim=1).unique().tolist()
    if len(sizes) > 1:
        rule = "all instances must have the same number of operations to be scheduled"
        raise MixedSizesError(f"{rule}, got {', '.join(map(str, sizes))}: give them apart")
    return unmarked(~there.flatten(1), sum(sizes))


def queues_of(machines: Tensor, operations: Tensor, count: int) -> Tensor:
    """`Instance.queues` [R, count, S] of the operations [R, T]; S is the most operations of a machine."""
    rows, jobs, ops = machines.shape
    machine = machines.flatten(1).gather(1, operations)
    visits = sizes_of(machine, count)
    longest = int(visits.max()) if visits.numel() else 0
    queues = torch.full((rows, count * longest), jobs * ops, device=machine.device)
    slots = machine * longest + ranks_of(machine, visits)
    return queues.scatter_(1, slots, operations).view(rows, count, longest)


def is_there(instance: Any) -> Tensor:
    """Which places have an operation, bool [R, J, O]."""
    there = torch.zeros_like(instance.waits, dtype=torch.bool).flatten(1)
    return there.scatter_(1, instance.operations, True).view_as(instance.waits)


def lengths_of(instance: Any) -> Tensor:
    """The number of operations of each job [R, J]."""
    _, jobs, ops = instance.waits.shape
    return sizes_of(instance.operations // ops, jobs)


def random_instances(n: int, jobs: int, machines: int, generator: torch.Generator) -> Instance:
    """n instances with times uniform in 1..99 and the machines in a random order for each job [Taillard 1993]."""
    times = torch.randint(1, 100, (n, jobs, machines), generator=generator).float()
    order = torch.rand(n, jobs, machines, dtype=torch.float32, generator=generator).argsort(dim=2)
    return job_shop(times, order, machine_release=times.new_zeros(n, machines))


def random_general_instances(n: int, jobs: int, machines: int, generator: torch.Generator) -> Instance:
    """n general instances with times uniform in 1..99, J * M operations in all, and J for every machine.

    Pairs of jobs have M + d and M - d operations, d uniform in 0..M/2. The operations are spread over the machines at
    random, so that a job visits some machines several times and others never. With probability 1/3 a job or a machine
    has a release, uniform in 0..99 * M/2, and an operation is followed by a wait, uniform in 1..99.
    """

    def uniform(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=generator)

    def third(values: Tensor) -> Tensor:
        return values * (torch.rand(values.shape, dtype=torch.float32, generator=generator) < 1 / 3)

    more = uniform(0, machines // 2, n, jobs // 2)
    lengths = F.pad(torch.cat([machines + more, machines - more], dim=1), (0, jobs % 2), value=machines)
    ops = machines + machines // 2
    there = torch.arange(ops) >= ops - lengths[..., None]  # [n, J, O]
    spread = torch.rand(n, jobs * machines, dtype=torch.float32, generator=generator).argsort(dim=1) % machines
    on = torch.full((n, jobs, ops), -1).masked_scatter_(there, spread)
    last = torch.arange(ops) == ops - 1
    waits = third(uniform(1, 99, n, jobs, ops)).masked_fill(~there | last, 0)
    release, machine_release = (third(uniform(0, 99 * machines // 2, n, count)) for count in (jobs, machines))
    times = uniform(1, 99, n, jobs, ops).masked_fill(~there, 0)
    return job_shop(times.float(), on, release.float(), machine_release.float(), waits.float())


def work_bound(instance: Any) -> Tensor:
    """What the work takes at least [R], whenever it may begin: the lower bound without releases, 1 without work."""
    released = {name: torch.zeros_like(getattr(instance, name)) for name in ("release", "machine_release")}
    bound = instance._replace(**released).lower_bound()
    return bound.where(bound > 0, 1.0)


def check_instance(instance: Any) -> None:
    """Raises ValueError unless times, releases and waits are finite and not negative; inf: a machine that cannot."""
    for name in TIMES:
        values = instance.shortest() if name == "times" else getattr(instance, name)
        well = (values.isfinite() & (values >= 0)).flatten(1).all(dim=1)
        if not well.all():
            rule = f"{name} must be finite and not negative"
            raise ValueError(f"{rule}; not so in instance {int((~well).nonzero()[0])}")
    if not (instance.due.isfinite() & instance.weight.isfinite() & (instance.weight >= 0)).all():
        raise ValueError("due dates and weights must be finite, and no weight negative")


def for_network(instance: Shops) -> Shops:
    """The instances in float32, in another unit where the largest time is not 50..99 already: it is 99 then.

    Time 0 is when the first job is released: beside a late release float32 would lose the times.
    """
    released = instance.release.where(lengths_of(instance) > 0, instance.release.amax(dim=1, keepdim=True))
    begin = released.amin(dim=1, keepdim=True)
    release, machine_release = ((field - begin).clamp(min=0) for field in (instance.release, instance.machine_release))
    due = (instance.due - begin).masked_fill(instance.weight == 0, 0)
    fields = {"release": release, "machine_release": machine_release, "due": due, "weight": instance.weight.float()}
    instance = instance._replace(**fields)
    times = instance.times.flatten(1).double()
    largest = times.masked_fill(times.isinf(), 0).amax(dim=1, keepdim=True)  # inf: a machine that cannot do it
    low, high = TIME_RANGE
    fits = (largest >= low) & (largest <= high) | (largest == 0)

    def scaled(field: Tensor) -> Tensor:
        values = field.double().flatten(1)
        return torch.where(fits, values, values * high / largest).float().view_as(field)

    return with_times(instance, scaled)


def with_times(instance: Shops, change: Callable[[Tensor], Tensor]) -> Shops:
    """The instances with all times, releases, waits and due dates changed."""
    return instance._replace(**{name: change(getattr(instance, name)) for name in (*TIMES, "due")})


def is_reversible(instance: Any) -> Tensor:
    """Which instances [R] are as good backwards in time: those without releases."""
    return ((instance.release == 0).all(dim=1)) & ((instance.machine_release == 0).all(dim=1))


def mirrored_places(instance: Any, which: Tensor) -> Tensor:
    """The place [R, J, O] of the operation that each place gets, if those of `which` bool [R] are turned round."""
    rows, jobs, ops = instance.waits.shape
    place = torch.arange(ops, device=which.device).expand(rows, jobs, -1)
    first = ops - lengths_of(instance)[..., None]  # [R, J, 1]
    return torch.where((place >= first) & which[:, None, None], first + ops - 1 - place, place)


def mirrored_waits(instance: Any, which: Tensor, mirrored: Tensor) -> Tensor:
    """The waits [R, J, O] then; of two operations in turn, the wait stands at the earlier one."""
    waits = F.pad(instance.waits, (1, 0)).gather(2, mirrored)  # mirrored, at the other one of them
    return torch.where(which[:, None, None], waits, instance.waits)
