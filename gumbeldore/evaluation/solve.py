"""Solving instances from Python: files or arrays in, results out, without a configuration, Ray or a terminal."""

from __future__ import annotations

import inspect
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gumbeldore.evaluation import sources
from gumbeldore.evaluation.benchmarks import solve_benchmark
from gumbeldore.evaluation.loading import LoadedPolicy, load_policy
from gumbeldore.evaluation.references import proven, with_lower_bounds
from gumbeldore.evaluation.result import Result
from gumbeldore.evaluation.results import contradiction_lines, notices, remarks, shortage_lines
from gumbeldore.evaluation.sources import Group, Source
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.devices import resolve_device, resolve_rows
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.checked import LARGEST, is_integer
from gumbeldore.runtime.checkpoint import checkpoint_errors
from gumbeldore.runtime.precision import resolve_precision
from gumbeldore.sampler import methods
from gumbeldore.sampler.config import SearchConfig
from gumbeldore.sampler.search import check_offered

METHODS = (*methods.SEARCHES, "reconstruct")
# Of a method that is given by its name, where it has such a parameter.
DEFAULTS = {"beam_width": 32, "num_rounds": 4, "top_p_start": 0.8, "temperature": 1.0, "equivalents": 1}
LEAST = 1e-9  # seconds for a search whose time is up already: it still decodes greedily


def solve(
    policy: LoadedPolicy | tuple[Problem, Policy] | str | Path,
    instances: Source | list[Source] | tuple[Source, ...] | None = None,
    *,
    num_instances: int | None = None,
    method: str | SearchConfig = "gumbeldore",
    beam_width: int | None = None,
    num_rounds: int | None = None,
    top_p_start: float | None = None,
    temperature: float | None = None,
    equivalents: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    precision: str = "auto",
    **arrays: Any,
) -> Result | list[Result]:
    """The best solutions that a policy finds for one or many instances of its problem.

    Arguments:
        policy: of `load_policy`, or what that takes: a checkpoint, a run directory, the name of a shipped policy; or a
            problem and a policy for it, with a method that needs no step size, or as a SearchConfig
        instances: the path of a file or a folder, or the name of a standard set; or the arrays of one instance by
            name; or a list of such, each of which stands for one instance
        num_instances: of a source that holds several, the first so many; None: all
        method: "gumbeldore", "greedy", "beam", "sampling", "wor", "theory", "tasar", "reconstruct", "rejection" or
            "diverse_beam"; or a SearchConfig, such as `methods.tasar(32, replan_steps=5)`
        beam_width, num_rounds, top_p_start, temperature, equivalents: of a method that is given by its name, see
            `SearchConfig`; None: 32, 4, 0.8, 1.0 and 1. Its other settings are those of configs/search.yaml
        time_limit: seconds per instance, everything but loading included; rounds go on until it has passed. The greedy
            solution comes first, however long it takes, and counts, too. None: `num_rounds` rounds
        seed: of the samples, at least 0
        device: "cpu", "cuda", "cuda:1", ...; "auto": a GPU if there is one
        precision: "bf16" or "float32"; "auto": bf16 on GPUs that have instructions for it, float32 on CPUs
        arrays: of one instance, instead of `instances`: coords or distances (TSP), and demands and capacity (CVRP),
            times and machines (JSSP)

    Returns one Result, or a list for a list of instances and for a source that holds several.
    Raises ValueError as the command line does, which finds the same solutions; warns of files of a folder that are left
    out, references that are not used or are worse than the solution, matrices that differ from their map, and a time
    limit that suffices for the greedy solution alone.
    """
    if (instances is None) == (not arrays):
        rule = "solve takes instances, or the arrays of one instance by name: coords=..., times=..."
        given = [*(["instances"] if instances is not None else []), *arrays]
        neither = "neither: the first argument is a policy, as in solve('tsp50', 'my.tsp')"
        raise ValueError(f"{rule}; got {' and '.join(given) or neither}")
    loaded = _loaded(policy)
    settings = {"beam_width": beam_width, "num_rounds": num_rounds, "top_p_start": top_p_start}
    settings |= {"temperature": temperature, "equivalents": equivalents}
    chosen = {name: value for name, value in settings.items() if value is not None}
    config = _search(loaded, method, time_limit, chosen)
    if not (is_integer(seed) and 0 <= seed <= LARGEST):
        raise ValueError(f"seed must be an integer within 0..{LARGEST}, got {seed!r}")
    where = resolve_device(str(device))
    machine = {"search_batch_rows": resolve_rows("auto", where), "device": str(where)}
    machine |= {"precision": resolve_precision(precision, where)}
    if num_instances is not None:
        if not isinstance(instances, (str, Path)):
            raise ValueError("num_instances is of a source that holds several instances: a path, or the name of a set")
        if not is_integer(num_instances):
            raise ValueError(f"num_instances must be an integer, got {num_instances!r}")
    if several := isinstance(instances, (list, tuple)):
        groups = sources.of_several(loaded, instances)
    else:
        groups = sources.of_one(loaded, arrays if instances is None else instances, num_instances)
    groups = [group._replace(benchmark=with_lower_bounds(group.benchmark)) for group in groups]
    benchmarks = [group.benchmark for group in groups]
    for benchmark in benchmarks:
        check_offered(loaded.problem, benchmark.instances, config)
    for line in [*notices(benchmarks), *remarks(benchmarks, loaded.problem)]:
        warnings.warn(line.removeprefix("warning: "), stacklevel=2)
    results = _results(loaded, machine, groups, config, seed)
    return results if several or len(results) > 1 else results[0]


