"""The list of wrong commands: `python -m tests.cli.wrong_commands` writes its answers anew, for a look at the diff.

`wrong_commands.txt` has a command as it is typed after a `$`, then the one line that it answers. A new command needs no
answer yet. Commands run in a folder with `inputs`.
"""

from __future__ import annotations

import importlib
import shlex
import signal
import tempfile
import traceback
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.helpers.commands import ROOT, typed
from tests.helpers.evaluations import DATA, untrained

LIST = Path(__file__).with_suffix(".txt")
PROGRAMS = {f"{name}.py": name for name in ("train", "evaluate", "study")}
PROGRAMS |= {"solvers": "problems.solvers.__main__", "import_checkpoint": "gumbeldore.cli.import_checkpoint"}
SECONDS = 20  # after which a command that is to be refused has begun to work


class NoAnswer(BaseException):
    """Which no command takes for a mistake of the user."""


class WrongCommand(NamedTuple):
    command: str
    answer: str
    slow: bool = False


def wrong_commands() -> list[WrongCommand]:
    """The list, without its comments; slow are commands under a heading that begins so."""
    found: list[WrongCommand] = []
    slow = False
    for line in filter(None, LIST.read_text().splitlines()):
        if line.startswith("#"):
            slow = line.startswith("# Slow")
        elif line.startswith("$ "):
            found.append(WrongCommand(line.removeprefix("$ "), "", slow))
        else:
            found[-1] = found[-1]._replace(answer=line)
    return found


def inputs(folder: Path) -> Path:
    """The folder, with what the commands of the list name: policies, instances, and files that are none."""
    (folder / "data").symlink_to(DATA)
    (folder / "empty").mkdir()
    (folder / "notes.txt").write_text("no instances\n")
    (folder / "notes.pt").write_text("no checkpoint\n")
    (folder / "broken.json").write_text('{"jobs": [')
    coords = np.random.default_rng(0).random((2, 6, 2))
    np.savez(folder / "good.npz", coords=coords)
    np.savez(folder / "nan.npz", coords=np.where(coords > 0.9, np.nan, coords))
    np.savez(folder / "other.npz", places=coords)
    (folder / "half").mkdir()
    (folder / "half/config.yaml").write_text("seed: [\n")
    (folder / "list").mkdir()
    (folder / "list/config.yaml").write_text("[1, 2]\n")
    (folder / "policies").mkdir()
    untrained(folder / "policies")
    return folder


def answer(command: str, folder: Path) -> str:
    """What a command writes to stderr in the folder with the inputs. It is shown as `HERE`, the project as `ROOT`.

    Raises AssertionError if its status is not that of a wrong command, or if it changes the folder.
    """
    program, *words = shlex.split(command)
    before = set(folder.rglob("*"))
    result = typed(importlib.import_module(PROGRAMS[program]), *words, cwd=folder)
    changed = set(folder.rglob("*")) ^ before
    assert result.returncode == 2 and not changed, (command, result.returncode, result.stderr, changed)
    return result.stderr.replace(str(folder), "HERE").replace(str(ROOT), "ROOT")


def main() -> None:
    """Write the answers anew; name commands that do not answer in one line, and leave their answers as they were."""

    def give_up(*_: object) -> None:
        raise NoAnswer(f"no answer in {SECONDS} s")

    signal.signal(signal.SIGALRM, give_up)
    text, answers = [], {each.command: each.answer for each in wrong_commands()}
    with tempfile.TemporaryDirectory() as name:
        folder = inputs(Path(name))
        for command, old in answers.items():
            signal.alarm(SECONDS)
            try:
                found = answer(command, folder)
            except (Exception, NoAnswer) as error:
                found = "".join(traceback.format_exception(error))
            signal.alarm(0)
            if found.count("\n") == 1:
                answers[command] = found.rstrip("\n")
            else:
                print(f"$ {command}\n{found}\n(it had answered: {old})")
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            text.append(line)
        elif line.startswith("$ "):
            text += [line, *filter(None, [answers[line.removeprefix("$ ")]])]
    LIST.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
