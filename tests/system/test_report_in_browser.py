"""report.html, as a browser shows it."""

from __future__ import annotations

import pytest

from tests.helpers.browser import CHROMIUM, DRIVER, Browser
from tests.helpers.evaluations import DATA, evaluated, untrained

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
