"""An evaluation: every policy with its instances and methods, and what has been found so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from omegaconf import DictConfig

from gumbeldore.cli import resume
from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.inputs import Inputs, inputs_of, opened
from gumbeldore.cli.machine import Machine
from gumbeldore.cli.methods import check_method
from gumbeldore.cli.schema import EvaluationSettings
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.loading import LoadedPolicy
from gumbeldore.evaluation.parts import Parts
from gumbeldore.evaluation.references import with_lower_bounds
from gumbeldore.evaluation.solved_sets import MethodSummary, check_solved, pairs, results_of, summarise
from gumbeldore.evaluation.tables import Results, proven_by
from gumbeldore.instance_set import InstanceSet, count_of
from gumbeldore.parallel.devices import trie_budget
from gumbeldore.parallel.pool import at_once
from gumbeldore.reporting.console import Terminal
from gumbeldore.reporting.evaluation_report import EvaluationReport
from gumbeldore.sampler.methods import Method


class Task(NamedTuple):
    """What is done with one policy."""

    loaded: LoadedPolicy
    places: slice  # of its instance sets among all
    methods: dict[str, Method | Baseline]


class Plan(NamedTuple):
    """What an evaluation is to do, checked; nothing is written yet."""

    inputs: Inputs
    tasks: list[Task]

    @property
    def methods(self) -> list[str]:
        return list(self.tasks[0].methods)


class Evaluation(NamedTuple):
    """An open evaluation."""

    inputs: Inputs
    instance_sets: list[InstanceSet]  # with the references asked for
    parts: dict[str, list[Parts]]  # what is found by each method, for each instance set
    report: EvaluationReport
    terminal: Terminal
    found: Results

    def done(self, method: str) -> int:
        """How many instances a method has solved."""
        return sum(map(len, self.parts[method]))

    def write_tables(self, method: str) -> None:
        """results.json and .csv, once a method has solved all instances: a later method may not finish."""
        if self.done(method) < count_of(self.instance_sets):
            return
        self.found.update(results_of(method, self.parts[method], self.instance_sets))
        self.report.write_tables(self.inputs.out_dir, self.found, self.instance_sets)

    def summaries(self) -> dict[str, MethodSummary]:
        """By the name of the method, or of the best heuristic. Raises ValueError if no method has solved anything."""
        if self.found and not any(pairs(solved, self.instance_sets) for solved in self.found.values()):
            check_solved(next(iter(self.found.values())), self.instance_sets)
        instance_sets = proven_by(self.found, self.instance_sets)
        return {name: summarise(solved, instance_sets) for name, solved in self.found.items()}


def plan_of(cfg: DictConfig) -> Plan:
    """Policies, instances and methods. Raises ValueError for what cannot be done, and for values that nothing reads."""
    config = Configuration(cfg)
    inputs = inputs_of(config, EvaluationSettings)
    tasks: list[Task] = []
    for choice in inputs.choices:
        methods = config.methods(choice.loaded)
        for name, method in methods.items():
            check_method(name, method, choice.loaded, choice.instance_sets)
        first = tasks[-1].places.stop if tasks else 0
        tasks.append(Task(choice.loaded, slice(first, first + len(choice.instance_sets)), methods))
    config.refuse_unread()
    if any(isinstance(method, Method) for task in tasks for method in task.methods.values()):
        inputs = inputs._replace(choices=[choice.with_views() for choice in inputs.choices])
    if inputs.settings.workers == "auto":
        inputs = inputs._replace(machine=without_idle_workers(inputs.machine, tasks, inputs.instance_sets))
    return Plan(inputs, tasks)


@contextmanager
def open_evaluation(plan: Plan) -> Iterator[Evaluation]:
    """The evaluation, whose results are written at the end, also of methods that were interrupted."""
    inputs = plan.inputs
    with opened(inputs) as (found, terminal, kept):
        instance_sets = list(map(with_lower_bounds, found))
        parts = {name: [kept.parts(name, place) for place in range(len(instance_sets))] for name in plan.methods}
        report = EvaluationReport(inputs.problem, inputs.about, terminal)
        try:
            yield Evaluation(inputs, instance_sets, parts, report, terminal, {})
        except KeyboardInterrupt:
            count = len(parts) * count_of(instance_sets)
            raise resume.interruption(kept.finished(), count, inputs.out_dir) from None
        finally:
            report.write_finished(inputs.out_dir, parts, instance_sets)


def without_idle_workers(machine: Machine, tasks: list[Task], instance_sets: list[InstanceSet]) -> Machine:
    """The machine without workers if no search has more instances of a size than are searched together."""
    chunks = [
        full_chunks(task.loaded, instance_sets[task.places], method, machine)
        for task in tasks
        for method in task.methods.values()
        if isinstance(method, Method)
    ]
    return machine if max(chunks, default=0) > 1 else machine._replace(workers=0)


def full_chunks(loaded: LoadedPolicy, instance_sets: list[InstanceSet], method: Method, machine: Machine) -> float:
    """The most chunks that an instance set makes, as a fraction: its instances over those searched at once."""
    rows, budget = machine.search_batch_rows, trie_budget(str(machine.device))
    return max(
        len(x.names) / at_once(loaded.problem, loaded.policy, x.instances, method, rows, budget) for x in instance_sets
    )
