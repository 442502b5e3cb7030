"""The commands as a user types them, in this process or in one of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig

from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.schema import COMMANDS

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
OF_PROBLEM = {
    "cvrp": ["cvrp"],
    "gomoku": ["gomoku"],
    "jssp": ["jssp", "job_shop", "tardiness", "local_search"],
    "fjsp": ["fjsp", "flexible_shop"],
}


def compose(name, *overrides):
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return hydra.compose(name, list(overrides))


def configured(name, *overrides):
    """The configuration of a command with these words."""
    return Configuration(compose(name, *overrides), overrides)


def options(group):
    return [f"{group}={path.stem}" for path in sorted((CONFIGS / group).glob("*.yaml"))]


def problem_of(choice):
    """The problem that a network, an experiment or the option of another group belongs to."""
    return next((name for name, words in OF_PROBLEM.items() if any(word in choice for word in words)), "tsp")


def defaults_of(group):
    """The values of `train` or `search` before any preset, with what a training sets otherwise."""
    own = yaml.safe_load((CONFIGS / "train.yaml").read_text())
    return {**COMMANDS["train"][group], **own.get(group, {})}


def run(*words, cwd, **env):
    """A command in a process of its own."""
    return subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, env={**os.environ, **env})


def typed(program, *words, cwd):
    """The same in this process, without the seconds that a start takes: a program with words as typed."""
    before, out, err, code = Path.cwd(), StringIO(), StringIO(), 0
    os.chdir(cwd)
    try:
        with patch("sys.argv", [f"{program.__name__}.py", *words]), redirect_stdout(out), redirect_stderr(err):
            program.main()
    except SystemExit as stop:
        code = stop.code
    finally:
        os.chdir(before)
        HydraConfig.instance().cfg = None
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def refused(program, *words, cwd):
    """The one line of a command that has done nothing; Hydra notes in multirun.yaml that there was a sweep."""
    before = set(cwd.rglob("*"))
    result = typed(program, *words, cwd=cwd)
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr
    assert set(cwd.rglob("*")) - before <= {cwd / "multirun.yaml"}
    return result.stderr


def done(program, *words, cwd):
    result = typed(program, *words, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result
