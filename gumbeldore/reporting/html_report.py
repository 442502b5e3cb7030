"""report.html: what an evaluation has found, as one page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import torch

from gumbeldore.batches import take
from gumbeldore.evaluation import tables
from gumbeldore.evaluation.solved_sets import SolvedSet, best_of, pairs, summarise
from gumbeldore.instance_set import InstanceSet, count_of
from gumbeldore.interfaces import Problem
from gumbeldore.reporting import charts
from gumbeldore.runtime.files import write_text

FOLDER = Path(__file__).parent
MOST_ROWS = 200  # of the table of instances
WIDE_INCHES = 8.8  # a wider picture has the whole width of the page


class Picture(NamedTuple):
    """Solutions of one instance, drawn."""

    title: str
    panels: list[tuple[str, str]]  # markup and caption of each
    wide: bool  # each needs the whole width of the page


def write(
    out_dir: Path,
    found: tables.Results,
    instance_sets: list[InstanceSet],
    problem: Problem,
    about: dict[str, Any],
    details: str | None = None,
) -> None:
    """Write report.html.

    Arguments:
        about: shown as it is, its `instances` as the title and its `command` to be copied
        details: the file of the problem's own table beside the page, which has a link to it
    """
    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    count = count_of(instance_sets)
    best = best_of(found, instance_sets)
    quality, distribution = charts.quality(found, instance_sets), charts.distribution(found, instance_sets)
    text = pages.get_template("report.html").render(
        about=about,
        problem=problem.name,
        count=count,
        best=best,
        outcome=summarise(found[best], instance_sets),
        mean_cost=tables.mean(found[best]),
        details=details,
        note=tables.reference_note(instance_sets),
        methods=tables.method_rows(found, instance_sets, problem),
        sizes=tables.size_rows(found, instance_sets, problem) if len(instance_sets) > 1 else None,
        remarks=tables.mean_lines(found, instance_sets)
        + tables.reached_lines(found, instance_sets)
        + tables.claim_lines(found, instance_sets)
        + tables.remarks(instance_sets, problem),
        warnings=tables.unsolved_lines(found, instance_sets)
        + tables.contradiction_lines(found, instance_sets)
        + tables.notices(instance_sets),
        quality=quality and charts.markup(quality),
        distribution=distribution and (charts.markup(distribution[0]), distribution[1]),
        pictures=pictures(found[best], instance_sets, problem, best),
        instances=tables.instance_rows(found, instance_sets, problem, MOST_ROWS),
        shown=min(count, MOST_ROWS),
        style=(FOLDER / "report.css").read_text(),
    )
    write_text(out_dir / "report.html", text)


def pictures(solved: list[SolvedSet], instance_sets: list[InstanceSet], problem: Problem, method: str) -> list[Picture]:
    """The instances with the lowest, the median and the highest gap (cost where references are missing) of a method.

    Each with the reference solution where it is known. There are none if the problem draws no pictures (`render`).
    """
    each = pairs(solved, instance_sets)
    if not each:
        return []
    places = [(part, instance_set, i) for part, instance_set in each for i in range(len(instance_set.names))]
    gap = torch.cat([instance_set.gaps(part.costs) for part, instance_set in each])
    by_gap = not gap.isnan().any()
    order = (gap if by_gap else torch.cat([part.costs for part, _ in each])).argsort(stable=True).tolist()
    what = "gap" if by_gap else "cost"
    chosen = {order[len(order) // 2]: f"Median {what}", order[-1]: f"Highest {what}", order[0]: f"Lowest {what}"}
    if len(order) == 1:
        chosen = {0: ""}
    ordered = sorted(chosen, key=order.index)
    found = [_picture(chosen[place], problem, method, *places[place]) for place in ordered]
    return [picture for picture in found if picture is not None]


def _picture(
    word: str, problem: Problem, method: str, part: SolvedSet, instance_set: InstanceSet, index: int
) -> Picture | None:
    """One instance as a method has solved it, and its reference; None if the problem draws no pictures."""
    one = take(instance_set.originals, slice(index, index + 1))
    figure = problem.reports.render(one, part.actions[index, None], [""])
    if figure is None:
        return None
    cost, gap = tables.number(part.costs[index].item()), instance_set.gaps(part.costs)[index].item()
    panels = [(charts.markup(figure), f"{method}: {cost}" + (f", gap {tables.percentage(gap)}" if gap == gap else ""))]
    if gap == gap:
        reference = f"{instance_set.kinds[index]}: {tables.number(instance_set.references[index].item())}"
        if index in instance_set.solutions:
            drawn = problem.reports.render(one, instance_set.solutions[index][None], [""])
            panels += [(charts.markup(drawn), reference)] if drawn else []
        else:
            panels[0] = (panels[0][0], f"{panels[0][1]} ({reference}, only its cost is known)")
    wide = figure.get_figwidth() > WIDE_INCHES
    return Picture(f"{word}: {instance_set.names[index]}".removeprefix(": "), panels, wide)
