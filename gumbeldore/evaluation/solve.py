"""Solving instances from Python: files or arrays in, results out, without a configuration, Ray or a terminal."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.evaluation import sources
from gumbeldore.evaluation.asked import Asked
from gumbeldore.evaluation.baseline import Baseline, solve_baseline
from gumbeldore.evaluation.choosing import Choice, choose_policies
from gumbeldore.evaluation.loading import LoadedPolicy, load_policy, meant_for
from gumbeldore.evaluation.parts import Parts, SolvedSet
from gumbeldore.evaluation.references import proven, with_lower_bounds
from gumbeldore.evaluation.result import Result
from gumbeldore.evaluation.solved_sets import best_heuristic, check_solved, solve_set
from gumbeldore.evaluation.sources import Source
from gumbeldore.evaluation.starts import start_of, starts_of
from gumbeldore.evaluation.tables import contradiction_lines, notices, remarks, shortage_lines
from gumbeldore.instance_set import count_of
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.devices import resolve_device, resolve_rows
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.checked import check_integer
from gumbeldore.runtime.precision import resolve_precision
from gumbeldore.sampler import methods
from gumbeldore.sampler.methods import Method
from gumbeldore.sampler.search import check_offered

LEAST = 1e-9  # seconds for a search whose time is up already: it still decodes greedily


def solve(
    policy: LoadedPolicy | tuple[Problem, Policy] | str | Path | None = None,
    instances: Source | Sequence[Source] | None = None,
    *,
    num_instances: int | None = None,
    method: str | Method | Baseline | None = None,
    start: Any = None,
    beam_width: int | None = None,
    num_rounds: int | None = None,
    top_p_start: float | None = None,
    temperature: float | str | None = None,
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
            problem and a policy for it, with a method that needs no step size, or as a Method; None: for each
            instance the shipped policy for such sizes, as evaluate.py does
        instances: the path of a file or a folder, or the name of a standard set; or arrays by name; or a list of such,
            each of which stands for one instance
        num_instances: of a source that holds several, the first so many; None: all
        method: "gumbeldore", "greedy", "beam", "sampling", "wor", "theory", "tasar", "reconstruct", "local_search",
            "rejection" or "diverse_beam"; or a Method, such as `methods.Tasar(32, replan_steps=5)`. Without the policy:
            "solver", "heuristic" (the best on average), or a Baseline. None: "local_search" with a start, and of job
            shops (makespan) with a time limit and without settings of Gumbeldore; else "gumbeldore"
        start: a solution that "local_search" or "reconstruct" improves, instead of the policy's: a Result, or of a job
            shop a plan, which has for each job the operations as `Result.schedule`, or their starts; a list of such for
            several instances
        beam_width, num_rounds, top_p_start, temperature, equivalents: of a method that is given by its name; None: 32,
            4, 1.0, "auto" and 1. sigma is that of the policy's training; other settings have the defaults of the
            method's class
        time_limit: seconds per instance, everything but loading included; rounds go on until it has passed. The greedy
            solution comes first, however long it takes, and counts, too. None: `num_rounds` rounds; of the solver 5 s
        seed: of the samples, at least 0
        device: "cpu", "cuda", "cuda:1", ...; "auto": a GPU if there is one
        precision: "bf16" or "float32"; "auto": bf16 on GPUs that have instructions for it, float32 on CPUs
        arrays: instead of `instances`: coords or distances (TSP), and demands and capacity (CVRP), times and machines
            (JSSP; docs/data.md has more); of one instance, or of n: arrays with a first dimension n, or lists of n
            arrays of any sizes

    Returns one Result, or a list for a list of instances, for arrays of n, and for a source that holds several.
    Raises ValueError as the command line does, which finds the same solutions, and for an instance that the solver does
    not solve; warns of files of a folder that are left out, references that are not used or are worse than the
    solution, matrices that differ from their map, and a time limit that suffices for the greedy solution alone.
    """
    given = sources.given(instances, num_instances, arrays)
    choices = _choices(policy, given, num_instances)
    settings: dict[str, Any] = {"beam_width": beam_width, "num_rounds": num_rounds, "top_p_start": top_p_start}
    settings |= {"temperature": temperature, "equivalents": equivalents}
    settings = {name: value for name, value in settings.items() if value is not None}
    check_integer("seed", seed, 0)
    where = resolve_device(str(device))
    machine = {"search_batch_rows": resolve_rows("auto", where), "device": str(where)}
    machine |= {"precision": resolve_precision(precision, where)}
    problem = choices[0].loaded.problem
    count = sum(count_of(choice.instance_sets) for choice in choices)
    several = sources.each_of(problem, given) is not None or count > 1
    asked = Asked(method, settings, time_limit, seed, has_start=start is not None)
    tasks = _tasks(choices, asked, starts_of(start, count if several else None))
    instance_sets = [instance_set for task in tasks for instance_set in task.choice.instance_sets]
    views = [line for task in tasks if isinstance(task.method, Method) for line in task.choice.views]
    for line in [*notices(instance_sets), *remarks(instance_sets, problem), *dict.fromkeys(views)]:
        warnings.warn(line.removeprefix("warning: "), stacklevel=2)
    results: dict[int, Result] = {}
    for task in tasks:
        results |= _results(task, machine, seed)
    return [results[place] for place in range(len(results))] if several else results[0]


