"""Pseudo-experts: instances with the best solution that was sampled for each, in memory and as arrays on disk."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumbeldore.batches import batch_size, joined, moved, take, to
from gumbeldore.interfaces import HasStoredForm, Problem
from gumbeldore.runtime.arrays import check_sizes
from gumbeldore.runtime.files import atomic_write, remove_leftovers

CPU = torch.device("cpu")
SOLUTIONS = ("actions", "costs")  # arrays of a file beside those of the instances
FILE = re.compile(r"(epoch|given)_\d+(_\d+)?\.npz")  # of a shard; files of other names are the user's


class Shard(NamedTuple):
    """What one epoch added, or a part of what was given; all of one size."""

    name: str
    instances: Any  # [n, ...]
    actions: Tensor  # [n, T]
    costs: Tensor  # [n]


class Example(NamedTuple):
    """A minibatch of decisions to imitate, all at the same step."""

    instance: Any  # [R, ...]
    state: Any  # [R, ...] after the decisions before the step
    remaining_actions: Tensor  # [R, T - step] the expert's decisions from the step on; the first is the target


class PseudoExperts:
    """Shards on disk, one file per epoch. Adding a shard writes its file alone; forgetting one deletes no file yet.

    `prune` deletes files. It is called after a checkpoint has been written that does not need them: a run killed in
    between finds every file that its checkpoint names.

    Arguments:
        folder: where the shards are written; None keeps them in memory alone
    """

    def __init__(self, folder: Path | None = None):
        self.folder = folder
        self.shards: list[Shard] = []
        self._checksums: dict[str, str] = {}  # of shards on disk, by their names
        self._groups: dict[torch.device, list[Group]] = {}  # of the same size, on each device that asked
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        return sum(len(shard.actions) for shard in self.shards)

    def add(self, shard: Shard) -> None:
        """Append experts and write them to `<name>.npz`."""
        if self.folder is not None:
            arrays = {"actions": shard.actions.numpy(), "costs": shard.costs.numpy()}
            instances = shard.instances
            fields = instances.stored() if isinstance(instances, HasStoredForm) else instances._asdict()
            arrays |= {f"instance.{field}": value.numpy() for field, value in fields.items()}
            self._checksums[shard.name] = checksum(arrays)
            with atomic_write(self.folder / f"{shard.name}.npz") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        self._keep([*self.shards, shard])

    def clear(self) -> None:
        """Forget all experts (their files stay until `prune`)."""
        self._keep([])

    def replace(self, shards: Iterable[Shard]) -> None:
        """Have these experts and no others."""
        self.clear()
        for shard in shards:
            self.add(shard)

    def forget_first(self) -> None:
        """Forget the experts of the first shard, which has been in here for longest (its file stays until `prune`)."""
        self._keep(self.shards[1:])

    def prune(self) -> None:
        """Delete the files of forgotten shards, and what is half-written; what else lies there is the user's."""
        if self.folder is not None:
            remove_leftovers(self.folder)
            kept = {f"{shard.name}.npz" for shard in self.shards}
            for path in self.folder.iterdir():
                if FILE.fullmatch(path.name) and path.name not in kept and path.is_file():
                    path.unlink()

    def state_dict(self) -> dict[str, Any]:
        """The names of the shards, and the checksums of those on disk."""
        names = [shard.name for shard in self.shards]
        checksums = {name: self._checksums[name] for name in names if name in self._checksums}
        return {"dataset": names, "checksums": checksums}

    def restore(self, names: list[str], instance_type: Any, checksums: Mapping[str, str] | None = None) -> None:
        """Read back the shards that a checkpoint names and that are not in memory.

        Arguments:
            checksums: as `state_dict` has them; None: of a checkpoint that an older version wrote

        Raises ValueError naming the file of a shard that is missing, damaged or another one.
        """
        known = {shard.name: shard for shard in self.shards}
        for name in names:
            if name not in known:
                assert self.folder is not None, "a dataset in memory alone cannot be read back"
                path = self.folder / f"{name}.npz"
                known[name], self._checksums[name] = _read(path, instance_type, (checksums or {}).get(name))
        self._keep([known[name] for name in names])

    def batch(self, problem: Problem, size: int, generator: torch.Generator, device: torch.device = CPU) -> Example:
        """`size` decisions at one step: experts of one size, drawn at random, augmented, put in order, replayed so far.

        All decisions that are a choice are equally likely, whatever the number of them in an expert.

        Arguments:
            generator: of the CPU, so that every device sees the same examples
            device: where the experts are kept and the examples are made
        """
        if not self.shards:
            raise ValueError("there are no pseudo-experts to learn from")
        groups = self._by_size(problem, device)
        decisions = torch.tensor([float(group.choosing.sum()) for group in groups], dtype=torch.float32)
        instances, actions, choosing = groups[int(torch.multinomial(decisions, 1, generator=generator))]
        before = choosing.cumsum(0)  # of the decisions up to each step
        share = torch.rand((), dtype=torch.float64, generator=generator)
        step = int(torch.searchsorted(before, (share * before[-1]).long(), right=True))
        rows = moved(torch.randint(int(choosing[step]), (size,), generator=generator), device)
        instance, actions = take(instances, rows), actions[rows]
        instance, actions = problem.augment(instance, actions, step, generator)
        actions = problem.reorder(instance, actions, step, generator)
        return Example(instance, problem.replay(instance, actions[:, :step]), actions[:, step:])

    def _by_size(self, problem: Problem, device: torch.device) -> list[Group]:
        """Experts of the same size side by side."""
        if device not in self._groups:
            sizes: dict[tuple, list[Shard]] = {}
            for shard in self.shards:
                sizes.setdefault(tuple(field.shape[1:] for field in shard.instances), []).append(shard)
            self._groups[device] = [_together(problem, same, device) for same in sizes.values()]
        return self._groups[device]

    def _keep(self, shards: list[Shard]) -> None:
        self.shards, self._groups = shards, {}


