"""The objects that a configuration describes: problem, network, search methods, and the cluster they are sent to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import InterpolationKeyError

from gumbeldore.benchmark import Benchmark
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.loading import LoadedPolicy
from gumbeldore.parallel import ray_cluster
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.building import build, imported
from gumbeldore.sampler.methods import DEFAULTS, Anytime, Method, made, settings_of
from gumbeldore.sampler.search import check_offered


def plain(node: DictConfig) -> dict[str, Any]:
    """A part of the configuration as plain values."""
    values = OmegaConf.to_container(node, resolve=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def apply_recipe(cfg: DictConfig, typed: Collection[str] = ()) -> None:
    """Put what the recipe adds (`additions`) into the problem, the network and the training that refer to it.

    Its search settings replace the preset's, but not what was typed.

    Arguments:
        typed: the keys that words of the command line give values, in full
    """
    for key, value in (OmegaConf.select(cfg, "additions.search") or {}).items():
        if f"search.{key}" not in typed:
            cfg.search[key] = value
    OmegaConf.resolve(cfg)
    with open_dict(cfg):
        cfg.pop("additions", None)


def build_part(cfg: DictConfig, key: str, base: type) -> Any:
    """The object that `problem` or `model` of the configuration describes, see `gumbeldore.runtime.building`."""
    return build(plain(cfg[key]), key, base)


def methods_of(cfg: DictConfig) -> dict[str, DictConfig]:
    """The chosen methods by name. Raises ValueError if the file of a method does not say that it is one."""
    if "methods" not in cfg:
        rule = "the file of a method begins with the line `# @package methods.<its name>`"
        raise ValueError(f"method=: nothing in the chosen files is a method; {rule}")
    return {str(name): method for name, method in cfg.methods.items()}


def search_keys(method: Mapping[str, Any], search: Mapping[str, Any]) -> list[str]:
    """The keys of `search` that a method is given: its settings that its own file does not set."""
    target, starts = _target_of(method), search["start"]
    starts = starts if OmegaConf.is_list(starts) else [starts]
    each = [inspect.signature(target).parameters if _is_baseline(target) else settings_of(target, x) for x in starts]
    read = set().union(*each)
    return [key for key in search if key in read and key not in method.keys()]


def _target_of(method: Mapping[str, Any]) -> Callable[..., Any]:
    """What makes the method. Raises ValueError if it cannot be called."""
    path = method["_target_"] if "_target_" in method else None
    target = imported(path, "method")
    if not callable(target):
        raise ValueError(f"method._target_={path} is neither a function nor a class")
    return target


def _is_baseline(target: Callable[..., Any]) -> bool:
    return isinstance(target, type) and issubclass(target, Baseline)


def with_defaults(search: DictConfig) -> DictConfig:
    """The settings of the searches; those that are null have the methods' own defaults, but for the step size."""
    missing = [key for key in search if key in DEFAULTS and key != "step_size" and search[key] is None]
    filled = OmegaConf.merge(search, {key: DEFAULTS[key] for key in missing})
    assert isinstance(filled, DictConfig)
    return filled


def build_method(name: str, method: DictConfig, search: Mapping[str, Any]) -> Method | Baseline:
    """A search with the policy, or a baseline without it.

    Arguments:
        name: what `method=` calls it
        method: `_target_`, and arguments that are the method's own
        search: settings, of which the method is given those that it reads

    Raises ValueError naming the method and what is wrong.
    """
    try:
        read = {key: search[key] for key in search_keys(method, search)}
        if "step_size" in read and read["step_size"] is None:
            raise ValueError("search.step_size must be given: the policy has none of a training")
        maker = instantiate(method, _partial_=True)
        built = maker(**read) if _is_baseline(_target_of(method)) else made(maker, read)
    except InterpolationKeyError as error:
        raise ValueError(f"method={name} does not belong to this command: {str(error).splitlines()[0]}") from None
    except Exception as error:  # of the user's own callable, too
        raise ValueError(f"method={name}: {' '.join(str(error.__cause__ or error).split())}") from None
    if not isinstance(built, (Method, Baseline)):
        raise ValueError(f"method={name} must be a Method or a Baseline, got {type(built).__name__}")
    return built


def build_methods(cfg: DictConfig, loaded: LoadedPolicy) -> dict[str, Method | Baseline]:
    """All methods of the configuration by name, with the policy's step size. Raises ValueError as `build_method`."""
    search = cfg.search.copy()
    set_step_size(search, loaded)
    return {name: build_method(name, node, search) for name, node in methods_of(cfg).items()}


def build_search(name: str, method: DictConfig, search: Mapping[str, Any]) -> Method:
    """A method that must be a search of a given number of samples. Raises ValueError if it is none."""
    built = build_method(name, method, search)
    if not isinstance(built, Method):
        raise ValueError(f"method={name} is no search with the policy, but a baseline")
    if isinstance(built, Anytime):
        raise ValueError("search.time_limit would make the result depend on the machine's speed; set search.num_rounds")
    return built


def check_method(name: str, method: Method | Baseline, loaded: LoadedPolicy, benchmarks: Iterable[Benchmark]) -> None:
    """Raises ValueError if a method is not for the problem, or the problem does not offer what these instances need."""
    if not isinstance(method, Method):
        method.check(loaded.problem.name)
        return
    for benchmark in benchmarks:
        try:
            check_offered(loaded.problem, loaded.policy, benchmark.instances, method)
        except ValueError as error:
            raise ValueError(f"method={name}: {error}") from None


def training_search(cfg: DictConfig) -> Method:
    """The search that samples the experts. Raises ValueError unless the configuration has exactly one method."""
    methods = methods_of(cfg)
    if len(methods) != 1:
        raise ValueError(f"training samples with one search method, got method={list(methods)}")
    ((name, method),) = methods.items()
    return build_search(name, method, cfg.search)


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
    methods = cfg.get("methods", {})
    solves = "solver" in methods or cfg.get("references") == "solver"
    if not (cfg.workers or solves and cfg.solver.workers):
        raise ValueError(f"ray.address={address} has no effect with workers=0")
    own = {"gumbeldore", "problems", "models"}
    modules = [type(thing).__module__ for thing in objects] + [method._target_ for method in methods.values()]
    packages = own | {module.partition(".")[0] for module in modules}
    ray_cluster.join(str(address), [import_module(name) for name in sorted(packages - {"__main__"})])
