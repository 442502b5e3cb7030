"""What an active search has found, as files."""

from __future__ import annotations

import torch

from gumbeldore.cli.run_recorder import OpenRun
from gumbeldore.evaluation.parts import SolvedSet
from gumbeldore.evaluation.references import with_lower_bounds
from gumbeldore.instance_set import InstanceSet, count_of
from gumbeldore.reporting.evaluation_report import EvaluationReport
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.training.incumbents import Incumbents
from gumbeldore.training.state import TrainState


def write_results(run: OpenRun, incumbents: Incumbents, state: TrainState) -> None:
    """The best solutions of given instances, as an evaluation writes them: tables, report and solution files."""
    keep_in_checkpoint(run.directory, state)
    found, instance_sets = solved(incumbents, state)
    count = count_of(incumbents.instance_sets)
    if missing := count - count_of(instance_sets):
        run.terminal.say(f"{missing} of {count} instances have no solution yet")
    if not instance_sets:
        return
    setup, source = run.setup, {"checkpoint": str(run.directory.last), "instances": run.setup.settings.instances}
    about = setup.machine.about(setup.problem, setup.run.seed, **source)
    report = EvaluationReport(setup.problem, about, run.terminal)
    report.write(run.directory.path / "results", {"active search": found}, instance_sets)


def keep_in_checkpoint(directory: RunDirectory, state: TrainState) -> None:
    """Keep the best solutions in the last checkpoint, which is otherwise that of the last complete epoch."""
    saved = checkpoint.load(directory.last)
    saved["train_state"] |= state.dataset.state_dict()
    checkpoint.save(directory.last, saved)
    state.dataset.prune()


def solved(incumbents: Incumbents, state: TrainState) -> tuple[list[SolvedSet], list[InstanceSet]]:
    """The solutions, and the instances that have one; the effort of the search is shared out equally."""
    found, instance_sets, count = [], [], count_of(incumbents.instance_sets)
    seconds, sampled, evaluations = (state.totals[name] / count for name in ("seconds", "solutions", "evaluations"))
    for instance_set, actions, costs in zip(
        incumbents.instance_sets, incumbents.actions, incumbents.costs, strict=True
    ):
        rows = costs.isfinite().nonzero().flatten()
        if len(rows):
            result = SolvedSet(
                actions=actions[rows],
                costs=costs[rows],
                found=torch.full_like(rows, int(sampled)),
                samples=costs[rows, None].float(),
                seconds=seconds * len(rows),
                evaluations=int(evaluations * len(rows)),
            )
            found.append(result)
            instance_sets.append(with_lower_bounds(instance_set.part(rows)))
    return found, instance_sets
