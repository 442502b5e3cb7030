"""What a command was asked for: the composed configuration, and the objects that are made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, TypeVar

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import InterpolationKeyError

from gumbeldore.cli.methods import build_method, build_search, methods_of, search_keys
from gumbeldore.cli.schema import COMMANDS, SEARCH, TRAIN, RaySettings, SolverSettings, defaults_of
from gumbeldore.cli.words import CONFIGS, is_group, typed_keys
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.loading import LoadedPolicy, decisions_per_pass, prefers_local_search
from gumbeldore.parallel import ray_cluster
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.building import NAMED, build, check_keys
from gumbeldore.runtime.checked import Checked, Limits, check
from gumbeldore.sampler.methods import Method
from gumbeldore.training.settings import ALGORITHMS, ImitationSettings

Settings = TypeVar("Settings", bound=Checked)
DECISIVE = ("init", "train.", "search.", "model.", "problem.", "methods.")  # what a training learns depends on them


class Configuration:
    """Values by key, of which objects are made; a value that was typed and that no object reads is refused.

    Arguments:
        cfg: composed by Hydra, or read from the folder of an earlier run
        words: that were typed; None: those of this command, none where a program calls it
        composed: whether the user's own words and option files make it, whose classes may be of any package
    """

    def __init__(self, cfg: DictConfig, words: Sequence[str] | None = None, composed: bool = True):
        self.cfg = cfg
        parts = [cfg.get("problem"), cfg.get("model"), *(cfg.get("methods") or {}).values()] if composed else []
        NAMED.update(str(part["_target_"]).partition(".")[0] for part in parts if part and "_target_" in part)
        self._read: set[str] = set()
        self._ignored: dict[str, str] = {}  # why a key has no effect
        if words is None:
            words = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
        self.words = list(words)
        self.typed = [key for key in typed_keys(self.words) if not is_group(key)]

    @classmethod
    def of_training(cls, *words: str) -> Configuration:
        """What train.py makes of these words, its recipe applied."""
        with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
            config = cls(hydra.compose("train", list(words)), words)
        config.apply_recipe()
        return config

    def plain(self, key: str) -> dict[str, Any]:
        """A part of the configuration as plain values."""
        return to_plain(self.cfg[key])

    def flat(self) -> dict[str, Any]:
        """Every value by its dotted key."""

        def walk(values: dict, prefix: str) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for key, value in values.items():
                found |= walk(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
            return found

        return walk(to_plain(self.cfg), "")

    def hyperparameters(self) -> dict[str, Any]:
        """What tells trainings apart: the options and the values that were typed, and the seed."""
        values = self.flat()
        typed = {key: values[key] for key in self.typed if key in values and key.startswith(DECISIVE)}
        return {**self.choices, "seed": values["seed"], **typed}

    @property
    def choices(self) -> dict[str, str]:
        """The options that were typed, by their groups."""
        return dict(word.split("=", 1) for word in self.words if is_group(word.split("=")[0]))

    def preset(self) -> str | None:
        """The preset (an experiment, or a problem) that was typed and is trained as it stands; else None."""
        choices = self.choices
        if choices.keys() - {"problem", "experiment"} or any(key.startswith(DECISIVE) for key in self.typed):
            return None
        return choices.get("experiment") or choices.get("problem")

    def reads(self, group: str, names: Iterable[str]) -> None:
        """Note that keys have an effect."""
        self._read |= {f"{group}.{name}" if group else name for name in names}

    def ignores(self, key: str, why: str) -> None:
        """Note that a key has no effect, although an object has a setting for it."""
        self._ignored[key] = why

    def refuse_unknown_keys(self, command: str) -> None:
        """Raises ValueError for a key of a file (--config-dir) that the command, or its `search`, does not have."""
        known = {*COMMANDS[command], "problem", "model", "methods"}
        for key in map(str, self.cfg):
            if key not in known:
                raise ValueError(f"there is no key {key}; the keys are {', '.join(sorted(known))}")
        check_keys(self.cfg.search, SEARCH, "search")

    def settings(self, cls: type[Settings], group: str = "") -> Settings:
        """The settings of a class. Raises ValueError for a value that is out of range, or missing."""
        values = self.cfg[group] if group else self.cfg
        for spec in dataclasses.fields(cls):
            self.reads(group, [spec.name])
            if spec.default is dataclasses.MISSING and values.get(spec.name) is None:
                raise ValueError(f"{group}{'.' if group else ''}{spec.name} must be given; --help says what it takes")
            if OmegaConf.is_dict(values[spec.name]):
                self.reads(spec.name, values[spec.name])
        return cls.of(values)

    def algorithm(self) -> ImitationSettings:
        """The settings of the training's algorithm, which train= chooses."""
        if "train.algorithm" in self.typed:
            raise ValueError("train.algorithm is what train= sets; choose train=supervised or train=active_search")
        check_keys(self.cfg.train, TRAIN, "train")
        kind = self.cfg.train.algorithm
        if kind not in ALGORITHMS:
            raise ValueError(f"train.algorithm must be one of {', '.join(ALGORITHMS)}, got {kind!r}")
        # Presets give sizes for all algorithms; but what is null by default turns one algorithm into another.
        for name in TRAIN.keys() - defaults_of(ALGORITHMS[kind]).keys() - {"algorithm"}:
            if TRAIN[name] is None and self.cfg.train[name] is not None:
                raise ValueError(f"train.{name} has no effect {self._why_unread(f'train.{name}')}")
        return self.settings(ALGORITHMS[kind], "train")

    def part(self, key: str, base: type) -> Any:
        """The object that `problem` or `model` describes, see `gumbeldore.runtime.building`."""
        values = self.plain(key)
        self.reads(key, values)
        return build(values, key, base)

    def problem_values(self) -> dict[str, Any]:
        """Values in place of those with which a policy was trained; None: as in the training."""
        values = self.plain("problem")
        self.reads("problem", values)
        return values

    def apply_recipe(self) -> None:
        """Put what the recipe adds (`additions`) into the problem, the network and the training that refer to it.

        Its search settings replace the preset's, but not what was typed.
        """
        for key, value in (OmegaConf.select(self.cfg, "additions.search") or {}).items():
            if f"search.{key}" not in self.typed:
                self.cfg.search[key] = value
        try:
            OmegaConf.resolve(self.cfg)
        except InterpolationKeyError:
            self.training_search()  # says more, where the method is at fault
            raise
        with open_dict(self.cfg):
            self.cfg.pop("additions", None)

    def training_search(self) -> Method:
        """The search that samples the experts. Raises ValueError unless there is exactly one method."""
        methods = methods_of(self.cfg)
        if len(methods) != 1:
            raise ValueError(f"training samples with one search method, got method={list(methods)}")
        ((name, method),) = methods.items()
        search = build_search(name, method, self.cfg.search)
        keys = search_keys(method, self.cfg.search)
        self.reads("search", keys)
        if not {"top_p_start", "top_p_end"} & set(keys):
            self.ignores("train.nucleus_after", f"on {name}, without a nucleus")
        return search

    def methods(self, loaded: LoadedPolicy) -> dict[str, Method | Baseline]:
        """All methods by name, with the policy's step size unless another was asked for.

        With a time limit alone, the method is the local search if the problem prefers it.
        """
        search = self.cfg.search.copy()
        set_for_policy(search, loaded)
        unnamed = "method" not in self.choices
        if unnamed and search.time_limit is not None and prefers_local_search(loaded.problem):
            with open_dict(self.cfg):
                self.cfg.methods = {"local_search": OmegaConf.load(CONFIGS / "method/local_search.yaml")}
        found = {}
        for name, method in methods_of(self.cfg).items():
            found[name] = build_method(name, method, search)
            self.reads("search", search_keys(method, search))
        return found

    def solver(self) -> SolverSettings | None:
        """The settings of the solver; None where nothing asks for it."""
        methods = OmegaConf.to_container(self.cfg.get("methods", OmegaConf.create({})), resolve=False)
        if self.cfg.get("references") != "solver" and "${solver." not in str(methods):
            return None
        return self.settings(SolverSettings, "solver")

    def refuse_unread(self, why: str | None = None) -> None:
        """Raises ValueError for the first value that was typed and that no object has read.

        Arguments:
            why: the reason that the error names; None: it depends on the key
        """
        for key in self.typed:
            if key.startswith("methods."):  # a chosen method takes all settings of its own file
                continue
            ignored = self._ignored.get(key) or self._ignored.get(key.partition(".")[0])
            if OmegaConf.select(self.cfg, key) is not None and (ignored or key not in self._read):
                raise ValueError(f"{key} has no effect {ignored or why or self._why_unread(key)}")

    def _why_unread(self, key: str) -> str:
        group, _, name = key.partition(".")
        if group == "search":
            return f"on {', '.join(self.cfg.methods)}"
        if group == "solver":
            return "without references=solver or method=solver"
        if group == "train":
            readers = [kind for kind, cls in ALGORITHMS.items() if name in defaults_of(cls)]
            return f"on train={self.cfg.train.algorithm}, only on train={', '.join(readers)}"
        return "here"

    def join_cluster(self, *objects: Any) -> None:
        """Join the Ray cluster of ray.address, if one is given, and send it what the objects' classes are made of.

        Raises ValueError if that cannot be done, or nothing would run there.
        """
        address = self.settings(RaySettings, "ray").address
        solver = self.solver() if "solver" in self.cfg else None
        if address is None:
            return
        if not (self.cfg.workers or solver and solver.workers):
            raise ValueError(f"ray.address={address} has no effect with workers=0")
        own = {"gumbeldore", "problems", "models"}
        modules = [type(thing).__module__ for thing in objects]
        modules += [method._target_ for method in self.cfg.get("methods", {}).values()]
        packages = own | {module.partition(".")[0] for module in modules}
        ray_cluster.join(str(address), [import_module(name) for name in sorted(packages - {"__main__"})])


def to_plain(node: DictConfig) -> dict[str, Any]:
    """A part of a configuration as plain values."""
    values = OmegaConf.to_container(node, resolve=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def set_for_policy(search: DictConfig, found: LoadedPolicy) -> None:
    """Where nothing was asked for: the step size of the training run, and the decisions per pass of the problem.

    Raises ValueError if the run had no step size.
    """
    if search.decisions_per_pass is None:
        search.decisions_per_pass = decisions_per_pass(found.problem)
    if search.step_size is None:
        with checkpoint.checkpoint_errors(found.path):
            step_size = found.config["search"]["step_size"]
            check("search.step_size", step_size, float | None, Limits(0))
        search.step_size = step_size
