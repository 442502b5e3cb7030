"""Solving many instances: in this process, or on Ray actors that end with the last instance."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gumbeldore.parallel import ray_cluster
from gumbeldore.parallel.ray_actors import Actors
from gumbeldore.runtime.errors import WorkerError
from problems.solvers.answer import Answer, Options, SolverError
from problems.solvers.backends import Backend


def row_of(originals: Any, index: int) -> Any:
    """Instance `index` of a problem's originals: each field without its leading n."""
    # Cloned, or the whole set's storage would travel to the worker with every instance.
    values = (field[index] for field in originals)
    return type(originals)(*(value.clone() if isinstance(value, Tensor) else value for value in values))


def solve_all(
    backend: Backend, originals: Any, names: list[str], indices: list[int], options: Options, workers: int
) -> Iterator[tuple[int, Answer]]:
    """Yields (index, its answer) in the order they are found.

    Arguments:
        originals: of the problem the solver is for
        names: of all instances, for messages
        indices: of the instances to solve
        workers: Ray actors; 0 solves in this process, without Ray

    An answer may have no solution, see `Answer`. Raises SolverError with the name of the first instance at which a
    solver failed otherwise than by a ValueError.
    """
    answers = _here(backend, originals, indices, options)
    if workers and indices:
        answers = _on_actors(backend, originals, indices, options, min(workers, len(indices)))
    for index, answer in answers:
        if isinstance(answer, str):
            raise SolverError(f"{names[index]}: {answer}")
        yield index, answer


def _attempt(backend: Backend, row: Any, options: Options) -> Answer | str:
    """The answer, or what went wrong."""
    begin = time.perf_counter()
    try:
        return backend.solve(row, options)
    except ValueError as error:
        return Answer(np.empty(0, np.int64), -math.inf, math.inf, str(error), time.perf_counter() - begin)
    except Exception:
        return traceback.format_exc()  # nothing a user can mend


def _here(backend: Backend, originals: Any, indices: list[int], options: Options) -> Iterator[tuple[int, Answer | str]]:
    for index in indices:
        yield index, _attempt(backend, row_of(originals, index), options)


class RemoteSolver:
    """A solver as a Ray actor."""

    def __init__(self, backend: Backend, options: Options):
        torch.set_num_threads(1)
        import_module(backend.module)  # now, so that the first instance's time does not include it
        self.backend, self.options = backend, options

    def work(self, row: Any) -> Answer | str:
        return _attempt(self.backend, row, self.options)


def _on_actors(
    backend: Backend, originals: Any, indices: list[int], options: Options, workers: int
) -> Iterator[tuple[int, Answer | str]]:
    ray_cluster.start_ray(workers)
    advice = "if they ran out of memory, lower the number of workers"
    actors = Actors(RemoteSolver, (backend, options), workers, advice, ray_cluster.placement(threads=1))
    try:
        for number, answer in actors.map(len(indices), lambda number: (row_of(originals, indices[number]),)):
            yield indices[number], answer
    except WorkerError as error:
        raise SolverError(str(error)) from None
    finally:  # also when the one who asked has stopped listening
        actors.close()
