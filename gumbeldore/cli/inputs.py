"""What evaluate.py and study.py share: policies, instances and machine, and what is open while they are searched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gumbeldore.cli import resume
from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.machine import Machine
from gumbeldore.cli.schema import EvaluationSettings
from gumbeldore.evaluation.choosing import Choice, choose_policies
from gumbeldore.evaluation.kept import Kept
from gumbeldore.evaluation.loading import LoadedPolicy, load_policy, meant_for
from gumbeldore.evaluation.references import read_table, with_table
from gumbeldore.evaluation.sources import load, numbered
from gumbeldore.instance_set import InstanceSet, TooFewError, count_of
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.devices import resolve_device, resolve_workers
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.building import imported
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.stopping import interruptible


class Inputs(NamedTuple):
    """What a command was asked for, checked; nothing is written yet."""

    config: Configuration
    settings: EvaluationSettings
    choices: list[Choice]  # policies, each with its instances
    machine: Machine
    out_dir: Path

    @property
    def instance_sets(self) -> list[InstanceSet]:
        """The instances of all policies, one after the other."""
        return [instance_set for choice in self.choices for instance_set in choice.instance_sets]

    @property
    def problem(self) -> Problem:
        return self.choices[0].loaded.problem

    @property
    def checkpoints(self) -> list[Path]:
        return [choice.loaded.path for choice in self.choices]

    @property
    def about(self) -> dict[str, Any]:
        """What the results were computed with, for their files."""
        about = {"checkpoint": ", ".join(map(str, self.checkpoints)), "instances": self.settings.instances}
        if reasons := [choice.reason for choice in self.choices if choice.reason]:
            about["policy"] = "; ".join(reasons)
        return self.machine.about(self.problem, self.settings.seed, **about)


class Opened(NamedTuple):
    """What is open while instances are searched."""

    instance_sets: list[InstanceSet]  # with the references asked for
    terminal: Terminal
    kept: Kept  # results


def inputs_of(config: Configuration, cls: type[EvaluationSettings]) -> Inputs:
    """Load policies and instances, look at the machine; raises ValueError for what is not there."""
    settings = config.settings(cls)
    if settings.compile and resolve_device(settings.device).type == "cpu":
        rule = f"compile=true is for a GPU, device={settings.device} is a CPU: it would search more slowly"
        raise ValueError(rule)
    keep_freed_memory()
    if settings.checkpoint is None:
        choices = choose_policies(settings.instances, settings.num_instances, config.problem_values())
    else:
        loaded = load_policy(settings.checkpoint, **config.problem_values())
        choices = [Choice(loaded, numbered(instances_of(loaded, settings, config)), "")]
    config.join_cluster(*(each for choice in choices for each in (choice.loaded.problem, choice.loaded.policy)))
    if solver := config.solver():
        count = sum(count_of(choice.instance_sets) for choice in choices)  # no worker idles, as threads are shared
        config.cfg.solver.workers = min(count, resolve_workers(solver.workers, torch.device("cpu"), 1))
    return Inputs(config, settings, choices, Machine.of(settings), resume.results_folder(settings))


def instances_of(loaded: LoadedPolicy, settings: EvaluationSettings, config: Configuration) -> list[InstanceSet]:
    """Load the instances. The default of num_instances is an upper limit; so many must be there only if it is typed.

    Raises ValueError; if the instances are of another problem, it says whose the policy is.
    """
    with meant_for(loaded):
        try:
            return load(loaded.problem, settings.instances, settings.num_instances)
        except TooFewError:
            if "num_instances" in config.typed:
                raise
            return load(loaded.problem, settings.instances)


@contextmanager
def opened(inputs: Inputs) -> Iterator[Opened]:
    """The terminal, the references and the kept results; raises ValueError for what is wrong with any of them."""
    with Terminal() as terminal, interruptible():
        for choice in inputs.choices:
            if choice.reason:
                terminal.say(choice.reason)
        before = resume.manifest(inputs.config, inputs.machine.decided, inputs.checkpoints, inputs.instance_sets)
        instance_sets = with_references(inputs, terminal)
        with Kept(inputs.out_dir, before, inputs.settings.resume) as kept:
            yield Opened(instance_sets, terminal, kept)


def with_references(inputs: Inputs, terminal: Terminal) -> list[InstanceSet]:
    """The instances with the references asked for: of the user's table, or a solver's where there are none.

    What a user may not expect of the instances is said before the solver begins.
    """
    references, instance_sets = inputs.settings.references, inputs.instance_sets
    if references not in (None, "solver"):
        instance_sets = with_table(instance_sets, read_table(Path(references)), references)
    terminal.notices(instance_sets)
    if references != "solver":
        return instance_sets
    solvers = imported("problems.solvers", "references")
    solver = solvers.Solver(**inputs.config.plain("solver"), seed=inputs.settings.seed)
    advance = terminal.advancing("references", instance_sets)
    found = [solvers.with_references(inputs.problem.name, each, solver, advance) for each in instance_sets]
    for before, after in zip(instance_sets, found, strict=True):
        for line in after.warnings[len(before.warnings) :]:
            terminal.say(f"warning: {line}")
    return found
