"""What train.py and evaluate.py share of the command line: checked keys, checked objects, one-line errors."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs.removed import refuse_removed
from gumbeldore import cluster
from gumbeldore.actors import WorkerError

FOLDER = Path(__file__).parent
KINDS = {
    int: (int, "an integer", "integers"),
    float: ((int, float), "a number", "numbers"),
    bool: (bool, "true or false", "true and false"),
    str: (str, "text", "texts"),
    list: ((list, tuple), "a list", "lists"),
    NoneType: (NoneType, "null", "nulls"),
}
# Of `train`, for sampled experts only.
SAMPLING = ("instances_per_epoch", "decisions_per_epoch", "nucleus_after", "greedy_too", "forget", "dataset_capacity")

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
        refuse_removed(override.key_or_group)
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


def check_keys(given: Collection[str], known: Collection[str], group: str) -> None:
    """Refuse a key that a file gives and the group (`train`, `model`, ...) does not have: ValueError."""
    for name in given:
        if name not in known:
            refuse_removed(f"{group}.{name}")
            raise ValueError(f"there is no key {group}.{name}; {group} has {', '.join(sorted(known))}")


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


def build(node: DictConfig | dict, key: str, *required: str) -> Any:
    """The object a node describes: its class `_target_`, called with the other values, nothing else.

    A configuration may come out of somebody's checkpoint, so the target must be a class with the attributes
    `required`, and no value may name a target of its own.

    Raises ValueError naming the key and the value that is wrong.
    """
    values = dict(OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node)
    target = values.pop("_target_", None)
    try:
        cls = resolve_name(str(target))
    except Exception as error:  # of whatever is imported
        where = "; is its folder in PYTHONPATH?" if isinstance(error, ModuleNotFoundError) else ""
        raise ValueError(f"{key}._target_={target} is not a class that can be imported: {error}{where}") from None
    if not isinstance(cls, type):
        raise ValueError(f"{key}._target_={target} is not a class")
    missing = [name for name in required if not hasattr(cls, name)]
    if missing:
        raise ValueError(f"{key}._target_={target} lacks {', '.join(missing)}")
    if "_target_" in str(values):
        raise ValueError(f"{key} must hold plain values, no targets: {values}")
    _check_arguments(cls, key, values)
    try:
        return cls(**values)
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise ValueError(f"{key}: {error}") from None


def _check_arguments(cls: type, key: str, values: dict[str, Any]) -> None:
    """Raises ValueError for a value that the class does not take, or of another kind than it says."""
    parameters = inspect.signature(cls).parameters
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        check_keys(values, parameters, key)
    for name, parameter in parameters.items():
        annotation = _evaluated(parameter.annotation, cls)
        if name in values and not _fits(values[name], annotation):
            raise ValueError(f"{key}: {name} must be {_words(annotation)}, got {values[name]!r}")


def _evaluated(annotation: Any, cls: type) -> Any:
    """What the text of an annotation stands for; the text itself if only type checkers import its names."""
    if isinstance(annotation, str):
        with contextlib.suppress(Exception):
            return eval(annotation, cls.__init__.__globals__)
    return annotation


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of the kind an annotation names; anything is, of one that is not known here."""
    outer, inner = get_origin(annotation) or annotation, get_args(annotation)
    if outer in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if outer not in KINDS:
        return True
    if not isinstance(value, KINDS[outer][0]) or isinstance(value, bool) != (outer is bool):
        return False
    return not inner or all(_fits(each, inner[0]) for each in value)


def _words(annotation: Any, several: bool = False) -> str:
    """What an annotation says, for people."""
    outer, inner = get_origin(annotation) or annotation, get_args(annotation)
    if outer in (Union, UnionType):
        return " or ".join(_words(each, several) for each in inner)
    if outer not in KINDS:
        return str(annotation)
    return KINDS[outer][1 + several] + (f" of {_words(inner[0], several=True)}" if inner else "")


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
    cluster.join(str(address), [import_module(name) for name in sorted(packages - {"__main__"})])


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
