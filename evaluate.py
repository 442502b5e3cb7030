"""Evaluation: `python evaluate.py checkpoint=<run directory> instances=kool/tsp20`; `--help` lists what can be set."""

from __future__ import annotations

from omegaconf import DictConfig

from gumbeldore.cli import command
from gumbeldore.cli.evaluation import Evaluation, Task, asked_for, open_evaluation
from gumbeldore.evaluation.baseline import Baseline, solve_baseline
from gumbeldore.evaluation.benchmarks import MethodSummary, solve_benchmark
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler.methods import Method


def evaluate(cfg: DictConfig) -> dict[str, MethodSummary]:
    """Solve the instances with every method asked for; prints a table, writes results.json, .csv and report.html."""
    asked = asked_for(cfg)
    with open_evaluation(asked) as evaluation:
        for task in asked.tasks:
            solve(task, evaluation)
    return evaluation.summaries()


def solve(task: Task, evaluation: Evaluation) -> None:
    """Solve the instances of a policy with every method; write the tables of methods that are finished."""
    with evaluation.context.machine.pool(task.loaded.problem, task.loaded.policy) as pool:
        for name, method in task.methods.items():
            run_method(name, method, task, evaluation, pool)
            evaluation.write_tables(name)


def run_method(name: str, method: Method | Baseline, task: Task, evaluation: Evaluation, pool: SearchPool) -> None:
    """Add to the parts of each benchmark the solutions of a method for the instances that have none there."""
    benchmarks, parts = evaluation.benchmarks[task.places], evaluation.parts[name][task.places]
    seed = evaluation.context.settings.seed
    with evaluation.terminal.advancing(name, evaluation.benchmarks, evaluation.done(name)) as advance:
        for benchmark, found in zip(benchmarks, parts, strict=True):
            if isinstance(method, Method):
                solve_benchmark(pool, benchmark, method, seed, advance, found)
            else:
                solve_baseline(method, pool.problem, benchmark, advance, found)


def main() -> None:
    command.run(evaluate, "evaluate")


if __name__ == "__main__":
    main()
