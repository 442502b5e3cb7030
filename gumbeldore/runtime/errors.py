"""What can go wrong in a run: instances that cannot be solved, reported by their names, and workers that fail."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import Tensor

from gumbeldore.instance_set import InstanceSet


class InstanceError(ValueError):
    """What is wrong with one instance of a search.

    Arguments:
        index: of the instance in the batch that was searched
        key: its random key, by which whoever gave the keys knows it, however the instances were batched
        rule: what is wrong
    """

    def __init__(self, index: int, key: int, rule: str):
        super().__init__(index, key, rule)
        self.index, self.key, self.rule = index, key, rule

    def __str__(self) -> str:
        return f"instance {self.index} of the batch: {self.rule}"


class WorkerError(RuntimeError):
    """A process that samples or trains for this one failed; the message holds its error."""


@contextlib.contextmanager
def advice_on_memory(advice: str, kind: type[Exception] = WorkerError) -> Iterator[None]:
    """Raises an error of this kind, with the advice, where memory does not suffice."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # Words of torch's allocators, which raise RuntimeErrors.
        words = ("out of memory", "allocate memory", "size calculation overflowed")
        if isinstance(error, MemoryError) or any(word in str(error) for word in words):
            raise kind(f"{advice} ({error!r})".split("\n")[0]) from None
        raise


def raise_for_instance(wrong: Tensor, keys: Tensor, rule: str) -> None:
    """Raises InstanceError for the first of the instances `wrong` [b], if there is one; waits for the device."""
    if wrong.any():
        index = int(wrong.nonzero()[0])
        raise InstanceError(index, int(keys[index]), rule)


@contextlib.contextmanager
def instance_errors(instance_set: InstanceSet, keys: Tensor) -> Iterator[None]:
    """Errors of instances by their names in the instance set, which were searched with the keys [n]."""
    try:
        yield
    except InstanceError as error:
        name = instance_set.names[int((keys == error.key).nonzero()[0])]
        raise ValueError(f"instance {name}: {error.rule}") from None