def _loaded(policy: LoadedPolicy | tuple[Problem, Policy] | str | Path) -> LoadedPolicy:
    if isinstance(policy, LoadedPolicy):
        return policy
    if not isinstance(policy, tuple):
        return load_policy(policy)
    if len(policy) != 2 or Problem not in type(policy[0]).__mro__ or not isinstance(policy[1], Policy):
        raise ValueError(f"a pair must be of a Problem and a Policy, got {[type(each).__name__ for each in policy]}")
    return LoadedPolicy(policy[0], policy[1].eval(), {}, Path())


def _search(
    loaded: LoadedPolicy, method: str | SearchConfig, time_limit: float | None, settings: dict[str, Any]
) -> SearchConfig:
    """The search that is asked for: a method of this name is given those settings that are its parameters.

    Raises ValueError for a setting that is none of them, and for a SearchConfig beside settings.
    """
    if isinstance(method, SearchConfig):
        if settings:
            raise ValueError(f"{', '.join(settings)} must be part of the SearchConfig, which is the whole method")
        return method if time_limit is None else replace(method, time_limit=time_limit)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)} or a SearchConfig, got {method!r}")
    function = getattr(methods, method)
    parameters = inspect.signature(function).parameters
    if time_limit is not None and "time_limit" not in parameters:
        raise ValueError(f"method={method} has no time_limit: it ends when it has found its solutions")
    if unused := [name for name in settings if name not in parameters]:
        raise ValueError(f"{', '.join(unused)} has no effect on method={method}")
    settings = {**DEFAULTS, **settings, "time_limit": time_limit}
    if loaded.config:
        with checkpoint_errors(loaded.path):
            settings["step_size"] = loaded.config["search"]["step_size"]
    elif "step_size" in parameters and parameters["step_size"].default is inspect.Parameter.empty:
        raise ValueError(f"a pair has no step size of a training: method must be methods.{method}(...) with one")
    return function(**{name: value for name, value in settings.items() if name in parameters})


def _results(
    loaded: LoadedPolicy, machine: dict[str, Any], groups: list[Group], config: SearchConfig, seed: int
) -> list[Result]:
    """The results of all instances, in their order."""
    begin = time.monotonic()
    count = sum(len(group.places) for group in groups)
    results: dict[int, Result] = {}
    every = []
    with SearchPool(loaded.problem, loaded.policy, **machine) as pool:
        if config.time_limit is not None:
            spent = (time.monotonic() - begin) / count
            config = replace(config, time_limit=max(LEAST, config.time_limit - spent))
        for benchmark, places in groups:
            every.append(solved := solve_benchmark(pool, benchmark, config, seed))
            benchmark = proven(benchmark, [solved.costs])
            for i, place in enumerate(places):
                actions = solved.actions[i].clone()  # a view would be pickled with the actions of all instances
                found = solved.costs[i].item(), int(solved.found[i]), solved.seconds / len(places)
                results[place] = Result(loaded.problem, benchmark.part(torch.tensor([i])), actions, *found)
    solved_all = {"solve": every}
    for line in contradiction_lines(solved_all, [x.benchmark for x in groups]) + shortage_lines(solved_all):
        warnings.warn(line.removeprefix("warning: "), stacklevel=3)
    return [results[place] for place in range(count)]
