"""A headless Chromium that shows pages to tests, through its DevTools protocol over a pair of pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = """
    --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe
    --no-first-run --disable-background-networking --disable-component-update --disable-sync
"""
TROUBLE = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


class Browser:
    """One page. Use as a context; `folder` becomes the browser's profile."""

    def __init__(self, folder: Path):
        pipes = [*os.pipe(), *os.pipe()]
        theirs_in, ours_out, ours_in, theirs_out = (fcntl(end, F_DUPFD, 10) for end in pipes)
        # The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        start = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", start, CHROMIUM, *OPTIONS.split(), f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (*pipes, theirs_in, theirs_out):
            os.close(end)
        self.commands, self.answers = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb")
        self.events: list[dict[str, Any]] = []
        self.count = 0
        self.session: dict[str, str] = {}
        (page,) = (each for each in self.ask("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait()
        self.commands.close()
        self.answers.close()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The browser's answer to a command; what else it says meanwhile is kept in `events`."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params, **self.session}
        self.commands.write(json.dumps(message).encode() + b"\0")
        while (heard := self._hear()).get("id") != self.count:
            pass
        assert "error" not in heard, f"{method}: {heard['error']}"
        return heard["result"]

    def open(self, path: Path, width: int, dark: bool = False) -> None:
        """Show a file in a window of so many CSS pixels."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.ask("Page.navigate", url=path.as_uri())
        while not self._of("Page.loadEventFired"):
            self._hear()

    def value(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """The addresses the page has asked for, its own first."""
        asked = [event["params"]["request"]["url"] for event in self._of("Network.requestWillBeSent")]
        return [url for url in asked if not url.startswith("data:")]

    def trouble(self) -> list[dict[str, Any]]:
        """Errors and messages on the console."""
        return [event["params"] for method in TROUBLE for event in self._of(method)]

    def _of(self, method: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["method"] == method]

    def _hear(self) -> dict[str, Any]:
        """The next thing the browser says: JSON that ends with a zero byte."""
        text = bytearray()
        while (letter := self.answers.read(1)) != b"\0":
            assert letter, f"the browser has ended with status {self.process.poll()}"
            text += letter
        heard = json.loads(text)
        if "method" in heard:
            self.events.append(heard)
        return heard
