"""A headless Chromium that shows pages to tests, driven by selenium."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver

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
