"""Solving many instances, one core each: in this process, or on Ray actors that end with the last instance."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from importlib import import_module
from typing import Any

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
    backend: Backend, originals: Any, names: list[str], options: dict[int, Options], workers: int
) -> Iterator[tuple[int, Answer]]:
    """Yields (index, its answer) in the order they are found.

    Arguments:
        originals: of the problem the solver is for
        names: of all instances, for messages
        options: of each of the instances to solve, by its index
        workers: Ray actors; 0 solves in this process, without Ray

    Raises SolverError with the name of the first instance whose solve failed.
    """
    answers = _here(backend, originals, options)
    if workers and options:
        answers = _on_actors(backend, originals, options, min(workers, len(options)))
    for index, answer in answers:
        if isinstance(answer, str):
            raise SolverError(f"{names[index]}: {answer}")
        yield index, answer


def _attempt(backend: Backend, row: Any, options: Options) -> Answer | str:
    """The answer, or what went wrong."""
    try:
        return backend.solve(row, options)
    except ValueError as error:
        return str(error)
    except Exception:
        return traceback.format_exc()  # nothing a user can mend


def _here(backend: Backend, originals: Any, options: dict[int, Options]) -> Iterator[tuple[int, Answer | str]]:
    for index, asked in options.items():
        yield index, _attempt(backend, row_of(originals, index), asked)


class RemoteSolver:
    """A solver as a Ray actor."""

    def __init__(self, backend: Backend):
        torch.set_num_threads(1)
        import_module(backend.module)  # now, so that the first instance's time does not include it
        self.backend = backend

    def work(self, row: Any, options: Options) -> Answer | str:
        return _attempt(self.backend, row, options)


def _on_actors(
    backend: Backend, originals: Any, options: dict[int, Options], workers: int
) -> Iterator[tuple[int, Answer | str]]:
    ray_cluster.start_ray(workers)
    advice = "if they ran out of memory, lower the number of workers"
    indices = list(options)
    actors = Actors(RemoteSolver, (backend,), workers, advice, ray_cluster.placement(threads=1))
    try:
        for number, answer in actors.map(
            len(indices), lambda number: (row_of(originals, indices[number]), options[indices[number]])
        ):
            yield indices[number], answer
    except WorkerError as error:
        raise SolverError(str(error)) from None
    finally:  # also when the one who asked has stopped listening
        actors.close()
