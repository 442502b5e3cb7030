"""report.html, and the numbers behind its figures."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch

from gumbeldore import InstanceSet, Reports
from gumbeldore.evaluation.solved_sets import SolvedSet
from gumbeldore.instance_set import checked
from gumbeldore.reporting import charts, html_report
from problems.tsp import TSP
from tests.helpers.trees import TreeProblem


def solved(costs):
    samples = torch.tensor(costs)
    best = samples.nan_to_num(nan=math.inf).amin(dim=1).double()
    actions = torch.zeros(len(costs), 3, dtype=torch.int64)
    return SolvedSet(actions, best, (~samples.isnan()).sum(dim=1), samples, 1.0, 1)


class Instances(NamedTuple):
    number: torch.Tensor


def unnamed(references):
    count = len(references)
    instances, references = Instances(torch.arange(count)), torch.tensor(references, dtype=torch.float64)
    names, kinds = [f"n{i}" for i in range(count)], ["optimal"] * count
    return checked([InstanceSet(names, instances, None, None, references, kinds)], "load")[0]


def test_the_curve_is_the_mean_of_the_best_so_far():
    nan = math.nan
    parts = [solved([[4.0, 3.0, 5.0, 2.0], [9.0, 9.0, nan, nan]]), solved([[8.0, 6.0]])]
    counts, means = charts.best_so_far(parts, [unnamed([2.0, 9.0]), unnamed([2.0])])
    assert counts == [1, 2, 3, 4]
    assert means == pytest.approx([(1 + 0 + 3) / 3, (0.5 + 0 + 2) / 3, (0.5 + 0 + 2) / 3, (0 + 0 + 2) / 3])


def test_long_curves_agree_with_every_sample():
    samples = torch.rand(5, 3000, generator=torch.Generator().manual_seed(0)) + 1
    counts, means = charts.best_so_far([solved(samples.tolist())], None)
    assert counts[0] == 1 and counts[-1] == 3000 and len(counts) <= charts.POINTS
    expected = samples.cummin(dim=1).values.double().mean(dim=0)
    assert means == pytest.approx([expected[count - 1].item() for count in counts])


def test_single_solutions_have_no_curve_and_no_distribution():
    alone = {"greedy": [solved([[3.0]])], "heuristic: savings": [solved([[4.0]])]}
    assert charts.quality(alone, [unnamed([3.0])]) is None and charts.distribution(alone, [unnamed([3.0])]) is None
    (figure, text) = charts.distribution({"wor": [solved([[3.0, 4.0]])]}, [unnamed([math.nan])])
    assert len(figure.axes) == 1 and text == "Costs of all solutions found"
    assert charts.distribution({"greedy": [solved([[3.0], [4.0]])]}, [unnamed([math.nan] * 2)]) is None
    both = {"wor": [solved([[3.0, 5.0], [4.0, 5.0]])], "greedy": [solved([[3.0], [4.0]])]}
    (figure, text) = charts.distribution(both, [unnamed([math.nan] * 2)])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["wor: 4 solutions"]
    curves = charts.quality(both, [unnamed([math.nan] * 2)])
    assert [line.get_label() for line in curves.axes[0].lines] == ["wor"]  # greedy is no curve of samples
    assert text.endswith("relative to the best found here for the same instance")


def test_a_large_set_makes_a_small_page(tmp_path):
    count = 10_000
    part = solved((torch.rand(count, 128, generator=torch.Generator().manual_seed(0)) + 1).tolist())
    about = {"instances": "mine", "command": "python evaluate.py"}
    html_report.write(tmp_path, {"wor": [part]}, [unnamed([1.0] * count)], TreeProblem(), about)
    page = (tmp_path / "report.html").read_text()
    assert len(page) < 200_000 and page.count("<figure>") == 2
    assert f"The first {html_report.MOST_ROWS} of 10,000 instances" in page
    assert page.count("<tr") == 2 + 1 + html_report.MOST_ROWS


def test_busy_pictures_become_pixels():
    coords = torch.rand(1, 6000, 2, generator=torch.Generator().manual_seed(0))
    tour = torch.arange(1, 6000)[None]
    problem = TSP(5)
    instance = problem.generate(1, torch.Generator())
    drawn = charts.markup(problem.reports.render(type(instance)(coords), tour, [""]))
    assert drawn.startswith("<img") and len(drawn) < 1_000_000
    few = charts.markup(problem.reports.render(type(instance)(coords[:, :50]), tour[:, :49], [""]))
    assert few.startswith("<svg") and "#000000" not in few and "currentColor" in few


def test_pictures_are_of_the_best_the_median_and_the_worst():
    """Of two instances none is in the middle. Where an instance set has no originals, they are the instances."""

    class Drawn(Reports):
        def render(self, instance, actions, titles):
            shown.extend(instance.number.tolist())
            return charts.Figure()

    class DrawnTree(TreeProblem):
        reports = Drawn()

    def chosen(*costs):
        shown.clear()
        results = [solved([[cost] for cost in costs])]
        found = html_report.pictures(results, [unnamed([1.0] * len(costs))], DrawnTree(), "wor")
        return [picture.title for picture in found]

    shown = []
    assert chosen(5.0, 9.0, 7.0) == ["Lowest gap: n0", "Median gap: n2", "Highest gap: n1"] and shown == [0, 2, 1]
    assert chosen(5.0, 4.0) == ["Lowest gap: n1", "Highest gap: n0"] and shown == [1, 0]
    assert chosen(5.0) == ["n0"]
