"""The flexible job shop in its own units, as users give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumbeldore.batches import take
from problems.fjsp.instances import Instance, flexible_shop
from problems.formats.fjs import CANNOT, FjspInstance
from problems.formats.job_shop import LARGEST_TOTAL
from problems.jssp import originals as job_shops
from problems.jssp.instances import TIMES, at_the_end, of_jobs_and_machines
from problems.jssp.objectives import cost_of
from problems.jssp.originals import check_due_dates, first_numbers, place_of, refuse, with_weights


class Original(NamedTuple):
    """n instances of one size in their own units. The places of operations are those of `Instance`."""

    times: Tensor  # [n, J, O, M] int64, CANNOT where the machine cannot do the operation, and where no operation is
    release: Tensor  # [n, J] int64
    machine_release: Tensor  # [n, M] int64
    waits: Tensor  # [n, J, O] int64
    due: Tensor  # [n, J] int64, as in `Instance`
    weight: Tensor  # [n, J] int64; all 0 where the makespan is minimised
    first: Tensor  # [n] int64 the number of the first machine and of the first job in the input

    @property
    def there(self) -> Tensor:
        """Where operations are, bool [n, J, O]."""
        return (self.times >= 0).any(dim=3)

    def to_schedule(self) -> Instance:
        """The instances in float64, which is exact. Raises MixedSizesError unless all have equally many operations."""
        return flexible_shop(*(field.double() for field in self[:-1]))

    def assigned(self, actions: Tensor) -> tuple[job_shops.Original, Tensor]:
        """As `Instance.assigned`, in the same unit."""
        given, jobs = self.to_schedule().assigned(actions)
        whole = job_shops.Original(*(field.long() for field in job_shops.original_of(given)))
        return whole._replace(first=self.first), jobs

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], first: np.ndarray | None = None) -> Original:
        """Originals from the arrays of FjspInstance with one dimension more for n instances; 0 where these are missing.

        Arguments:
            first: as in `Original`
        """
        given = {name: torch.from_numpy(array.astype(np.int64)) for name, array in arrays.items()}
        there = (given["times"] >= 0).any(dim=3)
        shared = of_jobs_and_machines(there, given["times"].shape[3], with_weights(given), torch.int64)
        (times,) = at_the_end(there, given["times"])
        return cls(times, **shared, first=first_numbers(first, len(times)))

    def check(self, where: str) -> None:
        """Raises ValueError that begins with `where` and names job and operation unless all is well-formed."""
        times = self.times
        worst = times.amin(dim=3)
        refuse(self, worst < CANNOT, "times must not be negative, but for -1: the machine cannot; got {}", where, worst)
        for name in TIMES[1:]:
            values = getattr(self, name)
            kind = "machine" if name == "machine_release" else "job"
            refuse(self, values < 0, f"{name} must not be negative, got {{}}", where, values, kind)
        check_due_dates(self, where)
        longest = times.amax(dim=3).clamp(min=0)
        total = sum(field.double().flatten(1).sum(dim=1) for field in (longest, *self[1:4]))
        refuse(self, total > LARGEST_TOTAL, f"times may add up to at most {LARGEST_TOTAL}, got {{:.0f}}", where, total)
        refuse(self, ~self.there.flatten(1).any(dim=1), "there is no operation to be scheduled", where)

    def warnings_of(self, names: list[str]) -> list[str]:
        """A warning of the first operation whose time is 0 on some machines alone, where 0 may stand for "cannot".

        Arguments:
            names: n of the instances
        """
        some = (self.times == 0).any(dim=3) & (self.times > 0).any(dim=3)
        for instance, *place in some.nonzero()[:1].tolist():
            what = f"{place_of(self, instance, place)} takes 0 on some machines and more on others"
            return [f"{names[instance]}: {what}: where a machine cannot do an operation, its time is {CANNOT}, not 0"]
        return []

    def shops(self, names: list[str]) -> list[FjspInstance]:
        """The instances one by one, as files give them."""
        fields = [field.numpy() for field in self[:-1]]
        return [FjspInstance(name, *(field[i] for field in fields)) for i, name in enumerate(names)]

    def true_cost(self, objective: str, shop: Instance) -> Callable[[Tensor, Tensor], Tensor]:
        """The cost in the instances' own units, as in InstanceSet; `shop` is what of them is to be scheduled."""
        return partial(_true_cost, objective, shop)

    def lower_bounds(self, shop: Instance) -> Tensor:
        """Lower bounds of the makespans [n]; `shop` as in `true_cost`."""
        return shop.lower_bound()


def original_of(instance: Instance) -> Original:
    """Instances of whole numbers as originals in the same unit."""
    fields = {name: field.long() for name, field in instance.stored().items()}
    return Original(**fields, first=torch.zeros(len(instance.times), dtype=torch.int64))


def _true_cost(objective: str, shop: Instance, index: Tensor, actions: Tensor) -> Tensor:
    """Costs [m] of solutions [m, T] of the instances `index` [m], on the CPU, which has float64."""
    return cost_of(objective, *take(shop, index.cpu()).assigned(actions.cpu()))
