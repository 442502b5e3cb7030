"""What an active search has found, as files."""

from __future__ import annotations

import torch

from gumbeldore.cli.run_recorder import OpenRun
from gumbeldore.cli.words import command_line
from gumbeldore.evaluation.parts import SolvedSet
from gumbeldore.evaluation.references import with_lower_bounds
from gumbeldore.instance_set import count_of
from gumbeldore.reporting.console import hardware
from gumbeldore.reporting.evaluation_report import EvaluationReport
from gumbeldore.runtime import checkpoint
from gumbeldore.training.incumbents import Incumbents
from gumbeldore.training.state import TrainState


def write_solutions(run: OpenRun, incumbents: Incumbents, state: TrainState) -> None:
    """The best solutions of given instances, as an evaluation writes them: tables, report and solution files.

    They are in the last checkpoint from then on, which is otherwise that of the last complete epoch.
    """
    saved = checkpoint.load(run.directory.last)
    saved["train_state"]["dataset"] = [shard.name for shard in state.dataset.shards]
    checkpoint.save(run.directory.last, saved)
    state.dataset.prune()
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
    if missing := count - count_of(instance_sets):
        run.terminal.say(f"{missing} of {count} instances have no solution yet")
    if not instance_sets:
        return
    setup, machine = run.setup, run.setup.machine
    about = {"checkpoint": str(run.directory.last), "instances": setup.settings.instances, "seed": setup.run.seed}
    about |= {"hardware": hardware(machine.device), "precision": machine.precision, "command": command_line()}
    report = EvaluationReport(run.setup.problem, about, run.terminal)
    report.write(run.directory.path / "results", {"active search": found}, instance_sets)
