"""Compare searches: `python study.py checkpoint=<run directory> instances=kool/tsp20`; see `--help`.

`study=curves` shows quality against samples, evaluations or time; `step_size` finds the best values of one search by a
race; `estimators` and `diversity` look at what samples say about a policy, and how different they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from gumbeldore.cli import command, resume
from gumbeldore.cli.configuration import Configuration, set_for_policy
from gumbeldore.cli.inputs import inputs_of, opened
from gumbeldore.cli.methods import check_method
from gumbeldore.cli.schema import StudySettings
from gumbeldore.cli.searches import chosen_methods
from gumbeldore.cli.study import chosen_study, draw, show, write_tables
from gumbeldore.cli.words import command_line
from gumbeldore.evaluation.solved_sets import have_gaps
from gumbeldore.evaluation.tables import reference_of, remarks
from gumbeldore.instance_set import count_of
from gumbeldore.reporting.console import Terminal
from gumbeldore.studies.study import About, Asked, Context, Study


def study(cfg: DictConfig) -> list[Any]:
    """Run the study, print its tables and write them to out_dir."""
    config = Configuration(cfg)
    chosen = chosen_study(config)
    inputs = inputs_of(config, StudySettings)
    inputs = inputs._replace(choices=[choice.with_views() for choice in inputs.choices])
    (choice,) = inputs.choices
    set_for_policy(cfg.search, choice.loaded)
    methods = chosen_methods(config)
    config.refuse_unread()
    searches = chosen.searches(methods)
    for each in searches:
        check_method(each.method, each.search, choice.loaded, inputs.instance_sets)

    with opened(inputs) as results, inputs.machine.pool(choice.loaded.problem, choice.loaded.policy) as pool:
        instance_sets, terminal, kept = results
        about = About(
            checkpoint=str(choice.loaded.path),
            instances=inputs.settings.instances,
            num_instances=count_of(instance_sets),
            hardware=str(inputs.machine),
            command=command_line(),
            reference=reference_of(instance_sets) if have_gaps(instance_sets) else None,
            remarks=remarks(instance_sets, inputs.problem),
        )
        context = Context(pool, instance_sets, inputs.settings.seed, kept, terminal.advancing)
        return measure(chosen, searches, context, about, terminal, inputs.out_dir)


def measure(
    chosen: Study[Any, Any],
    searches: list[Asked[Any]],
    context: Context,
    about: About,
    terminal: Terminal,
    out_dir: Path,
) -> list[Any]:
    """Measure the searches and return the results. The results before an interruption or an error are shown, too."""
    found: list[Any] = []
    try:
        for result in chosen.measure(context, searches):
            found.append(result)
            with terminal.sparing(f"one of {out_dir}/study.*"):  # after each: a later one may not come
                write_tables(out_dir, chosen, chosen.content(searches, found, about))
    except KeyboardInterrupt:
        raise resume.interruption(*chosen.progress(context.kept, searches, found, about), out_dir) from None
    finally:
        if found:
            with terminal.sparing(f"{out_dir}/study.png"):
                draw(out_dir, chosen.plot(found, about))
            show(terminal, chosen.show(searches, found, about), about)
            terminal.say(f"written: {', '.join(map(str, sorted(out_dir.glob('study.*'))))}")
    return found


def main() -> None:
    command.run(study, "study")


if __name__ == "__main__":
    main()
