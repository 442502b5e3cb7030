"""Evaluation: `python evaluate.py checkpoint=<run directory> instances=kool/tsp20`; `--help` lists what can be set."""

from __future__ import annotations

from omegaconf import DictConfig

from gumbeldore.cli import command
from gumbeldore.cli.evaluation import Evaluation, Task, open_evaluation, plan_of
from gumbeldore.evaluation.baseline import Baseline, solve_with
from gumbeldore.evaluation.solved_sets import MethodSummary
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler.methods import Method


def evaluate(cfg: DictConfig) -> dict[str, MethodSummary]:
    """Solve the instances with every method asked for; prints a table, writes results.json, .csv and report.html."""
    plan = plan_of(cfg)
    with open_evaluation(plan) as evaluation:
        for task in plan.tasks:
            solve(task, evaluation)
    return evaluation.summaries()


def solve(task: Task, evaluation: Evaluation) -> None:
    """Solve the instances of a policy with every method; write the tables of methods that are finished."""
    with evaluation.inputs.machine.pool(task.loaded.problem, task.loaded.policy) as pool:
        for name, method in task.methods.items():
            run_method(name, method, task, evaluation, pool)
            evaluation.write_tables(name)


def run_method(name: str, method: Method | Baseline, task: Task, evaluation: Evaluation, pool: SearchPool) -> None:
    """Solve the instances that the method has not solved yet, and add the solutions to the parts."""
    instance_sets, parts = evaluation.instance_sets[task.places], evaluation.parts[name][task.places]
    seed = evaluation.inputs.settings.seed
    advance = evaluation.terminal.advancing(name, evaluation.instance_sets, evaluation.done(name))
    for instance_set, found in zip(instance_sets, parts, strict=True):
        solve_with(method, pool, instance_set, seed, advance, found)


def main() -> None:
    command.run(evaluate, "evaluate")


if __name__ == "__main__":
    main()
