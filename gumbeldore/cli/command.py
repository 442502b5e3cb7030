"""What train.py and evaluate.py share of the command line: checked keys, checked objects, one-line errors."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gumbeldore.evaluation.loading import LoadedPolicy
from gumbeldore.parallel import ray_cluster
from gumbeldore.parallel.ray_actors import WorkerError
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.building import build
from gumbeldore.runtime.old_versions import refuse_old

FOLDER = Path(__file__).parents[2] / "configs"
# Of `train`, for sampled experts only.
SAMPLING = (
    "instances_per_epoch",
    "decisions_per_epoch",
    "nucleus_after",
    "include_greedy",
    "clear_on_improvement",
    "dataset_capacity",
)

REMOVED_OPTIONS = {"search=rules": "search=heuristic", "search=savings": "search=heuristic"}  # and what to type instead


def run(task: Callable[[DictConfig], Any], config_name: str) -> None:
    """Run `task` on the configuration of the command line; a mistake of the user ends in one line and status 2."""
    typed = get_args_parser().parse_args()
    try:
        check_overrides(typed.overrides, config_name, typed.config_dir)
        if typed.multirun:
            check_sweep(typed.overrides)
        command = hydra.main(version_base="1.3", config_path=str(FOLDER), config_name=config_name)(_user_errors(task))
        _print_help(command) if typed.help else command()
    except (ValueError, HydraException, OmegaConfBaseException) as error:
        _fail(error, typed.config_dir)


def _user_errors(task: Callable[[DictConfig], Any]) -> Callable[[DictConfig], Any]:
    """Hydra prints tracebacks of what a task raises; these errors explain themselves."""

    def checked(cfg: DictConfig) -> Any:
        try:
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
        print(text.getvalue(), end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is written there at the exit


def _fail(error: Exception, own_configs: str | None = None) -> None:
    if os.environ.get("HYDRA_FULL_ERROR") == "1":
        raise error
    if isinstance(error, MissingConfigException):  # an OSError of several lines
        group, _, option = str(error.missing_cfg_file).partition("/")
        folders = [FOLDER, *filter(None, [own_configs])]
        known = sorted({path.stem for folder in folders for path in Path(folder, group).glob("*.yaml")})
        message = f"{group}={option}: there is no such option; there are {', '.join(known)}"
        if replacement := REMOVED_OPTIONS.get(f"{group}={option}"):
            message = f"{group}={option} has been removed; {replacement} takes its place"
    elif isinstance(error, (ValueError, WorkerError, OSError)):
        message = str(error)
    else:
        message = str(error).splitlines()[0]
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def check_overrides(words: list[str], config_name: str, own_configs: str | None = None) -> None:
    """Refuse keys that do not exist, naming those that do, or saying what became of them.

    Arguments:
        own_configs: a folder of the user's (--config-dir) whose groups add options to those of this one

    Raises ValueError, and Hydra's own errors for other mistakes (an unknown option of a group, a malformed word).
    """
    if own_configs and not Path(own_configs).is_dir():
        raise ValueError(f"--config-dir: there is no folder {own_configs}")
    overrides = OverridesParser.create().parse_overrides(words)
    for override in overrides:
        refuse_old(override.key_or_group)
        if override.is_add() or override.is_delete():
            raise ValueError(f"{override.input_line}: keys can be changed, not added or removed")
    groups = [override for override in overrides if (FOLDER / override.key_or_group).is_dir()]
    if any(override.key_or_group == "search" and override.value() == [] for override in groups):
        raise ValueError("search=[]: there must be one method at least")
    if any(override.is_sweep_override() for override in groups):
        return  # each job's own composition is checked by Hydra
    with hydra.initialize_config_dir(str(FOLDER), version_base="1.3"):
        search = [f"hydra.searchpath=['file://{Path(own_configs).resolve()}']"] if own_configs else []
        cfg = hydra.compose(config_name, [*search, *(override.input_line for override in groups)])
        chosen = {override.key_or_group: override.value() for override in groups}
        if "problem" in chosen and chosen.get("experiment"):
            words = [*search, f"experiment={chosen['experiment']}"]
            own = hydra.compose(config_name, words, return_hydra_config=True).hydra.runtime.choices.problem
            if own != chosen["problem"]:
                rule = f"experiment={chosen['experiment']} is for problem={own}"
                raise ValueError(f"{rule}, not for problem={chosen['problem']}")
    for override in overrides:
        key = override.key_or_group
        if override not in groups and not key.startswith("hydra") and not _exists(cfg, key):
            raise ValueError(f"there is no key {key}; {_alternatives(cfg, key)}")


def check_sweep(words: list[str]) -> None:
    """Raises ValueError if several runs would write to one folder: the second would be refused after the first."""
    overrides = OverridesParser.create().parse_overrides(words)
    swept = [override for override in overrides if override.is_sweep_override()]
    for override in overrides:
        alike = override not in swept and "$" not in override.input_line
        if swept and alike and override.key_or_group == "run_dir":
            raise ValueError(f"{override.input_line} is that of every run; try 'run_dir=runs/seed${{seed}}'")


def _exists(cfg: DictConfig, key: str) -> bool:
    node: Any = cfg
    for part in key.split("."):
        if not OmegaConf.is_dict(node) or part not in node.keys():  # `in node` denies missing values
            return False
        node = node._get_node(part)
    return True


def _alternatives(cfg: DictConfig, key: str) -> str:
    parent, _, name = key.rpartition(".")
    if parent and _exists(cfg, parent):
        siblings = OmegaConf.select(cfg, parent)
        if OmegaConf.is_dict(siblings):
            return f"{parent} has {', '.join(sorted(k for k in siblings if k != '_target_'))}"
        value = "null" if siblings is None else siblings
        return f"{parent} is {value}, give the whole of it: '{parent}={{{name}: ...}}'"
    names = sorted(str(k) for k in cfg)
    close = difflib.get_close_matches(parent or name, names, n=1)
    return (f"did you mean {close[0]}? " if close else "") + f"The keys are {', '.join(names)}"


def build_part(cfg: DictConfig, key: str, base: type) -> Any:
    """The object that `problem` or `model` of the configuration describes, see `gumbeldore.runtime.building`."""
    return build(OmegaConf.to_container(cfg[key], resolve=True), key, base)


def build_methods(cfg: DictConfig) -> dict[str, Any]:
    """The search methods of the configuration by name.

    Raises ValueError naming the `search` value that is wrong.
    """
    built = {}
    for name, node in cfg.methods.items():
        try:
            built[name] = instantiate(node)
        except Exception as error:
            cause = error.__cause__ or error
            raise ValueError(f"search={name}: {cause}") from None
    return built


def set_step_size(search: DictConfig, found: LoadedPolicy) -> None:
    """The step size of the training run, unless another was asked for. Raises ValueError if the run had none."""
    if search.step_size is None:
        with checkpoint.checkpoint_errors(found.path):
            search.step_size = found.config["search"]["step_size"]


def join_cluster(cfg: DictConfig, *objects: Any) -> None:
    """Join the Ray cluster of ray.address, if one is given, and send it what the objects' classes are made of.

    Raises ValueError if that cannot be done, or nothing would run there.
    """
    address = cfg.ray.address
    if address is None:
        return
    solves = "solver" in cfg.get("methods", []) or cfg.get("references") == "solver"
    if not (cfg.workers or solves and cfg.solver.workers):
        raise ValueError(f"ray.address={address} has no effect with workers=0")
    own = {"gumbeldore", "problems", "models"}
    packages = own | {type(thing).__module__.partition(".")[0] for thing in objects}
    ray_cluster.join(str(address), [import_module(name) for name in sorted(packages - {"__main__"})])


def flat(cfg: DictConfig) -> dict[str, Any]:
    """Every value of the configuration by its dotted key."""

    def walk(values: dict, prefix: str) -> dict[str, Any]:
        found = {}
        for key, value in values.items():
            found |= walk(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
        return found

    return walk(OmegaConf.to_container(cfg, resolve=True), "")


def reads(node: DictConfig) -> set[str]:
    """The keys of `search` that a method, or several, take their values from."""
    return set(re.findall(r"\$\{search\.(\w+)\}", str(OmegaConf.to_container(node))))


def check_effect(cfg: DictConfig, words: list[str]) -> None:
    """Refuse values that nothing reads: of `search`, of `solver`, of sampling where nothing is sampled (ValueError)."""
    read = reads(cfg.methods)
    for word in words:
        group, _, key = word.split("=")[0].partition(".")
        if group == "search" and key and key not in read:
            raise ValueError(f"search.{key} has no effect on {', '.join(cfg.methods)}")
        if group == "solver" and "solver" not in (*cfg.methods, cfg.references):
            raise ValueError(f"solver.{key} has no effect without references=solver or search=solver")
        if group == "train" and key.split(".")[0] in SAMPLING and cfg.train.experts is not None:
            raise ValueError(f"train.{key} has no effect on train=supervised, which samples nothing")
