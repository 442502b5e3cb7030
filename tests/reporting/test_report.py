"""report.html, as a browser shows it, and the numbers behind its figures."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch

from gumbeldore.benchmark import Benchmark
from gumbeldore.evaluation.benchmarks import BenchmarkResult
from gumbeldore.reporting import charts, html_report
from gumbeldore.reports import Reports
from problems.tsp import TSP
from tests.helpers.browser import CHROMIUM, DRIVER, Browser
from tests.helpers.evaluations import DATA, evaluated, untrained
from tests.helpers.trees import TreeProblem

CASES = {
    "tsp": [f"instances={DATA}", "num_instances=3", "method=[greedy,wor,gumbeldore]"],
    "cvrp": [f"instances={DATA}/cvrplib/A-n32-k5.vrp", "method=[greedy,sampling]"],
    "jssp": [f"instances={DATA}/jssp", "method=[gumbeldore,heuristic]", "num_instances=2"],
}
needs_browser = pytest.mark.skipif(None in (CHROMIUM, DRIVER), reason="no Chromium with its driver is installed")

TABLE = (
    """[...document.querySelectorAll("#{} tbody tr")].map(row => [...row.cells].map(cell => cell.innerText.trim()))"""
)
SIZES = """[...document.querySelectorAll("figure > svg, figure > img")].map(each => {
    const box = each.getBoundingClientRect(); return [box.width, box.height]})"""
TEXT_COLOURS = (
    """[...new Set([...document.querySelectorAll("#sampling svg text")].map(each => getComputedStyle(each).fill))]"""
)


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("policies"))


@pytest.fixture(scope="module")
def evaluations(policies, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluations")
    beam = ["search.beam_width=4", "search.num_rounds=2"]
    return {name: evaluated(policies / f"{name}.pt", folder, *words, *beam, out=name) for name, words in CASES.items()}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@needs_browser
@pytest.mark.parametrize("problem", CASES)
def test_tables_show_what_was_measured(evaluations, browser, problem):
    found = evaluations[problem]
    browser.open(found.folder / "report.html", 1280)
    shown = {name: (cost, gap) for name, cost, gap, *_ in browser.value(TABLE.format("methods"))}
    assert shown == {
        name: (f"{method['mean_cost']:.4f}", f"{method['mean_gap']:.3%}") for name, method in found.methods.items()
    }
    methods = list(found.methods)
    if problem != "cvrp":
        for size, count, *gaps in browser.value(TABLE.format("sizes")):
            parts = [found.methods[name]["by_size"][size] for name in methods]
            assert gaps == [f"{part['mean_gap']:.2%}" for part in parts] and int(count) == parts[0]["num_instances"]
    rows = browser.value(TABLE.format("instances"))
    assert len(rows) == len(found.of(methods[0]))
    for name, _, *cells, reference, kind in rows:
        lines = [next(line for line in found.of(method) if line["instance"] == name) for method in methods]
        numbers = [text for line in lines for text in (f"{float(line['cost']):.0f}", f"{float(line['gap']):.2%}")]
        assert cells == numbers
        assert (reference, kind) == (f"{float(lines[0]['reference']):.0f}", lines[0]["kind"])
    best = min(methods, key=lambda name: found.methods[name]["mean_gap"])
    assert browser.value("document.querySelector('.lead dd').innerText") == best
    text = browser.value("document.querySelector('#about').innerText")
    assert "out_dir=" in text and str(found.folder) in text and "precision" in text and "seed" in text


@needs_browser
@pytest.mark.parametrize("problem", CASES)
def test_everything_fits_and_nothing_is_asked_for(evaluations, browser, problem):
    page = evaluations[problem].folder / "report.html"
    for width in (390, 1280):
        browser.open(page, width)
        assert browser.requests() == [page.as_uri()] and browser.trouble() == []
        assert browser.value("innerWidth") == width
        assert browser.value("document.documentElement.scrollWidth") <= width
        sizes = browser.value(SIZES)
        assert len(sizes) == {"tsp": 2 + 3 * 2, "cvrp": 2 + 2, "jssp": 2 + 2}[problem]
        assert all(100 < breadth <= width and 50 < height for breadth, height in sizes), sizes


@needs_browser
def test_dark_where_the_reader_wants_it(evaluations, browser):
    looks = []
    for dark in (False, True):
        browser.open(evaluations["tsp"].folder / "report.html", 1280, dark)
        looks.append(browser.value("getComputedStyle(document.body).backgroundColor"))
        assert browser.value(TEXT_COLOURS) == [browser.value("getComputedStyle(document.body).color")]
    light, dark = (sum(map(int, colour[4:-1].split(","))) for colour in looks)
    assert light > 600 and dark < 150


@needs_browser
def test_solutions_stand_beside_their_references(evaluations, browser):
    captions = "[...document.querySelectorAll('#solutions figcaption')].map(each => each.innerText)"
    browser.open(evaluations["cvrp"].folder / "report.html", 1280)
    ours, reference = browser.value(captions)
    assert "gap" in ours and reference == "best known for k routes (.sol): 784"
    browser.open(evaluations["jssp"].folder / "report.html", 1280)
    assert all("only its cost is known" in caption for caption in browser.value(captions))
    labels = browser.value("[...document.querySelectorAll('#solutions svg')].map(each => each.textContent)")
    assert len(labels) == 2 and all("numbers in bars: jobs" in text for text in labels)


@needs_browser
def test_names_are_text_and_nothing_else(policies, browser, tmp_path):
    name = "<script>document.title='caught'</script><b>&amp;"
    folder = tmp_path / "<i>{{ 7 * 7 }}"
    folder.mkdir()
    text = (DATA / "ulysses16.tsp").read_text().replace("NAME: ulysses16.tsp", f"NAME: {name}")
    assert name in text
    (folder / "a.tsp").write_text(text)
    words = [f"instances='{folder}'", "method=sampling", "search.beam_width=2"]
    found = evaluated(policies / "tsp.pt", tmp_path, *words)
    browser.open(found.folder / "report.html", 390)
    assert browser.value("document.querySelector('h1').innerText") == str(folder)
    assert browser.value(TABLE.format("instances"))[0][0] == name
    assert browser.value("document.querySelector('h3').innerText") == name
    assert browser.value("document.scripts.length") == 0 and browser.value("document.title") != "caught"


# ---- without a browser


def solved(costs):
    samples = torch.tensor(costs)
    best = samples.nan_to_num(nan=math.inf).amin(dim=1).double()
    return BenchmarkResult(
        torch.zeros(len(costs), 3, dtype=torch.int64), best, (~samples.isnan()).sum(dim=1), samples, 1.0, 1
    )


def unnamed(references):
    count = len(references)
    references = torch.tensor(references, dtype=torch.float64)
    return Benchmark([f"n{i}" for i in range(count)], None, None, None, references, ["optimal"] * count)


def test_the_curve_is_the_mean_of_the_best_so_far():
    nan = math.nan
    parts = [solved([[4.0, 3.0, 5.0, 2.0], [9.0, 9.0, nan, nan]]), solved([[8.0, 6.0]])]
    counts, means = charts.best_so_far(parts, [torch.tensor([2.0, 9.0]), torch.tensor([2.0])])
    assert counts == [1, 2, 3, 4]
    assert means == pytest.approx([(1 + 0 + 3) / 3, (0.5 + 0 + 2) / 3, (0.5 + 0 + 2) / 3, (0 + 0 + 2) / 3])


def test_long_curves_agree_with_every_sample():
    samples = torch.rand(5, 3000, generator=torch.Generator().manual_seed(0)) + 1
    counts, means = charts.best_so_far([solved(samples.tolist())], None)
    assert counts[0] == 1 and counts[-1] == 3000 and len(counts) <= charts.POINTS
    expected = samples.cummin(dim=1).values.double().mean(dim=0)
    assert means == pytest.approx([expected[count - 1].item() for count in counts])


def test_single_solutions_have_no_distribution():
    alone = {"greedy": [solved([[3.0]])], "heuristic: savings": [solved([[4.0]])]}
    assert charts.quality(alone, [unnamed([3.0])]) is None and charts.distribution(alone, [unnamed([3.0])]) is None
    (figure, text) = charts.distribution({"wor": [solved([[3.0, 4.0]])]}, [unnamed([math.nan])])
    assert len(figure.axes) == 1 and text == "Costs of all solutions found"
    (_, text) = charts.distribution({"greedy": [solved([[3.0], [4.0]])]}, [unnamed([math.nan] * 2)])
    assert text.endswith("relative to the best found here for the same instance")


def test_a_large_set_makes_a_small_page(tmp_path):
    count = 10_000
    samples = torch.rand(count, 128, generator=torch.Generator().manual_seed(0)) + 1
    part = BenchmarkResult(
        torch.zeros(count, 3), samples.amin(dim=1).double(), torch.full((count,), 128), samples, 1.0, 1
    )

    about = {"instances": "mine", "command": "python evaluate.py"}
    html_report.write(tmp_path, {"wor": [part]}, [unnamed([1.0] * count)], TreeProblem(), about)
    page = (tmp_path / "report.html").read_text()
    assert len(page) < 200_000 and page.count("<figure>") == 2
    assert (
        f"The first {html_report.MOST_ROWS} of 10,000 instances" in page
        and page.count("<tr") == 2 + 1 + html_report.MOST_ROWS
    )


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
    """Of two instances none is in the middle."""

    class Instances(NamedTuple):
        number: torch.Tensor

    class Drawn(Reports):
        def render(self, instance, actions, titles):
            shown.extend(instance.number.tolist())
            return charts.Figure()

    class DrawnTree(TreeProblem):
        reports = Drawn()

    def chosen(*costs):
        shown.clear()
        benchmark = unnamed([1.0] * len(costs))._replace(originals=Instances(torch.arange(len(costs))))
        found = html_report.pictures([solved([[cost] for cost in costs])], [benchmark], DrawnTree(), "wor")
        return [picture.title for picture in found]

    shown = []
    assert chosen(5.0, 9.0, 7.0) == ["Lowest gap: n0", "Median gap: n2", "Highest gap: n1"] and shown == [0, 2, 1]
    assert chosen(5.0, 4.0) == ["Lowest gap: n1", "Highest gap: n0"] and shown == [1, 0]
    assert chosen(5.0) == ["n0"]
