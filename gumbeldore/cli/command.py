"""A command from its start to its end: Hydra, its help, and one line for each mistake of the user."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra._internal.utils import get_args_parser
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from gumbeldore.cli import schema  # noqa: F401 - the configurations begin with its defaults
from gumbeldore.cli.paths import expand_home, quoted_paths
from gumbeldore.cli.words import CONFIGS, check_overrides, check_sweep
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.runtime.program import VERSION, as_called

INTERRUPTED = 128 + signal.SIGINT  # the status of a command that was asked to end


def run(task: Callable[[DictConfig], Any], config_name: str) -> None:
    """Run `task` on the configuration of the command line; a mistake of the user ends in one line and status 2.

    `--version` says that of this project, not Hydra's.
    """
    robust_output()
    if "--version" in sys.argv[1:]:
        print(f"gumbeldore {VERSION}")
        return
    options, words = get_args_parser().parse_args(), list(sys.argv)
    overrides = quoted_paths(options.overrides, options.multirun)
    try:
        check_overrides(overrides, config_name, options.config_dir, options.multirun)
        if options.multirun:
            check_sweep(overrides)
        sys.argv = [words[0], *quoted_paths(words[1:], options.multirun)]  # which Hydra reads
        task = _user_errors(task, words)
        command = hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)(task)
        _print_help(command) if options.help else command()
    except (ValueError, HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        _fail(error, options.config_dir)
    except KeyboardInterrupt as error:
        print(str(error) or "interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def robust_output() -> None:
    """Keep the output from failing: replace letters that the terminal lacks, draw without a display."""
    os.environ["MPLBACKEND"] = "agg"  # pictures are files
    if isinstance(sys.stdout, io.TextIOWrapper):  # Python's own, not that of a test
        sys.stdout.reconfigure(errors="replace")


def _user_errors(task: Callable[[DictConfig], Any], words: list[str]) -> Callable[[DictConfig], Any]:
    """Hydra prints tracebacks of what a task raises; these errors explain themselves.

    Arguments:
        words: of the command line as they were options, which the task finds there
    """

    def checked(cfg: DictConfig) -> Any:
        sys.argv = words
        try:
            expand_home(cfg)
            return task(cfg)
        except (ValueError, WorkerError, OSError, OmegaConfBaseException) as error:
            _fail(error)

    return checked


def _print_help(command: Callable[[], None]) -> None:
    """Hydra's help, of which a reader may want the beginning alone: `--help | head`."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        command()
    try:
        print(as_called(text.getvalue()), end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is written there at the exit


def _fail(error: Exception, own_configs: str | None = None) -> None:
    if os.environ.get("HYDRA_FULL_ERROR") == "1":
        raise error
    if isinstance(error, MissingConfigException):  # an OSError of several lines
        message = _no_such_option(str(error.missing_cfg_file), own_configs)
    elif isinstance(error, (OmegaConfBaseException, HydraException, yaml.YAMLError)):  # some are ValueErrors, too
        key = error.full_key if isinstance(error, OmegaConfBaseException) else None
        message = f"{key}: {str(error).splitlines()[0]}" if key else str(error).splitlines()[0]
    else:
        message = str(error)
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def _no_such_option(file: str, own_configs: str | None) -> str:
    """What to say of the file of an option, `group/option`, that is not there."""
    group, _, option = file.partition("/")
    folders = [CONFIGS, *([Path(own_configs)] if own_configs else [])]
    known = sorted({path.stem for folder in folders for path in Path(folder, group).glob("*.yaml")})
    return f"{group}={option}: there is no such option; there are {', '.join(known)}"
