"""The commands and the Python of README.md and of the pages run with smaller numbers, and so does the notebook."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from gumbeldore.cli.schema import defaults_of
from gumbeldore.cli.words import check_overrides
from gumbeldore.training.settings import ALGORITHMS, TrainSettings
from tests.helpers.commands import ROOT, problem_of, run
from tests.helpers.pages import Command, steps_of

README = ROOT / "README.md"
PAGES = [README, *(ROOT / f"docs/{name}.md" for name in ("data", "evaluation", "training", "results"))]
CONFIGS = {"train.py": "train", "evaluate.py": "evaluate", "study.py": "study", "problems.solvers": "experts"}

SHORT = {
    "train.py": [
        *["train.epochs=2", "train.instances_per_epoch=4", "train.batches_per_epoch=2", "train.batch_size=8"],
        *["train.validation_instances=8", "search.beam_width=2", "search.num_rounds=2", "workers=0"],
    ],
    "evaluate.py": ["num_instances=2", "solver.time_limit=1", "solver.workers=0"],
    "study.py": ["num_instances=2", "repetitions=2", "search.beam_width=2", "search.num_rounds=[2]", "workers=0"],
    "problems.solvers": ["num_instances=4", "time_limit=1", "workers=0"],
}
# Also where a page gives them.
REPLACED = ("num_instances", "search.iterations", "solver.time_limit", "time_limit", "reference_samples")
REPLACED += ("train.instances_per_epoch",)
STUDIED = ("repetitions", "search.beam_width", "search.num_rounds")  # of the command with the paper's numbers
MADE = ("run_dir=", "out=", "out_dir=")


def shortened(command: Command) -> list[str]:
    """The words of a command, with smaller numbers."""
    script, words, _ = command
    if "--help" in words or (script == "train.py" and any(word.startswith("resume=") for word in words)):
        return words
    short = list(SHORT[script])
    if script == "train.py" and not any(word.startswith("init=") for word in words):
        choice = next((word for word in words if re.match("problem=|experiment=", word)), "problem=tsp")
        short.append("model.blocks=1" if problem_of(choice) in ("gomoku", "jssp", "fjsp") else "model.layers=1")
    for kind in ("supervised", "active_search"):
        if f"train={kind}" in words:
            unread = defaults_of(TrainSettings).keys() - defaults_of(ALGORITHMS[kind]).keys()
            short = [word for word in short if word.split("=")[0].removeprefix("train.") not in unread]
    if every := next((word for word in words if word.startswith("checkpoint_every=")), None):
        short = [word.replace("train.epochs=2", f"train.epochs={every.split('=')[1]}") for word in short]  # for a copy
    if any(word.startswith("instances=") and (ROOT / word.split("=", 1)[1]).is_file() for word in words):
        short.remove("num_instances=2")
    if not re.search(r"=\S*\bsolver\b", " ".join(words)):
        short = [word for word in short if not word.startswith("solver.")]
    if script == "evaluate.py" and {"method=gumbeldore", "method=tasar"} & set(words):
        short.append("search.beam_width=4")  # of job shops with hundreds of operations
    if any(word.startswith("search.iterations=[") for word in words):
        short.append("search.iterations=[2,4]")
    if "study=estimators" in words:
        short.append("reference_samples=2000")
    if "study=diversity" in words:
        short = [word.replace("search.beam_width=2", "search.beam_width=4") for word in short]  # of four groups
    for given, seconds in ((r"\d+", "1"), (r"\[.*\]", "[0.2,0.4]")):
        words = [re.sub(rf"^search\.time_limit={given}$", f"search.time_limit={seconds}", word) for word in words]
    alone = {"method=reconstruct", "method=[reconstruct,solver]"} & set(words)
    if alone and not any(word.startswith("search.start=") for word in words):
        short = [word for word in short if not word.startswith(("search.beam_width=", "search.num_rounds="))]
    taken = {word.split("=")[0] for word in short}
    replaced = (*REPLACED, "search.beam_width") if script == "evaluate.py" else REPLACED
    if "repetitions=20" in words:
        replaced += STUDIED
    kept = [word for word in words if word.split("=")[0] not in taken.intersection(replaced)]
    given = {word.split("=")[0] for word in kept}
    return [*kept, *(word for word in short if word.split("=")[0] not in given)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_keys_and_options_of_the_commands_exist(page):
    commands = [step for step in steps_of(page) if isinstance(step, Command)]
    assert commands
    for script, words, _ in commands:
        if script == "benchmarks":  # tests/test_benchmarks.py runs them
            name, *words = words
            given = dict(word.split("=", 1) for word in words)
            assert set(given) <= set(import_module(f"benchmarks.{name}").DEFAULTS)
            for alternative in given.get("words", "").split("|"):
                check_overrides(alternative.split(), "evaluate" if name == "generalisation" else "train")
            continue
        own = [word for word in words if not word.startswith("-")]
        check_overrides(own, CONFIGS[script], sweep=bool({"-m", "--multirun"} & set(words)))


def paste(steps: list[Command | str], folder: Path, with_ray: Command | None = None) -> None:
    """Run the steps beside the repository's files; solvers only where they are installed."""
    for name in ("tests", "pretrained"):
        (folder / name).symlink_to(ROOT / name)
    env = {"GUMBELDORE_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    solvers = all(find_spec(name) for name in ("pyvrp", "ortools"))
    absent: set[str] = set()  # what the commands that were left out would have made
    for step in steps:
        if isinstance(step, Command) and step.script == "benchmarks":
            continue
        if isinstance(step, str):
            if not solvers and re.search("pyvrp|ortools", step):
                continue
            words = ["-c", step]
        else:
            needed = {word.split("=", 1)[-1] for word in step.words}
            if not solvers and (step.asks_a_solver or needed & absent):
                absent |= {word.split("=", 1)[1] for word in step.words if word.startswith(MADE)}
                continue
            words = [*step.start, *shortened(step)]
            if step is with_ray:
                words.remove("workers=0")
        result = run(*words, cwd=folder, **env)
        assert result.returncode == 0, f"{step}\n{result.stdout}\n{result.stderr}"


@pytest.mark.slow
def test_the_start_of_the_readme_runs(tmp_path):
    """Its commands, the first as it is copied, and its Python."""
    steps = steps_of(README, "Start")
    kinds = [step.script if isinstance(step, Command) else "Python" for step in steps]
    assert kinds == ["train.py", "Python", "evaluate.py", "evaluate.py"]
    paste(steps, tmp_path, with_ray=steps[0])


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_all_of_a_page_runs(page, tmp_path):
    paste(steps_of(page), tmp_path)


@pytest.mark.slow
def test_the_cells_of_the_notebook_run_in_their_order(tmp_path):
    """In a process of its own, in a folder beside the files it reads; its own checks are what it prints."""
    pytest.importorskip("pyvrp")
    for name in ("tests", "pretrained"):
        (tmp_path / name).symlink_to(ROOT / name)
    notebook = json.loads((ROOT / "examples/quickstart.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 8
    script = "\n".join(["import matplotlib", "matplotlib.use('agg')", *cells])
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1", "GUMBELDORE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    probabilities = [line.split("probability ")[1] for line in lines if line.startswith("length ")]
    assert len(probabilities) == 8 and 0 < sum(map(float, probabilities)) <= 1
    (longer,) = [line.rsplit("by ", 1)[1] for line in lines if line.startswith("policy ")]
    assert -0.001 <= float(longer.rstrip("%")) / 100 < 0.1
    assert not (tmp_path / "my_policy.pt").exists()
