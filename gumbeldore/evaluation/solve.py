"""Solving instances from Python: files or arrays in, results out, without a configuration, Ray or a terminal."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

import numpy as np
import torch
from torch import Tensor

from gumbeldore.evaluation.benchmarks import solve_benchmark
from gumbeldore.evaluation.loading import LoadedPolicy, load_instances, load_policy
from gumbeldore.evaluation.result import Result
from gumbeldore.interfaces import Benchmark, Problem, count_of
from gumbeldore.parallel.devices import resolve_device, resolve_rows
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.checkpoint import checkpoint_errors
from gumbeldore.runtime.precision import resolve_precision
from gumbeldore.sampler import methods
from gumbeldore.sampler.config import SearchConfig

Arrays = Mapping[str, Any]  # of one instance, by the names that docs/data.md gives those of an .npz
Source = Union[str, Path, Arrays]
Group = tuple[Benchmark, list[int]]  # instances that are searched together, and their places among all

METHODS = ("greedy", "sampling", "beam", "wor", "gumbeldore", "theory")
LEAST = 1e-9  # seconds for a search whose time is up already: it still decodes greedily


def solve(
    policy: LoadedPolicy | str | Path,
    instances: Source | Sequence[Source] | None = None,
    *,
    method: str | SearchConfig = "gumbeldore",
    beam_width: int = 32,
    num_rounds: int = 4,
    top_p_start: float = 0.8,
    time_limit: float | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    **arrays: Any,
) -> Result | list[Result]:
    """The best solutions that a policy finds for one or many instances of its problem.

    Arguments:
        policy: of `load_policy`, or what that takes: a checkpoint, a run directory, the name of a shipped policy
        instances: the path of a file of instances, or of a folder, or the name of a standard set; or the arrays of one
            instance by name; or a list of such, each of which stands for one instance
        method: "gumbeldore", "greedy", "beam", "sampling", "wor" or "theory"; or a SearchConfig
        beam_width, num_rounds, top_p_start: of a method that is given by its name, see `SearchConfig`
        time_limit: seconds per instance, everything but loading included; rounds go on until it has passed. At least
            the greedy solution is found, however long it takes. None: `num_rounds` rounds
        seed: of the samples
        device: "cpu", "cuda", "cuda:1", ...; "auto": a GPU if there is one
        precision: "bf16" or "float32"; "auto": bf16 where the hardware has instructions for it
        arrays: of one instance, instead of `instances`: coords or distances (TSP), and demands and capacity (CVRP),
            times and machines (JSSP)

    Returns one Result for one instance, a list for a list of instances and for a source that holds several.
    Raises ValueError as the command line does, which solves the same instances to the same solutions.
    """
    loaded = policy if isinstance(policy, LoadedPolicy) else load_policy(policy)
    if (instances is None) == (not arrays):
        raise ValueError("solve takes instances, or the arrays of one instance by name: coords=..., times=...")
    settings = {"beam_width": beam_width, "num_rounds": num_rounds, "top_p_start": top_p_start}
    config = _search(loaded, method, time_limit, **settings)
    where = resolve_device(device)
    pooled = 0, resolve_rows("auto", where), str(where), resolve_precision(precision, where)
    many = isinstance(instances, (list, tuple))
    sources = instances if many else [arrays if instances is None else instances]
    groups = _one_of_each(loaded, sources) if many else _all_of(loaded, sources[0])

    begin = time.monotonic()
    results: dict[int, Result] = {}
    with SearchPool(loaded.problem, loaded.policy, *pooled) as pool:
        if config.time_limit is not None:
            spent = (time.monotonic() - begin) / sum(len(places) for _, places in groups)
            config = replace(config, time_limit=max(LEAST, config.time_limit - spent))
        for benchmark, places in groups:
            solved = solve_benchmark(pool, benchmark, config, seed)
            seconds = solved.seconds / len(places)
            for i, place in enumerate(places):
                found = solved.actions[i], solved.costs[i].item(), int(solved.found[i]), seconds
                results[place] = Result(loaded.problem, benchmark.part(torch.tensor([i])), *found)
    ordered = [results[place] for place in sorted(results)]
    return ordered if many or len(ordered) > 1 else ordered[0]


def _search(loaded: LoadedPolicy, method: str | SearchConfig, time_limit: float | None, **settings: Any) -> SearchConfig:
    """The search that is asked for: a method of this name is given those settings that are its parameters."""
    if isinstance(method, SearchConfig):
        return method if time_limit is None else replace(method, time_limit=time_limit)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)} or a SearchConfig, got {method!r}")
    function = getattr(methods, method)
    parameters = inspect.signature(function).parameters
    if time_limit is not None and "time_limit" not in parameters:
        raise ValueError(f"method={method} has no time_limit: it ends when it has found its solutions")
    with checkpoint_errors(loaded.path):
        settings |= {"time_limit": time_limit, "step_size": loaded.config["search"]["step_size"]}
    return function(**{name: value for name, value in settings.items() if name in parameters})


def _all_of(loaded: LoadedPolicy, source: Source) -> list[Group]:
    """The instances of one source."""
    if isinstance(source, Mapping):
        return _of_arrays(loaded.problem, {0: source}, ["instance"])
    groups: list[Group] = []
    for benchmark in load_instances(loaded, source):
        first = sum(len(places) for _, places in groups)
        groups.append((benchmark, list(range(first, first + len(benchmark.names)))))
    return groups


def _one_of_each(loaded: LoadedPolicy, sources: Sequence[Source]) -> list[Group]:
    """One instance of each of several sources. Raises ValueError if one of these holds more."""
    if not sources:
        raise ValueError("instances is an empty list")
    arrays = {place: source for place, source in enumerate(sources) if isinstance(source, Mapping)}
    groups = _of_arrays(loaded.problem, arrays, [f"instances[{place}]" for place in range(len(sources))])
    for place, source in enumerate(sources):
        if place in arrays:
            continue
        benchmarks = load_instances(loaded, source)
        if (count := count_of(benchmarks)) > 1:
            raise ValueError(f"instances[{place}]: {source} holds {count} instances; give it alone, not in a list")
        groups.append((benchmarks[0], [place]))
    return groups


def _of_arrays(problem: Problem, instances: Mapping[int, Arrays], names: Sequence[str]) -> list[Group]:
    """Instances given as arrays, those of the same shapes together.

    Arguments:
        instances: by their places
        names: of all places
    """
    same: dict[Any, list[int]] = {}
    batches = {place: {name: _array(value) for name, value in arrays.items()} for place, arrays in instances.items()}
    for place, arrays in batches.items():
        same.setdefault(tuple(sorted((name, x.shape, x.dtype.kind) for name, x in arrays.items())), []).append(place)
    groups: list[Group] = []
    for places in same.values():
        first = batches[places[0]]
        together = {name: np.stack([batches[place][name] for place in places]) for name in first}
        try:
            benchmark = problem.from_arrays(together, names[places[0]])
        except ValueError:
            for place in places:  # the message must name the one that is wrong
                problem.from_arrays({name: x[None] for name, x in batches[place].items()}, names[place])
            raise
        groups.append((benchmark._replace(names=[names[place] for place in places]), places))
    return groups


def _array(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