class Group(NamedTuple):
    """Experts of one size, those with the most choices first."""

    instances: Any  # [n, ...]
    actions: Tensor  # [n, T]
    choosing: Tensor  # [steps] int64, of the CPU: how many experts, the first ones, have a choice at each step


def _together(problem: Problem, shards: list[Shard], device: torch.device) -> Group:
    """Shards of one size as one."""
    instances = joined([shard.instances for shard in shards])
    actions = torch.cat([shard.actions for shard in shards])
    choices, order = problem.num_choices(instances, actions).sort(descending=True, stable=True)
    choosing = choices.bincount().flip(0).cumsum(0).flip(0)[1:]
    return Group(to(take(instances, order), device), actions[order].to(device), choosing)


def checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """The sha256 of the arrays' names, types, shapes and numbers."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape};".encode())
        digest.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def read_shard(path: Path, instance_type: Any) -> Shard:
    """The experts in a file. Raises ValueError naming it if it is missing or damaged."""
    return _read(path, instance_type, None)[0]


def _read(path: Path, instance_type: Any, expected: str | None) -> tuple[Shard, str]:
    """The experts in a file and its checksum. Raises ValueError as `read_shard`, and for another checksum."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        check_sizes(path)
        with np.load(path, allow_pickle=False) as opened:
            arrays = {name: opened[name] for name in opened if name.startswith("instance.") or name in SOLUTIONS}
            found = checksum(arrays)
            if expected not in (None, found):
                raise ValueError("it is not the one that the run wrote; its checksum differs")
            fields = {name: torch.from_numpy(arrays[name]) for name in arrays if name not in SOLUTIONS}
            instances = _instances(instance_type, {name.removeprefix("instance."): fields[name] for name in fields})
            if missing := [name for name in SOLUTIONS if name not in arrays]:
                raise ValueError(f"it lacks the arrays {', '.join(missing)}")
            actions, costs = torch.from_numpy(arrays["actions"]), torch.from_numpy(arrays["costs"])
    except Exception as error:  # a damaged archive can fail in any part of zipfile, zlib or numpy
        raise ValueError(f"{path} is damaged or holds something else: {error}") from None
    shard = Shard(path.stem, instances, actions, costs)
    if batch_size(shard.instances) != len(shard.actions):
        raise ValueError(f"{path} is damaged: {batch_size(shard.instances)} instances, {len(shard.actions)} solutions")
    return shard, found


def _instances(instance_type: Any, fields: dict[str, Tensor]) -> Any:
    if issubclass(instance_type, HasStoredForm):
        return instance_type.restored(fields)
    if missing := [f"instance.{name}" for name in instance_type._fields if name not in fields]:
        raise ValueError(f"it lacks the arrays {', '.join(missing)}")
    return instance_type(*(fields[name] for name in instance_type._fields))
