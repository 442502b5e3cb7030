"""The search methods that a configuration chooses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationKeyError

from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.loading import LoadedPolicy
from gumbeldore.instance_set import InstanceSet
from gumbeldore.runtime.building import arguments_of, imported
from gumbeldore.sampler.methods import Anytime, Method, made, settings_of
from gumbeldore.sampler.search import check_offered


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
    timed = search["time_limit"] is not None
    if _is_baseline(target):
        read = set(inspect.signature(target).parameters)
    else:
        read = set().union(*(settings_of(target, start, timed) for start in starts))
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
        target, plain = _target_of(method), OmegaConf.to_container(method, resolve=True)
        assert isinstance(plain, dict)
        maker = partial(target, **arguments_of(plain, f"methods.{name}"))
        built = maker(**read) if _is_baseline(target) else made(maker, read)
    except InterpolationKeyError as error:
        raise ValueError(f"method={name} does not belong to this command: {str(error).splitlines()[0]}") from None
    except Exception as error:  # of the user's own callable, too
        raise ValueError(f"method={name}: {' '.join(str(error.__cause__ or error).split())}") from None
    if not isinstance(built, (Method, Baseline)):
        raise ValueError(f"method={name} must be a Method or a Baseline, got {type(built).__name__}")
    return built


def build_search(name: str, method: DictConfig, search: Mapping[str, Any]) -> Method:
    """A method that must be a search of a given number of samples. Raises ValueError if it is none."""
    built = build_method(name, method, search)
    if not isinstance(built, Method):
        raise ValueError(f"method={name} is no search with the policy, but a baseline")
    if isinstance(built, Anytime):
        raise ValueError("search.time_limit would make the result depend on the machine's speed; set search.num_rounds")
    return built


def check_method(
    name: str, method: Method | Baseline, loaded: LoadedPolicy, instance_sets: Iterable[InstanceSet]
) -> None:
    """Raises ValueError if a method is not for the problem, or the problem does not offer what these instances need."""
    if not isinstance(method, Method):
        method.check(loaded.problem.name)
        return
    for instance_set in instance_sets:
        try:
            check_offered(loaded.problem, loaded.policy, instance_set.instances, method)
        except ValueError as error:
            raise ValueError(f"method={name}: {error}") from None
