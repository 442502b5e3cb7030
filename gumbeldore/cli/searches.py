"""The methods of a study, with the values that `search` lists for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from gumbeldore.cli.configuration import Configuration, to_plain
from gumbeldore.cli.methods import build_method, build_search, methods_of, search_keys
from gumbeldore.studies.study import ChosenMethod


def chosen_methods(config: Configuration) -> list[ChosenMethod]:
    """The methods that method= chooses. Raises ValueError if a list of values is empty, and as `methods_of`."""
    search = config.cfg.search
    if empty := [key for key, value in search.items() if OmegaConf.is_list(value) and not value]:
        raise ValueError(f"search.{empty[0]}=[]: there must be one value at least")
    chosen = [_chosen(name, method, search, to_plain(search)) for name, method in methods_of(config.cfg).items()]
    for method in chosen:
        config.reads("search", method.reads)
    return chosen


def _chosen(name: str, method: DictConfig, search: Mapping[str, Any], settings: dict[str, Any]) -> ChosenMethod:
    """The method. `settings` are those of `search` as plain values."""
    own_limit = "time_limit" in method  # as solvers have; in a study they have that of the searches
    if own_limit and settings["time_limit"] is not None:
        method = method.copy()
        with open_dict(method):
            del method["time_limit"]
    return ChosenMethod(
        name=name,
        search=settings,
        reads=search_keys(method, search),
        own_limit=own_limit,
        build=lambda values: build_method(name, method, {**search, **values}),
        build_search=lambda values: build_search(name, method, {**search, **values}),
    )
