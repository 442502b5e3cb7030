"""The code and the commands that the pages of docs/ show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from tests.helpers.commands import ROOT

FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MAKE_TRAIN = "python train.py experiment=demo "  # what `make train` runs once it has installed
NOT_RUN = ("pip install ", "python3 -m venv ", ". .venv/bin/activate", "tensorboard --logdir ")


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def files_of(text: str) -> dict[str, str]:
    """The code blocks that name their file."""
    return {file: code for _, file, code in FENCE.findall(text) if file}


def write(files: dict[str, str], folder: Path) -> None:
    for name, code in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(code)


class Command(NamedTuple):
    """`python <script> <words>`, `python -m <module> <words>`, or `torchrun ... <script> <words>`."""

    script: str
    words: list[str]
    several: bool = False  # processes; two are tested

    @property
    def start(self) -> list[str]:
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"] if self.several else []
        return [*torchrun, str(ROOT / self.script)] if self.script.endswith(".py") else ["-m", self.script]

    @property
    def asks_a_solver(self) -> bool:
        return self.script == "problems.solvers" or bool(re.search(r"\b(solver|heuristic)\b", " ".join(self.words)))


def steps_of(page: Path, section: str = "") -> list[Command | str]:
    """What a reader pastes, in the order of the page or of one section: commands, and Python as text."""
    text = page.read_text()
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found: list[Command | str] = []
    for language, file, code in FENCE.findall(text):
        if file or language not in ("bash", "python"):
            continue
        if language == "python":
            found.append(code)
            continue
        for line in code.replace("\\\n", " ").replace("make train ARGS=", MAKE_TRAIN).splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "torchrun":
                script, *words = (word for word in words[1:] if not word.startswith("--"))
                found.append(Command(script, words, several=True))
            elif words and not line.startswith(NOT_RUN):
                assert words[0] == "python", f"{page.name}: nothing tests {line}"
                _, *words = words
                found.append(Command(words[1], words[2:]) if words[0] == "-m" else Command(words[0], words[1:]))
    return found
