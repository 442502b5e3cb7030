"""The job shop in its own units, as users give it, and what of it is to be scheduled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gumbeldore.batches import take
from problems.formats.job_shop import LARGEST_TOTAL, NO_OPERATION, NOT_FIXED, JsspInstance
from problems.jssp.instances import DUE, TIMES, Instance, at_the_end, job_shop, of_jobs_and_machines, with_times
from problems.jssp.objectives import FLOW, MAKESPAN, TARDINESS, cost_of
from problems.jssp.schedules import overlapping


class Original(NamedTuple):
    """n instances of one size in their own units. The places of operations are those of `Instance`."""

    times: Tensor  # [n, J, O] int64
    machines: Tensor  # [n, J, O] int64, NO_OPERATION where there is none
    release: Tensor  # [n, J] int64
    machine_release: Tensor  # [n, M] int64
    waits: Tensor  # [n, J, O] int64
    due: Tensor  # [n, J] int64, as in `Instance`
    weight: Tensor  # [n, J] int64; all 0 where the makespan is minimised
    fixed: Tensor  # [n, J, O] int64 starts of operations that have one already, else NOT_FIXED
    first: Tensor  # [n] int64 the number of the first machine and of the first job in the input, 1 in Taillard's files

    @property
    def there(self) -> Tensor:
        """Where operations are, bool [n, J, O]."""
        return self.machines >= 0

    @property
    def is_fixed(self) -> Tensor:
        """Which operations are fixed, bool [n, J, O]."""
        return self.fixed > NOT_FIXED

    @property
    def fixed_ends(self) -> Tensor:
        """Ends of the fixed operations [n, J, O], which may be below 0; NOT_FIXED elsewhere, earlier than any end."""
        return torch.where(self.is_fixed, self.fixed + self.times, NOT_FIXED)

    def to_schedule(self) -> Instance:
        """The operations that are not fixed, int64. The fixed ones are in the releases of their jobs and machines.

        Raises MixedSizesError unless as many remain in all instances.
        """
        ends = self.fixed_ends
        release = torch.maximum(self.release, (ends + self.waits * self.is_fixed).amax(dim=2))
        taken = torch.where(self.times > 0, ends, 0).flatten(1)
        machines = self.machines.clamp(min=0).flatten(1)
        machine_release = self.machine_release.scatter_reduce(1, machines, taken, "amax")
        remaining = self.machines.masked_fill(self.is_fixed, NO_OPERATION)
        return job_shop(self.times, remaining, release, machine_release, self.waits, self.due, self.weight)

    def assigned(self, jobs: Tensor) -> tuple[Original, Tensor]:
        """As `Instance.assigned`."""
        return self, jobs

    def all_starts(self, start: Tensor) -> Tensor:
        """Starts [n, J, O] of all operations from those of the operations that are not fixed."""
        return torch.where(self.is_fixed, self.fixed, start)

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], first: np.ndarray | None = None) -> Original:
        """Originals from the arrays of JsspInstance with one dimension more for n instances; 0 where these are missing.

        Arguments:
            arrays: of whole numbers; those of operations have NO_OPERATION as machine wherever there is none
            first: as in `Original`
        """
        given = {name: torch.from_numpy(array.astype(np.int64)) for name, array in arrays.items()}
        machines = given["machines"]
        count = given["machine_release"].shape[1] if "machine_release" in given else max(1, int(machines.max()) + 1)
        shared = of_jobs_and_machines(machines >= 0, count, with_weights(given), torch.int64)
        fixed = given.get("fixed", torch.full_like(machines, NOT_FIXED))
        times, machines, fixed = at_the_end(machines >= 0, given["times"], machines, fixed)
        return cls(
            times.masked_fill(machines < 0, 0), machines, **shared, fixed=fixed, first=first_numbers(first, len(times))
        )

    def check(self, where: str) -> None:
        """Raises ValueError that begins with `where` and names job and operation unless all is well-formed.

        Times, releases and waits must not be negative. The fixed operations of a job must be its first ones. Each
        starts after the one before it has ended and the wait after it is over, and no two of a machine overlap.
        """
        count = self.machine_release.shape[1]
        for name in TIMES:
            values = getattr(self, name)
            kind = "machine" if name == "machine_release" else "job"
            refuse(self, values < 0, f"{name} must not be negative, got {{}}", where, values, kind)
        machines = self.machines
        wrong = (machines < NO_OPERATION) | (machines >= count)
        refuse(self, wrong, f"there are {count} machines, not one for {{}}", where, machines)
        check_due_dates(self, where)
        total = sum(getattr(self, name).double().flatten(1).sum(dim=1) for name in TIMES)
        refuse(self, total > LARGEST_TOTAL, f"times may add up to at most {LARGEST_TOTAL}, got {{:.0f}}", where, total)
        none = ~(self.there & ~self.is_fixed).flatten(1).any(dim=1)
        refuse(self, none, "there is no operation to be scheduled", where)
        _check_fixed(self, where)

    def warnings_of(self, names: list[str]) -> list[str]:
        """A warning of the first fixed operation before which its machine stands idle, though others could run there.

        Arguments:
            names: n of the instances
        """
        if not (self.fixed > 0).any():
            return []
        shop = self.to_schedule()
        takes = shop.times > 0  # nothing that is fixed
        busy = shop.times + shop.waits
        ends = shop.release[..., None] + busy.cumsum(dim=2) - shop.waits  # if no machine makes the job wait
        for instance, job, place in ((self.fixed > 0) & (self.times > 0)).nonzero().tolist():
            machine, start = self.machines[instance, job, place], self.fixed[instance, job, place]
            mine = self.machines[instance] == machine
            earlier = self.fixed_ends[instance][mine & (self.fixed[instance] < start)]
            since = torch.cat([earlier, self.machine_release[instance, machine][None].clamp(min=0)]).amax()
            others = mine & takes[instance]
            if (torch.maximum(ends[instance], since + shop.times[instance])[others] <= start).any():
                where = place_of(self, instance, [job, place])
                rule = "nothing starts before a fixed operation on its machine; breaks are not supported"
                what = f"{where} is fixed at {int(start)}, and others could run on its machine before it"
                return [f"{names[instance]}: {what}: {rule}"]
        return []

    def shops(self, names: list[str]) -> list[JsspInstance]:
        """The instances one by one, as files give them."""
        arrays = {field: values.numpy() for field, values in self._asdict().items() if field != "first"}
        return [
            JsspInstance(name, **{field: each[i] for field, each in arrays.items()}) for i, name in enumerate(names)
        ]

    def true_cost(self, objective: str, shop: Instance) -> Callable[[Tensor, Tensor], Tensor]:
        """The cost in the instances' own units, as in InstanceSet; `shop` is what of them is to be scheduled."""
        return partial(_true_cost, objective, with_times(shop, Tensor.double), cost_of_fixed(self))

    def lower_bounds(self, shop: Instance) -> Tensor:
        """Lower bounds of the makespans [n]; `shop` as in `true_cost`."""
        return torch.maximum(shop.lower_bound(), self.fixed_ends.flatten(1).amax(dim=1))


