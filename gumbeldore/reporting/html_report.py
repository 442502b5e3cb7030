"""report.html: what an evaluation has found, as one page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import torch

from gumbeldore.batches import take
from gumbeldore.benchmark import Benchmark, count_of
from gumbeldore.evaluation import results
from gumbeldore.evaluation.benchmarks import BenchmarkResult, best_of, gaps, summarise
from gumbeldore.interfaces import Problem
from gumbeldore.reporting import charts
from gumbeldore.runtime.files import write_text

FOLDER = Path(__file__).parent
MOST_ROWS = 200  # of the table of instances


class Picture(NamedTuple):
    """Solutions of one instance, drawn."""

    title: str
    panels: list[tuple[str, str]]  # markup and caption of each


def write(
    out_dir: Path, found: results.Results, benchmarks: list[Benchmark], problem: Problem, about: dict[str, Any]
) -> None:
    """Write report.html; `about` is shown as it is, its `instances` as the title and its `command` to be copied."""
    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    count = count_of(benchmarks)
    best = best_of(found, benchmarks)
    quality, distribution = charts.quality(found, benchmarks), charts.distribution(found, benchmarks)
    text = pages.get_template("report.html").render(
        about=about,
        problem=problem.name,
        count=count,
        best=best,
        outcome=summarise(found[best], benchmarks),
        note=results.reference_note(benchmarks),
        methods=results.method_rows(found, benchmarks, problem),
        sizes=results.size_rows(found, benchmarks, problem) if len(benchmarks) > 1 else None,
        remarks=results.mean_lines(found, benchmarks) + results.remarks(benchmarks, problem),
        warnings=results.contradiction_lines(found, benchmarks) + results.notices(benchmarks),
        quality=quality and charts.markup(quality),
        distribution=distribution and (charts.markup(distribution[0]), distribution[1]),
        pictures=pictures(found[best], benchmarks, problem, best),
        instances=results.instance_rows(found, benchmarks, problem, MOST_ROWS),
        shown=min(count, MOST_ROWS),
        style=(FOLDER / "report.css").read_text(),
    )
    write_text(out_dir / "report.html", text)


def pictures(
    solved: list[BenchmarkResult], benchmarks: list[Benchmark], problem: Problem, method: str
) -> list[Picture]:
    """The instances with the lowest, the median and the highest gap (cost where references are missing) of a method.

    Each with the reference solution where it is known. There are none if the problem draws no pictures (`render`).
    """
    pairs = list(zip(solved, benchmarks, strict=True))
    places = [(part, benchmark, i) for part, benchmark in pairs for i in range(len(benchmark.names))]
    gap = torch.cat([gaps(part, benchmark) for part, benchmark in pairs])
    by_gap = not gap.isnan().any()
    order = (gap if by_gap else torch.cat([part.costs for part in solved])).argsort(stable=True).tolist()
    what = "gap" if by_gap else "cost"
    chosen = {order[len(order) // 2]: f"Median {what}", order[-1]: f"Highest {what}", order[0]: f"Lowest {what}"}
    if len(order) == 1:
        chosen = {0: ""}
    ordered = sorted(chosen, key=order.index)
    found = [_picture(chosen[place], problem, method, *places[place]) for place in ordered]
    return [picture for picture in found if picture is not None]


def _picture(
    word: str, problem: Problem, method: str, part: BenchmarkResult, benchmark: Benchmark, index: int
) -> Picture | None:
    """One instance as a method has solved it, and its reference; None if the problem draws no pictures."""
    one = None if benchmark.originals is None else take(benchmark.originals, slice(index, index + 1))
    figure = problem.reports.render(one, part.actions[index, None], [""])
    if figure is None:
        return None
    cost, gap = results.number(part.costs[index].item()), gaps(part, benchmark)[index].item()
    panels = [(charts.markup(figure), f"{method}: {cost}" + (f", gap {results.percentage(gap)}" if gap == gap else ""))]
    if gap == gap:
        reference = f"{benchmark.kinds[index]}: {results.number(benchmark.references[index].item())}"
        if index in benchmark.solutions:
            drawn = problem.reports.render(one, benchmark.solutions[index][None], [""])
            panels += [(charts.markup(drawn), reference)] if drawn else []
        else:
            panels[0] = (panels[0][0], f"{panels[0][1]} ({reference}, only its cost is known)")
    return Picture(f"{word}: {benchmark.names[index]}".removeprefix(": "), panels)
