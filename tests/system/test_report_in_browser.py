"""report.html, as a browser shows it: a headless Chromium, driven by selenium."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.helpers.evaluations import DATA, evaluated

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


class Browser:
    """One page. Use as a context; `folder` becomes the browser's profile."""

    def __init__(self, folder: Path):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for option in (*OPTIONS, f"--user-data-dir={folder}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        self.driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_) -> None:
        self.driver.quit()

    def open(self, path: Path, width: int) -> None:
        """Show a file in a window of so many CSS pixels."""
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for log in ("performance", "browser"):
            self.driver.get_log(log)  # of the page before
        self.driver.get(path.as_uri())

    def value(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self.driver.execute_script(f"return {script}")

    def requests(self) -> list[str]:
        """The addresses the page has asked for since the last call, its own first."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith("data:")]

    def trouble(self) -> list[dict[str, Any]]:
        """Errors and messages on the console."""
        return self.driver.get_log("browser")


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
def test_tables_show_what_was_measured(evaluations, browser):
    found = evaluations["jssp"]
    browser.open(found.folder / "report.html", 1280)
    shown = {name: (cost, gap) for name, cost, gap, *_ in browser.value(TABLE.format("methods"))}
    methods = found.methods.items()
    assert shown == {name: (f"{method['mean_cost']:.2f}", f"{method['mean_gap']:.3%}") for name, method in methods}
    rows = browser.value(TABLE.format("instances"))
    for name, _, *cells, reference, kind in rows:
        lines = [row for row in found.rows if row["instance"] == name]
        numbers = [text for line in lines for text in (f"{float(line['cost']):.0f}", f"{float(line['gap']):.2%}")]
        assert cells == numbers and (reference, kind) == (f"{float(lines[0]['reference']):.0f}", lines[0]["kind"])
    assert len(rows) == 2


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