def _choices(
    policy: LoadedPolicy | tuple[Problem, Policy] | str | Path | None, given: Any, limit: int | None
) -> list[Choice]:
    """The policy, or those that are chosen, with their instances, whose lower bounds are references."""
    if policy is None:
        choices = choose_policies(given, limit, {})
    else:
        loaded = _loaded(policy)
        with meant_for(loaded):
            choices = [Choice(loaded, sources.groups_of(loaded.problem, given, limit), "")]
    return [
        choice._replace(groups=[x._replace(instance_set=with_lower_bounds(x.instance_set)) for x in choice.groups])
        for choice in choices
    ]


class Task(NamedTuple):
    """What is done with one policy."""

    choice: Choice
    method: Method | Baseline
    starts: list[Tensor] | None  # [n, T] of each of its instance sets


def _tasks(choices: list[Choice], asked: Asked, starts: Sequence[Any] | None) -> list[Task]:
    """The instances of each policy with the method; without the policy, all instances at once.

    Raises ValueError for a method that the problem does not offer for these instances, and for what is no start.
    """
    tasks: list[Task] = []
    for choice in choices:
        method, problem = asked.method_for(choice.loaded), choice.loaded.problem
        if isinstance(method, Baseline):
            method.check(problem.name)
            groups = [group for each in choices for group in each.groups]
            return [Task(Choice(choice.loaded._replace(path=Path()), groups, ""), method, None)]
        for instance_set in choice.instance_sets:
            check_offered(problem, choice.loaded.policy, instance_set.instances, method)
        of_choice = None if starts is None else [start_of(problem, group, starts) for group in choice.groups]
        tasks.append(Task(choice, method, of_choice))
    return tasks


def _loaded(policy: LoadedPolicy | tuple[Problem, Policy] | str | Path) -> LoadedPolicy:
    if isinstance(policy, LoadedPolicy):
        return policy
    if not isinstance(policy, tuple):
        return load_policy(policy)
    if len(policy) != 2 or not isinstance(policy[0], Problem) or not isinstance(policy[1], Policy):
        raise ValueError(f"a pair must be of a Problem and a Policy, got {[type(each).__name__ for each in policy]}")
    return LoadedPolicy(policy[0].for_evaluation(), policy[1].eval(), {}, Path())


def _results(task: Task, machine: dict[str, Any], seed: int) -> dict[int, Result]:
    """The results of all instances of a policy, by their places."""
    choice, method, starts = task
    if isinstance(method, Baseline):
        found = _by_baseline(choice, method)
    else:
        found = _by_search(choice, method, starts or [None] * len(choice.groups), machine, seed)
    results: dict[int, Result] = {}
    for (instance_set, places), solved in zip(choice.groups, found, strict=True):
        instance_set = proven(instance_set, [solved])
        for i, place in enumerate(places):
            actions = solved.actions[i].clone()  # a view would be pickled with the actions of all instances
            numbers = solved.costs[i].item(), int(solved.found[i]), solved.seconds / len(places)
            results[place] = Result(choice.loaded, instance_set.part(torch.tensor([i])), actions, *numbers)
    solved_all = {"solve": found}
    for line in contradiction_lines(solved_all, choice.instance_sets) + shortage_lines(solved_all):
        warnings.warn(line.removeprefix("warning: "), stacklevel=3)
    return results


def _by_search(
    choice: Choice, method: Method, starts: Sequence[Tensor | None], machine: dict[str, Any], seed: int
) -> list[SolvedSet]:
    begin = time.monotonic()
    with SearchPool(choice.loaded.problem, choice.loaded.policy, **machine) as pool:
        if isinstance(method, methods.Anytime):
            spent = (time.monotonic() - begin) / count_of(choice.instance_sets)
            method = replace(method, time_limit=max(LEAST, method.time_limit - spent))
        each = zip(choice.instance_sets, starts, strict=True)
        return [solve_set(pool, instance_set, method, seed, start=start) for instance_set, start in each]


def _by_baseline(choice: Choice, method: Baseline) -> list[SolvedSet]:
    """What the heuristic finds that is the best on average, as in an evaluation."""
    parts = [Parts() for _ in choice.groups]
    for instance_set, part in zip(choice.instance_sets, parts, strict=True):
        solve_baseline(method, choice.loaded.problem, instance_set, lambda done: None, part)
    solved = best_heuristic(parts, choice.instance_sets)[1]
    check_solved(solved, choice.instance_sets)
    return solved
