"""Compare searches: `python study.py checkpoint=<run directory> instances=kool/tsp20`; see `--help`.

`study=curves` shows quality against samples, evaluations or time; `step_size` finds the best values of one search by a
race; `estimators` and `diversity` look at what samples say about a policy, and how different they are.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from gumbeldore.cli import command, resume
from gumbeldore.cli.configuration import Configuration, set_step_size
from gumbeldore.cli.inputs import inputs_of, opened
from gumbeldore.cli.methods import check_method
from gumbeldore.cli.schema import StudySettings
from gumbeldore.cli.searches import chosen_methods
from gumbeldore.cli.words import command_line
from gumbeldore.evaluation.solved_sets import have_gaps
from gumbeldore.evaluation.tables import reference_of, remarks
from gumbeldore.instance_set import count_of
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.files import atomic_write, write_table, write_text
from gumbeldore.studies import STUDIES
from gumbeldore.studies.study import About, Asked, Context, Shown, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def study(cfg: DictConfig) -> list[Any]:
    """Run the study, print its tables and write them to out_dir."""
    config = Configuration(cfg)
    chosen = chosen_study(config)
    inputs = inputs_of(config, StudySettings)
    (choice,) = inputs.choices
    set_step_size(cfg.search, choice.loaded)
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


def chosen_study(config: Configuration) -> Study[Any, Any]:
    """The study that study= chooses. Raises ValueError if there is none."""
    kind = config.cfg.kind
    if "kind" in config.typed:
        raise ValueError(f"kind is what study= sets; choose study={kind}")
    if kind not in STUDIES:
        raise ValueError(f"kind must be one of {', '.join(STUDIES)}, got {kind!r}")
    if config.cfg.references != "solver":
        rule = "a study's method=solver takes search.time_limit"
        config.ignores("solver.time_limit", f"without references=solver: {rule}")
    readers: dict[str, list[str]] = {}
    for name, each in STUDIES.items():
        for spec in fields(each):
            readers.setdefault(spec.name, []).append(name)
    for key, names in readers.items():
        if kind not in names:
            config.ignores(key, f"on study={kind}, only on study={', '.join(names)}")
    config.reads("", STUDIES[kind].reads)
    return config.settings(STUDIES[kind])


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


def write_tables(out_dir: Path, chosen: Study[Any, Any], content: dict[str, Any]) -> None:
    """study.json with everything, study.csv with the lines of the table."""
    lines = content[chosen.lines]
    write_text(out_dir / "study.json", json.dumps(content, indent=2) + "\n")
    write_table(out_dir / "study.csv", [list(lines[0]), *(line.values() for line in lines)])


def draw(out_dir: Path, figure: Figure | None) -> None:
    """study.png, if the study has a picture."""
    if figure:
        with atomic_write(out_dir / "study.png") as file:
            figure.savefig(file, dpi=100)


def show(terminal: Terminal, shown: Shown, about: About) -> None:
    """Print the tables; the last one has the notes."""
    notes = "\n".join([shown.note, *about.remarks, about.hardware])
    for table in shown.tables:
        terminal.table(*table, notes if table is shown.tables[-1] else "")
    for line in shown.conclusions:
        terminal.say(line)


def main() -> None:
    command.run(study, "study")


if __name__ == "__main__":
    main()