def original_of(instance: Instance) -> Original:
    """Instances as originals in the same unit, of the same dtype, without fixed operations."""
    fields = instance.stored()
    fixed, first = torch.full_like(fields["machines"], NOT_FIXED), torch.zeros_like(fields["machines"][:, 0, 0])
    return Original(**fields, fixed=fixed, first=first)


def first_numbers(first: np.ndarray | None, n: int) -> Tensor:
    """The numbers of the first machines [n] int64: 0 where they are not given."""
    return torch.zeros(n, dtype=torch.int64) if first is None else torch.from_numpy(first.astype(np.int64))


def with_weights(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arrays with a weight of 1 where due dates have none, and without weights where there are no due dates."""
    if "due" in given:
        return {"weight": torch.ones_like(given["due"])} | given
    return {name: array for name, array in given.items() if name != "weight"}


def for_objective(original: Any, objective: str, where: str) -> Any:
    """Originals with the due dates and weights of the objective; with the makespan these are 0.

    Raises ValueError that begins with `where` if the weighted tardiness is asked for and an instance has no due dates.
    """
    if objective == TARDINESS:
        rule = "the weighted tardiness needs due dates, `due`, of jobs whose `weight` is above 0, in JSON or arrays"
        refuse(original, ~original.weight.any(dim=1), rule, where)
        return original
    same = torch.full_like(original.weight, int(objective == FLOW))
    return original._replace(due=original.release * same, weight=same)


def check_due_dates(original: Any, where: str) -> None:
    """Raises ValueError unless no weight is negative, and due dates and weights are not too large."""
    refuse(original, original.weight < 0, "weight must not be negative, got {}", where, original.weight)
    for name in DUE:
        values = getattr(original, name)
        far = values.abs() > LARGEST_TOTAL
        refuse(original, far, f"{name} must be within {LARGEST_TOTAL:g}, got {{}}", where, values)


def _check_fixed(original: Original, where: str) -> None:
    fixed, is_fixed = original.fixed, original.is_fixed
    far = is_fixed & (fixed.abs() > LARGEST_TOTAL)
    refuse(original, far, f"its fixed start must be within {LARGEST_TOTAL:g}, got {{}}", where, fixed)
    open_before = F.pad((original.there & ~is_fixed)[..., :-1], (1, 0))
    refuse(original, is_fixed & open_before, "it is fixed, the operation before it is not", where)
    ready = F.pad((original.fixed_ends + original.waits)[..., :-1], (1, 0))
    early = is_fixed & F.pad(is_fixed[..., :-1], (1, 0)) & (fixed < ready)
    refuse(original, early, "it is fixed at {}, before its job is ready for it", where, fixed)
    machines = original.machines.masked_fill(~is_fixed | (original.times == 0), NO_OPERATION)
    wrong = overlapping(machines, fixed, fixed + original.times)
    refuse(original, wrong, "it is fixed at {}, while another fixed operation is on its machine", where, fixed)


def refuse(
    original: Original, wrong: Tensor, rule: str, where: str, values: Tensor | None = None, kind: str = "job"
) -> None:
    """Raises ValueError with the rule if something is wrong, [n, ...]; it names the first place, and its value."""
    if not wrong.any():
        return
    instance, *place = wrong.nonzero()[0].tolist()
    parts = [*([f"instance {instance}"] if len(wrong) > 1 else []), place_of(original, instance, place, kind)]
    value = None if values is None else values[(instance, *place)].item()
    raise ValueError(": ".join([where, *filter(None, [", ".join(filter(None, parts))]), rule.format(value)]))


def place_of(original: Any, instance: int, place: list[int], kind: str = "job") -> str:
    """Where something is, in words: nothing, a job (or what `kind` says), or a job and its operation."""
    parts = [f"{kind} {number + int(original.first[instance])}" for number in place[:1]]
    if len(place) == 2:  # counted from the job's first one
        absent = int((~original.there[instance, place[0]]).sum())
        parts.append(f"operation {max(0, place[1] - absent)}")
    return ", ".join(parts)


def cost_of_fixed(original: Original) -> Tensor:
    """Of the fixed operations: [n] the latest end; with due dates the weighted tardiness of the jobs that are done."""
    ends = original.fixed_ends.amax(dim=2)
    done = original.is_fixed.any(dim=2) & ~(original.there & ~original.is_fixed).any(dim=2)
    late = (original.weight * (ends - original.due).clamp(min=0) * done).sum(dim=1)
    return torch.where(original.weight.any(dim=1), late, ends.amax(dim=1)).double()


def _true_cost(objective: str, shop: Instance, fixed: Tensor, index: Tensor, actions: Tensor) -> Tensor:
    """Costs [m] of the sequences of jobs [m, T] of the instances `index` [m], on the CPU, which has float64.

    Arguments:
        fixed: [n] of `cost_of_fixed`
    """
    index = index.cpu()
    costs = cost_of(objective, take(shop, index), actions.cpu())
    return torch.maximum(costs, fixed[index]) if objective == MAKESPAN else costs + fixed[index]
